//! Cleans extended attributes before they go into an image: obfuscates names, and zeros values and
//! the bytes that no attribute uses.
//!
//! If names are obfuscated, values become zeros, except the values of parent pointers. These are
//! the inode number and the generation of the directory that has the name, and must match it.

use std::ops::Range;

use xfs_format::attr::leaf::LEAF_MAGIC;
use xfs_format::attr::remote::REMOTE_MAGIC;
use xfs_format::attr::{ALIGNMENT, AttrFlags};
use xfs_format::dabtree::{self, NODE_MAGIC};

use crate::cleaning::{Cleaned, Cleaning};
use crate::directory::INDEX_CRC;
use crate::raw::{number_16, number_32, zero, zero_between};
use crate::seal::Seal;

/// Length of the header of a leaf, in bytes.
const LEAF_HEADER: usize = 80;
/// Length of the header of a node, in bytes.
const NODE_HEADER: usize = 64;
/// Offset of the number of entries in the header of a leaf or a node, in bytes.
const COUNT: usize = 56;
/// Length of an entry of a leaf or a node, in bytes.
const ENTRY: usize = 8;
/// Length of the header of a block that holds part of a remote value, in bytes.
const REMOTE_HEADER: usize = 56;
/// Offset of the checksum in the header of a block of a remote value, in bytes.
const REMOTE_CRC: usize = 12;
/// Number of bytes before the name in the record of an attribute, if the value is in the same leaf.
const LOCAL_HEAD: usize = 3;
/// Number of bytes before the name in the record of an attribute in a leaf, if the value is remote
/// (in other blocks).
const REMOTE_HEAD: usize = 9;
/// Length of the header of an attribute fork in short form (inside the inode), in bytes.
const SHORT_HEADER: usize = 4;
/// Number of bytes before the name in the record of an attribute in short form.
const SHORT_HEAD: usize = 3;

