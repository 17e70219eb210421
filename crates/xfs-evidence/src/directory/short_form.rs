//! Entries of a damaged directory in short form.
//!
//! Owns: the fields of an entry, and the width of inode numbers. Does **not** own: the division of
//! the short form into entries ([`division`]).

use xfs_format::directory::short_form::FIRST_OFFSET;
use xfs_format::directory::{ALIGNMENT, Cookie, Entry, EntryType, data, name_is_sound};
use xfs_format::{Geometry, InodeNumber};

use crate::division::{self, Division, ShortFormBytes};

/// Length of the two counts before the number of the parent, in bytes.
const COUNTS: usize = 2;
/// Length of the part of an entry before its name, in bytes.
const HEAD: usize = 3;

/// An entry with its fields as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record<'a> {
    offset: u16,
    name: &'a [u8],
    type_byte: u8,
    inode: InodeNumber,
}

/// The entries of a short form, as far as they could be told apart.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortEntries<'a> {
    /// The entries with a legal name and a possible inode. A damaged type is
    /// [`EntryType::Unknown`], and a damaged position is replaced by the one that follows from the
    /// preceding entry.
    pub(super) entries: Vec<Entry<'a>>,
    /// Whether the short form has further entries that cannot be read.
    pub(super) is_missing_any: bool,
}

/// Reads the entries of a directory in short form. `fork` may be longer than the short form, which
/// has `size` bytes according to the inode.
pub(super) fn entries<'a>(fork: &'a [u8], size: u64, geometry: &Geometry) -> ShortEntries<'a> {
    let Some([count, wide_count]) = fork.first_chunk::<COUNTS>().copied() else {
        return ShortEntries { entries: Vec::new(), is_missing_any: true };
    };
    // A damaged count of wide numbers changes the width of all numbers.
    let stated = if wide_count == 0 { NARROW } else { WIDE };
    let other = if wide_count == 0 { WIDE } else { NARROW };
    let divisions = [stated, other].map(|width| divided(fork, size, width, count, geometry));
    let [first, second] = divisions;
    let known = |division: &ShortEntries<'_>| (!division.is_missing_any, division.entries.len());
    if known(&second) > known(&first) { second } else { first }
}

const NARROW: usize = size_of::<u32>();
const WIDE: usize = size_of::<u64>();

fn divided<'a>(
    fork: &'a [u8],
    size: u64,
    width: usize,
    count: u8,
    geometry: &Geometry,
) -> ShortEntries<'a> {
    let start = COUNTS + width;
    let body = fork.get(start..).unwrap_or_default();
    let end = usize::try_from(size).ok().and_then(|size| size.checked_sub(start));
    let form = ShortFormBytes {
        body,
        end: end.filter(|end| *end <= body.len()),
        count: count.into(),
        shortest: HEAD + 1 + 1 + width,
    };
    let division = division::divide(form, |bytes| read(bytes, width, geometry));
    possible(&division, geometry)
}

/// Returns the entry at the start of `bytes`. `None` if its name is empty or it does not lie inside
/// `bytes`.
fn read<'a>(
    bytes: &'a [u8],
    width: usize,
    geometry: &Geometry,
) -> Option<division::Record<Record<'a>>> {
    let [name_length, high, low] = *bytes.first_chunk::<HEAD>()?;
    let (name, rest) = bytes.get(HEAD..)?.split_at_checked(name_length.into())?;
    let (type_byte, rest) = rest.split_first()?;
    let number = rest.get(..width)?;
    // The highest of 8 bytes is not part of the number.
    let digits = number.iter().skip(usize::from(width == WIDE));
    let inode = InodeNumber(digits.fold(0, |all, byte| all << 8 | u64::from(*byte)));
    let offset = u16::from_be_bytes([high, low]);
    let fields = Record { offset, name, type_byte: *type_byte, inode };
    let is_sound = name_is_sound(name)
        && EntryType::from_disk(*type_byte).is_some()
        && usize::from(offset) >= FIRST_OFFSET
        && usize::from(offset).is_multiple_of(ALIGNMENT)
        && geometry.split_inode(inode).is_some();
    let length = HEAD + name.len() + 1 + width;
    (!name.is_empty()).then_some(division::Record { fields, length, is_sound })
}

/// Returns the entries of the records in `division` whose names are legal and whose inode numbers
/// are possible.
fn possible<'a>(division: &Division<Record<'a>>, geometry: &Geometry) -> ShortEntries<'a> {
    let mut found = ShortEntries { entries: Vec::new(), is_missing_any: division.unreadable > 0 };
    let mut lowest = FIRST_OFFSET;
    for record in &division.records {
        if !name_is_sound(record.name) || geometry.split_inode(record.inode).is_none() {
            found.is_missing_any = true;
            continue;
        }
        let stated = usize::from(record.offset);
        let is_in_order = stated >= lowest && stated.is_multiple_of(ALIGNMENT);
        let offset = if is_in_order { stated } else { lowest };
        lowest = offset + data::entry_length(record.name.len());
        let Some(cookie) = Cookie::from_offset(offset as u64) else { continue };
        let entry_type = EntryType::from_disk(record.type_byte).unwrap_or(EntryType::Unknown);
        found.entries.push(Entry { name: record.name, inode: record.inode, entry_type, cookie });
    }
    found
}

#[cfg(test)]
mod tests;
