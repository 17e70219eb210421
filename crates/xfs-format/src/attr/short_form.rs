//! The short form: a few attributes inside their inode.
//!
//! Owns: decoding and iteration.
//!
//! ```text
//! 0 size in bytes (2)  2 count  3 pad
//! then each: 0 name length  1 value length  2 flags  3 name ..  value ..
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{AttrCheck, AttrEntry, AttrFlags, AttrValue, Namespace};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::short_form::short_form_iterator;

/// The header of the short form.
#[doc(alias = "xfs_attr_sf_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct AttrShortFormHeaderDisk {
    pub size: U16,
    pub count: u8,
    pub pad: u8,
}

/// The fields of an entry before its name.
#[doc(alias = "xfs_attr_sf_entry")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct AttrShortFormEntryDisk {
    pub name_length: u8,
    pub value_length: u8,
    pub flags: u8,
}

/// All bytes before the first name: the header, and the fields of the first entry.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct FirstDisk {
    header: AttrShortFormHeaderDisk,
    entry: AttrShortFormEntryDisk,
}

const _: () = assert!(size_of::<AttrShortFormHeaderDisk>() == 4);
const _: () = assert!(size_of::<AttrShortFormEntryDisk>() == 3);

/// Short form attributes, borrowed from their inode.
#[doc(alias = "xfs_attr_shortform")]
#[derive(Clone, Copy, Debug)]
pub struct AttrShortForm<'a> {
    /// The bytes of the entries, up to the end of the form.
    entries: &'a [u8],
    count: u8,
    place: StructureAddress,
}

impl<'a> AttrShortForm<'a> {
    /// Decodes the header. `bytes` are the attribute fork, which may be longer than the form.
    ///
    /// # Errors
    ///
    /// Returns an error if the form does not lie inside the fork.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        let corrupt = |check: Check| Corruption::new(Structure::Attr, place, check);
        let needed = size_of::<AttrShortFormHeaderDisk>();
        let Ok((header, _)) = AttrShortFormHeaderDisk::ref_from_prefix(bytes) else {
            return Err(corrupt(Check::Truncated { available: bytes.len(), needed }));
        };
        let size = header.size.get();
        match bytes.get(needed..size.into()) {
            Some(entries) => Ok(Self { entries, count: header.count, place }),
            None => {
                let available = bytes.len();
                Err(corrupt(AttrCheck::ShortFormSize { size, available }.into()))
            }
        }
    }

    /// Returns the number of attributes.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Returns the attributes in the order in which they are stored. Iteration ends after the first
    /// error.
    #[must_use]
    pub fn entries(&self) -> AttrShortFormEntries<'a> {
        AttrShortFormEntries { form: *self, rest: self.entries, left: self.count }
    }

    /// Finds the attribute with this name; the result is `None` if there is no such attribute. For
    /// attributes with other names only the lengths are checked; [`verify`](Self::verify) checks
    /// all fields.
    ///
    /// # Errors
    ///
    /// Returns an error if an attribute does not end inside the form, or the attribute with the
    /// name is invalid.
    pub fn find(
        &self,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<Option<AttrEntry<'a>>, Corruption> {
        let (mut rest, mut left) = (self.entries, self.count);
        while left > 0 {
            if let Some(after) = skip_other(rest, name) {
                (rest, left) = (after, left - 1);
                continue;
            }
            let mut entries = AttrShortFormEntries { form: *self, rest, left };
            match entries.next().transpose()? {
                Some(entry) if entry.namespace == namespace && entry.name == name => {
                    return Ok(Some(entry));
                }
                _ => (rest, left) = (entries.rest, entries.left),
            }
        }
        Ok(None)
    }

    /// Checks the whole form.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self) -> Result<(), Corruption> {
        let mut entries = self.entries();
        for entry in entries.by_ref() {
            entry?;
        }
        if entries.rest.is_empty() {
            return Ok(());
        }
        let offset = self.entries.len() - entries.rest.len();
        Err(self.corrupt(AttrCheck::EntryEnd { offset, end: self.entries.len() }))
    }

    #[cold]
    fn corrupt(&self, check: AttrCheck) -> Corruption {
        Corruption::new(Structure::Attr, self.place, check)
    }
}

/// Returns the entries after the first entry. Returns `None` if the first entry has the name
/// `name`, or if it does not lie inside `entries`.
#[inline]
fn skip_other<'a>(entries: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = AttrShortFormEntryDisk::ref_from_prefix(entries).ok()?;
    let name_length = usize::from(head.name_length);
    let after = rest.get(name_length + usize::from(head.value_length)..)?;
    let is_match = name_length == name.len() && rest.starts_with(name);
    (!is_match).then_some(after)
}