/// Cleans a block of an attribute fork. The magic number in the block shows which kind of block it
/// is.
pub(crate) fn clean_block(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Cleaned {
    if number_32(bytes, 0) == Some(REMOTE_MAGIC) {
        return clean_remote(bytes, cleaning);
    }
    let seal = Seal::of(bytes, INDEX_CRC);
    let cleaned = match dabtree::magic(bytes) {
        Some(LEAF_MAGIC) => clean_leaf(bytes, cleaning).unwrap_or(Cleaned::Partly),
        Some(NODE_MAGIC) => clean_node(bytes, cleaning),
        _ => return cleaning.unknown(bytes),
    };
    seal.renew(bytes);
    cleaned
}

fn clean_remote(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Cleaned {
    if cleaning.obfuscates() {
        let seal = Seal::of(bytes, REMOTE_CRC);
        let whole = REMOTE_HEADER..bytes.len();
        zero(bytes, whole);
        seal.renew(bytes);
    }
    Cleaned::Whole
}

fn clean_node(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Cleaned {
    let count = number_16(bytes, COUNT).map_or(0, usize::from);
    let used = NODE_HEADER + count * ENTRY;
    let is_whole = used <= bytes.len();
    let start = if is_whole { used } else { NODE_HEADER };
    if cleaning.zeroes_stale || (cleaning.obfuscates() && !is_whole) {
        let whole = start..bytes.len();
        zero(bytes, whole);
    }
    Cleaned::whole_if(is_whole)
}

fn clean_leaf(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Option<Cleaned> {
    let count = usize::from(number_16(bytes, COUNT)?);
    let table_end = LEAF_HEADER + count * ENTRY;
    if table_end > bytes.len() {
        return Some(cleaning.unknown(bytes.get_mut(LEAF_HEADER..)?));
    }
    let (mut kept, mut is_whole) = (Vec::with_capacity(count), true);
    for index in 0..count {
        let entry = LEAF_HEADER + index * ENTRY;
        let offset = usize::from(number_16(bytes, entry + 4)?);
        let flags = AttrFlags::from_bits_retain(*bytes.get(entry + 6)?);
        match leaf_range(bytes, offset, flags).filter(|range| range.start >= table_end) {
            Some(range) => kept.push((range, flags)),
            None => is_whole = false,
        }
    }
    kept.sort_by_key(|(range, _)| (range.start, range.end));
    let is_apart = kept.is_sorted_by(|(one, _), (next, _)| one.end <= next.start);
    is_whole &= is_apart;
    // Names that overlap would be replaced twice, and come out as neither.
    if !is_apart && cleaning.obfuscates() {
        return Some(cleaning.unknown(bytes.get_mut(table_end..)?));
    }
    for (range, flags) in &kept {
        clean_leaf_attribute(bytes.get_mut(range.clone())?, *flags, cleaning)?;
    }
    if cleaning.zeroes_stale && (is_whole || cleaning.obfuscates()) {
        let kept: Vec<_> = kept.into_iter().map(|(range, _)| range).collect();
        let whole = table_end..bytes.len();
        zero_between(bytes, whole, &kept);
    }
    Some(Cleaned::whole_if(is_whole))
}

/// Returns the byte range of the attribute at `offset` in a leaf, without padding. `None` if the
/// attribute is damaged.
fn leaf_range(bytes: &[u8], offset: usize, flags: AttrFlags) -> Option<Range<usize>> {
    if offset == 0 || !offset.is_multiple_of(ALIGNMENT) {
        return None;
    }
    let end = if flags.contains(AttrFlags::LOCAL) {
        let value = usize::from(number_16(bytes, offset)?);
        let name = usize::from(*bytes.get(offset + LOCAL_HEAD - 1)?);
        offset + LOCAL_HEAD + name + value
    } else {
        offset + REMOTE_HEAD + usize::from(*bytes.get(offset + REMOTE_HEAD - 1)?)
    };
    (end <= bytes.len()).then_some(offset..end)
}

fn clean_leaf_attribute(bytes: &mut [u8], flags: AttrFlags, cleaning: Cleaning<'_>) -> Option<()> {
    let head = if flags.contains(AttrFlags::LOCAL) { LOCAL_HEAD } else { REMOTE_HEAD };
    let name_length = usize::from(*bytes.get(head - 1)?);
    let (name, value) = bytes.get_mut(head..)?.split_at_mut_checked(name_length)?;
    cleaning.name(name);
    if cleaning.obfuscates() && !flags.contains(AttrFlags::PARENT) {
        value.fill(0);
    }
    Some(())
}

/// Cleans the attributes of an attribute fork in short form (inside the inode). `fork` is the whole
/// room of the fork, including unused bytes.
pub(crate) fn clean_short_form(fork: &mut [u8], cleaning: Cleaning<'_>) -> Cleaned {
    let size = number_16(fork, 0).map_or(usize::MAX, usize::from);
    let Some((used, stale)) = fork.split_at_mut_checked(size) else {
        return cleaning.unknown(fork);
    };
    if cleaning.zeroes_stale {
        stale.fill(0);
    }
    let mut at = SHORT_HEADER.min(used.len());
    match clean_short_entries(used, &mut at, cleaning) {
        Some(()) => Cleaned::Whole,
        None => used.get_mut(at..).map_or(Cleaned::Partly, |rest| cleaning.unknown(rest)),
    }
}

/// Cleans the attributes in `used`, the used bytes of a fork in short form, from offset `at` on.
/// Returns `None` at the first damaged attribute; `at` is then the offset of that attribute.
fn clean_short_entries(used: &mut [u8], at: &mut usize, cleaning: Cleaning<'_>) -> Option<()> {
    for _ in 0..*used.get(2)? {
        let name_length = usize::from(*used.get(*at)?);
        let value_length = usize::from(*used.get(*at + 1)?);
        let flags = AttrFlags::from_bits_retain(*used.get(*at + 2)?);
        let length = SHORT_HEAD + name_length + value_length;
        let entry = used.get_mut(*at..)?.get_mut(..length)?;
        let (name, value) = entry.get_mut(SHORT_HEAD..)?.split_at_mut_checked(name_length)?;
        cleaning.name(name);
        if cleaning.obfuscates() && !flags.contains(AttrFlags::PARENT) {
            value.fill(0);
        }
        *at += length;
    }
    (*at == used.len()).then_some(())
}

#[cfg(test)]
mod tests;
