//! Cleans directories before they go into an image: obfuscates names, and zeros the bytes that no
//! entry uses.

use std::ops::Range;

use xfs_format::dabtree::{self, NODE_MAGIC};
use xfs_format::directory::data::{BLOCK_MAGIC, DATA_HEADER, DATA_MAGIC, FREE_TAG, entry_length};
use xfs_format::directory::free::FREE_MAGIC;
use xfs_format::directory::leaf::{LEAF1_MAGIC, LEAFN_MAGIC};

use crate::cleaning::{Cleaned, Cleaning};
use crate::raw::{number_16, number_32, zero};
use crate::seal::Seal;

/// Offset of the checksum in blocks of entries and in blocks of the free-space index, in bytes.
const DATA_CRC: usize = 4;
/// Offset of the checksum in blocks of the hash index, in bytes.
pub(crate) const INDEX_CRC: usize = 12;
/// Length of the header of a block of the hash index, in bytes.
const INDEX_HEADER: usize = 64;
/// Offset of the number of entries in the header of a block of the hash index, in bytes.
const INDEX_COUNT: usize = 56;
/// Length of an entry of the hash index, in bytes.
const INDEX_ENTRY: usize = 8;
/// Length of the tail at the end of the block of a directory in block form, in bytes.
const BLOCK_TAIL: usize = 8;
/// Length of the tail at the end of the block of a hash index with a single leaf, in bytes.
const LEAF_TAIL: usize = 4;
/// Length of the header of a block of the free-space index, in bytes.
const FREE_HEADER: usize = 64;
/// Offset of the number of values in the header of a block of the free-space index, in bytes.
const FREE_COUNT: usize = 52;
/// Offset of the name's length in a directory entry, in bytes.
const NAME_LENGTH: usize = 8;