/// Encodes attributes in short form. Returns `None` if they are too many or too long, or if one of
/// them has a remote value.
#[must_use]
pub fn encode(entries: &[AttrEntry<'_>]) -> Option<Vec<u8>> {
    let length = |entry: &AttrEntry<'_>| match entry.value {
        AttrValue::Local(value) => entry.name.len() + value.len(),
        AttrValue::Remote { .. } => 0,
    };
    let heads = entries.len() * size_of::<AttrShortFormEntryDisk>();
    let size =
        size_of::<AttrShortFormHeaderDisk>() + heads + entries.iter().map(length).sum::<usize>();
    let header = AttrShortFormHeaderDisk {
        size: u16::try_from(size).ok()?.into(),
        count: u8::try_from(entries.len()).ok()?,
        pad: 0,
    };
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(header.as_bytes());
    for entry in entries {
        let AttrValue::Local(value) = entry.value else { return None };
        let head = AttrShortFormEntryDisk {
            name_length: u8::try_from(entry.name.len()).ok()?,
            value_length: u8::try_from(value.len()).ok()?,
            flags: entry.namespace.flags().bits(),
        };
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(entry.name);
        bytes.extend_from_slice(value);
    }
    Some(bytes)
}

/// Encodes one attribute with a local value in short form, for a new inode. The result is the same
/// as that of [`encode`]. Returns `None` if the attribute is too long for the form, or the form is
/// longer than `room` bytes.
#[must_use]
pub fn encode_first(
    namespace: Namespace,
    name: &[u8],
    value: &[u8],
    room: usize,
) -> Option<Arc<[u8]>> {
    let length = size_of::<FirstDisk>() + name.len() + value.len();
    let first = FirstDisk {
        header: AttrShortFormHeaderDisk { size: (length as u16).into(), count: 1, pad: 0 },
        entry: AttrShortFormEntryDisk {
            name_length: u8::try_from(name.len()).ok()?,
            value_length: u8::try_from(value.len()).ok()?,
            flags: namespace.flags().bits(),
        },
    };
    if length > room {
        return None;
    }
    let mut shared: Arc<[u8]> = core::iter::repeat_n(0, length).collect();
    let bytes = Arc::get_mut(&mut shared)?;
    let (head, rest) = bytes.split_at_mut(size_of::<FirstDisk>());
    head.copy_from_slice(first.as_bytes());
    let (name_bytes, value_bytes) = rest.split_at_mut(name.len());
    name_bytes.copy_from_slice(name);
    value_bytes.copy_from_slice(value);
    Some(shared)
}

/// Iterator over short form attributes.
#[derive(Clone, Debug)]
pub struct AttrShortFormEntries<'a> {
    form: AttrShortForm<'a>,
    rest: &'a [u8],
    left: u8,
}

impl<'a> AttrShortFormEntries<'a> {
    fn parse(&mut self) -> Result<AttrEntry<'a>, AttrCheck> {
        let end = self.form.entries.len();
        let index = usize::from(self.form.count) - usize::from(self.left) - 1;
        let outside = AttrCheck::EntryEnd { offset: end - self.rest.len(), end };
        let (head, rest) =
            AttrShortFormEntryDisk::ref_from_prefix(self.rest).map_err(|_| outside)?;
        let (name, rest) = rest.split_at_checked(head.name_length.into()).ok_or(outside)?;
        let (value, rest) = rest.split_at_checked(head.value_length.into()).ok_or(outside)?;
        if name.is_empty() {
            return Err(AttrCheck::NameEmpty { index });
        }
        let namespace = verify_flags(head.flags, AttrFlags::empty())
            .ok_or(AttrCheck::Flags { index, flags: head.flags })?;
        if name.contains(&0) {
            return Err(AttrCheck::NameBytes { index });
        }
        self.rest = rest;
        Ok(AttrEntry { namespace, name, value: AttrValue::Local(value) })
    }
}

short_form_iterator!(AttrShortFormEntries, AttrEntry);

/// Returns the namespace in an entry's flags. Returns `None` if a flag is unknown, if the flags
/// name more than one namespace, or if another flag is set that is not in `allowed`.
pub(super) fn verify_flags(byte: u8, allowed: AttrFlags) -> Option<Namespace> {
    let flags = AttrFlags::from_bits(byte)?;
    let namespace = Namespace::from_flags(flags)?;
    allowed.union(namespace.flags()).contains(flags).then_some(namespace)
}

#[cfg(test)]
mod tests;
