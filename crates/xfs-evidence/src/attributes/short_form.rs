//! Records of a damaged attribute fork in short form.
//!
//! Owns: the fields of a record. Does **not** own: the division of the short form into records
//! ([`division`]), or the meaning of flags ([`namespace`]).

use xfs_format::attr::short_form::{AttrShortFormEntryDisk, AttrShortFormHeaderDisk};
use zerocopy::FromBytes;

use super::namespace;
use crate::division::{self, Division, ShortFormBytes};

/// A record, with its lengths as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) flags: u8,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Divides an attribute fork in short form into records. `fork` may be longer than the form.
pub(super) fn records(fork: &[u8]) -> Division<Record<'_>> {
    let Ok((header, body)) = AttrShortFormHeaderDisk::ref_from_prefix(fork) else {
        return Division { records: Vec::new(), unreadable: 1, has_doubtful_end: false };
    };
    let end = usize::from(header.size.get()).checked_sub(size_of::<AttrShortFormHeaderDisk>());
    let form = ShortFormBytes {
        body,
        end: end.filter(|end| *end <= body.len()),
        count: header.count.into(),
        shortest: size_of::<AttrShortFormEntryDisk>() + 1,
    };
    division::divide(form, read)
}

/// Returns the record at the start of `bytes`. `None` if its name is empty or it does not lie
/// inside `bytes`.
fn read(bytes: &[u8]) -> Option<division::Record<Record<'_>>> {
    let (head, rest) = AttrShortFormEntryDisk::ref_from_prefix(bytes).ok()?;
    let (name, rest) = rest.split_at_checked(head.name_length.into())?;
    let value = rest.get(..head.value_length.into())?;
    let length = size_of::<AttrShortFormEntryDisk>() + name.len() + value.len();
    let is_sound = namespace::of_short_flags(head.flags).is_some() && !name.contains(&0);
    let fields = Record { flags: head.flags, name, value };
    (!name.is_empty()).then_some(division::Record { fields, length, is_sound })
}

#[cfg(test)]
mod tests;