/// A function that cleans a block of one kind. It returns `None` if the block is too short.
type Cleaner = fn(&mut [u8], Cleaning<'_>) -> Option<Cleaned>;

/// Cleans a directory block. The magic number in the block shows which kind of block it is.
pub(crate) fn clean_block(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Cleaned {
    let index_magic = dabtree::magic(bytes);
    let (crc, cleaned): (usize, Cleaner) = match (number_32(bytes, 0), index_magic) {
        (Some(BLOCK_MAGIC | DATA_MAGIC), _) => (DATA_CRC, clean_data),
        (Some(FREE_MAGIC), _) => (DATA_CRC, clean_free),
        (_, Some(NODE_MAGIC | LEAFN_MAGIC | LEAF1_MAGIC)) => (INDEX_CRC, clean_index),
        _ => return cleaning.unknown(bytes),
    };
    let seal = Seal::of(bytes, crc);
    let result = cleaned(bytes, cleaning).unwrap_or(Cleaned::Partly);
    seal.renew(bytes);
    result
}

fn clean_data(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Option<Cleaned> {
    let end = records_end(bytes);
    let mut at = DATA_HEADER;
    let end_of_records = end.unwrap_or(bytes.len());
    while at < end_of_records {
        let Some(length) = clean_record(bytes, at..end_of_records, cleaning) else {
            let rest = bytes.get_mut(at..end_of_records)?;
            return Some(cleaning.unknown(rest));
        };
        at += length;
    }
    Some(Cleaned::whole_if(end.is_some()))
}

/// Returns the offset at which the records of a block of entries end. `None` if the directory is in
/// block form (one block with its index) and the index does not fit in the block.
fn records_end(bytes: &[u8]) -> Option<usize> {
    if number_32(bytes, 0)? != BLOCK_MAGIC {
        return Some(bytes.len());
    }
    let tail = bytes.len().checked_sub(BLOCK_TAIL)?;
    let count = usize::try_from(number_32(bytes, tail)?).ok()?;
    let end = tail.checked_sub(count.checked_mul(INDEX_ENTRY)?)?;
    (end >= DATA_HEADER).then_some(end)
}

/// Cleans the record at the start of `range`: an entry or a free area. Returns the record's length,
/// or `None` if the record is damaged.
fn clean_record(bytes: &mut [u8], range: Range<usize>, cleaning: Cleaning<'_>) -> Option<usize> {
    let record = bytes.get_mut(range)?;
    if number_16(record, 0)? == FREE_TAG {
        let length = usize::from(number_16(record, 2)?);
        let tag = length.checked_sub(2).filter(|_| length.is_multiple_of(8))?;
        if length > record.len() {
            return None;
        }
        if cleaning.zeroes_stale {
            zero(record, 4..tag);
        }
        return Some(length);
    }
    let name_length = usize::from(*record.get(NAME_LENGTH)?);
    let length = entry_length(name_length);
    if name_length == 0 || length > record.len() {
        return None;
    }
    let name_end = NAME_LENGTH + 1 + name_length;
    cleaning.name(record.get_mut(NAME_LENGTH + 1..name_end)?);
    if cleaning.zeroes_stale {
        // The type follows the name, and the tag ends the record.
        zero(record, name_end + 1..length - 2);
    }
    Some(length)
}

fn clean_index(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Option<Cleaned> {
    let count = usize::from(number_16(bytes, INDEX_COUNT)?);
    let used = INDEX_HEADER + count * INDEX_ENTRY;
    let end = match dabtree::magic(bytes)? {
        LEAF1_MAGIC => {
            let tail = bytes.len().checked_sub(LEAF_TAIL)?;
            let lengths = usize::try_from(number_32(bytes, tail)?).ok()?;
            tail.checked_sub(lengths.checked_mul(2)?)?
        }
        _ => bytes.len(),
    };
    if used > end {
        return Some(cleaning.unknown(bytes.get_mut(INDEX_HEADER..)?));
    }
    if cleaning.zeroes_stale {
        zero(bytes, used..end);
    }
    Some(Cleaned::Whole)
}

fn clean_free(bytes: &mut [u8], cleaning: Cleaning<'_>) -> Option<Cleaned> {
    let count = usize::try_from(number_32(bytes, FREE_COUNT)?).ok()?;
    let used = FREE_HEADER.checked_add(count.checked_mul(2)?)?;
    if used > bytes.len() {
        return Some(cleaning.unknown(bytes.get_mut(FREE_HEADER..)?));
    }
    if cleaning.zeroes_stale {
        let whole = used..bytes.len();
        zero(bytes, whole);
    }
    Some(Cleaned::Whole)
}

/// Cleans a directory in short form (inside its inode). `fork` is the whole room of the data fork,
/// and `size` the size of the directory in bytes.
pub(crate) fn clean_short_form(fork: &mut [u8], size: u64, cleaning: Cleaning<'_>) -> Cleaned {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let Some((used, stale)) = fork.split_at_mut_checked(size) else {
        return cleaning.unknown(fork);
    };
    if cleaning.zeroes_stale {
        stale.fill(0);
    }
    let mut at = 0;
    match clean_short_entries(used, &mut at, cleaning) {
        Some(()) => Cleaned::Whole,
        None => used.get_mut(at..).map_or(Cleaned::Partly, |rest| cleaning.unknown(rest)),
    }
}

/// Cleans the entries in `used`, the used bytes of a directory in short form, from offset `at` on.
/// Returns `None` at the first damaged entry; `at` is then the offset of that entry.
fn clean_short_entries(used: &mut [u8], at: &mut usize, cleaning: Cleaning<'_>) -> Option<()> {
    let (count, wide) = (*used.first()?, *used.get(1)?);
    let inode_bytes = if wide == 0 { 4 } else { 8 };
    *at = 2 + inode_bytes;
    for _ in 0..count {
        let length = usize::from(*used.get(*at)?);
        let start = *at + 3;
        let end = start + length;
        // The type follows the name.
        let next = end + 1 + inode_bytes;
        if length == 0 || next > used.len() {
            return None;
        }
        cleaning.name(used.get_mut(start..end)?);
        *at = next;
    }
    (*at == used.len()).then_some(())
}

#[cfg(test)]
mod tests;
