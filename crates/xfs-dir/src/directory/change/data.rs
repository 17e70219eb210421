//! Edits of the records of one data block: inserting an entry, freeing one, and the table of the
//! longest free records.
//!
//! Owns: the records, which fill the block without gaps (I1 and I2 of
//! `xfs_format::directory::data`). Does **not** own the index that the block form keeps after the
//! records.
//!
//! An edit writes the new record, the ends of the adjacent free records and the table, but nothing
//! else in the block. If a free record that the table does not list may now belong in the table,
//! all records are read, one after another.

use std::mem::offset_of;
use std::ops::Range;

use xfs_format::directory::data::{DATA_HEADER, DataHeaderDisk, FREE_TAG, entry_length};
use xfs_format::directory::{ALIGNMENT, EntryType};
use xfs_format::{DiskAddr, InodeNumber};

use super::NewEntry;
use crate::edit::{BlockEdit, u8_at, u16_at};

const TABLE: usize = offset_of!(DataHeaderDisk, best_free);
const TABLE_SIZE: usize = 3;

/// Returns the number of bytes that an entry with this name takes.
pub(super) const fn length_of(name: &[u8]) -> usize {
    entry_length(name.len())
}

/// The byte range of a free record in the block.
type Free = Range<usize>;

/// The table in the header of a data block that lists its longest free records, longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BestFree {
    records: [(u16, u16); TABLE_SIZE],
}

impl BestFree {
    const EMPTY: Self = Self { records: [(0, 0); TABLE_SIZE] };

    fn load(bytes: &[u8]) -> Self {
        let mut records = [(0, 0); TABLE_SIZE];
        for (index, record) in records.iter_mut().enumerate() {
            let at = TABLE + 4 * index;
            *record = (u16_at(bytes, at), u16_at(bytes, at + 2));
        }
        Self { records }
    }

    fn store(self, edit: &mut BlockEdit<'_>) {
        if self == Self::load(edit.bytes()) {
            return;
        }
        let mut bytes = [[0; 4]; TABLE_SIZE];
        for (bytes, (offset, length)) in bytes.iter_mut().zip(self.records) {
            *bytes = (u32::from(offset) << 16 | u32::from(length)).to_be_bytes();
        }
        edit.put(TABLE, bytes.as_flattened());
    }

    fn is_full(&self) -> bool {
        let [.., (_, shortest)] = self.records;
        shortest != 0
    }

    /// Removes a record from the table. Returns `false` if the table does not list it.
    fn remove(&mut self, offset: usize) -> bool {
        let is_it = |record: (u16, u16)| usize::from(record.0) == offset && record.1 != 0;
        let [first, second, third] = self.records;
        self.records = if is_it(first) {
            [second, third, (0, 0)]
        } else if is_it(second) {
            [first, third, (0, 0)]
        } else if is_it(third) {
            [first, second, (0, 0)]
        } else {
            return false;
        };
        true
    }

    /// Inserts a free record into the table, at the place that follows from the record's length. If
    /// the table is full, removes the shortest record from the table.
    fn insert(&mut self, free: &Free) {
        let new = (free.start as u16, free.len() as u16);
        let [first, second, third] = self.records;
        // Records of equal length keep their positions; shorter ones move down.
        self.records = match new.1 {
            length if length > first.1 => [new, first, second],
            length if length > second.1 => [first, new, second],
            length if length > third.1 => [first, second, new],
            _ => self.records,
        };
    }

    /// Computes the table of the longest free records from all records of the block up to byte
    /// `end`.
    fn scan(bytes: &[u8], end: usize) -> Self {
        let mut table = Self::EMPTY;
        let mut offset = DATA_HEADER;
        while offset < end {
            let length = record_length(bytes, offset);
            if u16_at(bytes, offset) == FREE_TAG {
                table.insert(&(offset..offset + length));
            }
            offset += length;
        }
        table
    }
}

/// Returns the length in bytes of the record at `offset` of a verified block.
fn record_length(bytes: &[u8], offset: usize) -> usize {
    if u16_at(bytes, offset) == FREE_TAG {
        return u16_at(bytes, offset + 2).into();
    }
    entry_length(u8_at(bytes, offset + 8).into())
}

/// Returns the free records that the table lists, longest first.
pub(super) fn listed(bytes: &[u8]) -> impl Iterator<Item = Free> {
    let records = BestFree::load(bytes).records.into_iter().filter(|record| record.1 != 0);
    records.map(|(offset, length)| offset.into()..usize::from(offset) + usize::from(length))
}

/// Returns the longest free record; empty if the block has no free record.
pub(super) fn longest(bytes: &[u8]) -> Free {
    let [(offset, length), ..] = BestFree::load(bytes).records;
    usize::from(offset)..usize::from(offset) + usize::from(length)
}

/// Returns the length in bytes of the longest free record; 0 if the block has no free record.
pub(super) fn longest_length(bytes: &[u8]) -> u16 {
    longest(bytes).len() as u16
}

/// Returns the free record that ends at `end`; `None` if there is no such record.
pub(super) fn free_before(bytes: &[u8], end: usize) -> Option<Free> {
    if end <= DATA_HEADER {
        return None;
    }
    let start = usize::from(u16_at(bytes, end - 2));
    let is_free = (DATA_HEADER..end).contains(&start) && u16_at(bytes, start) == FREE_TAG;
    (is_free && start + usize::from(u16_at(bytes, start + 2)) == end).then_some(start..end)
}

/// Initializes the block with a header and one free record that ends at `end`.
pub(super) fn initialise(
    edit: &mut BlockEdit<'_>,
    magic: u32,
    identity: &BlockIdentity,
    end: usize,
) {
    edit.clear(0..DATA_HEADER);
    edit.put_u32(offset_of!(DataHeaderDisk, magic), magic);
    identity.store(edit);
    let free = DATA_HEADER..end;
    put_free(edit, &free);
    let mut table = BestFree::EMPTY;
    table.insert(&free);
    table.store(edit);
}

/// The header fields that identify a directory block.
pub(super) struct BlockIdentity {
    pub(super) address: DiskAddr,
    pub(super) owner: InodeNumber,
    pub(super) uuid: [u8; 16],
}

impl BlockIdentity {
    /// Writes the fields to a data block or a block of the free-space index.
    pub(super) fn store(&self, edit: &mut BlockEdit<'_>) {
        edit.put_u64(offset_of!(DataHeaderDisk, block), self.address.0);
        edit.put(offset_of!(DataHeaderDisk, uuid), &self.uuid);
        edit.put_u64(offset_of!(DataHeaderDisk, owner), self.owner.0);
    }
}

/// Writes an entry at the start of a free record, which must be long enough. The records of the
/// block end at `end`.
pub(super) fn put_entry(edit: &mut BlockEdit<'_>, free: Free, entry: &NewEntry<'_>, end: usize) {
    let used = free.start..free.start + length_of(entry.name);
    put_used(edit, free, used, entry, end);
}

/// Writes an entry to the byte range `used`, which lies in the free record `free`. The records of
/// the block end at `end`.
pub(super) fn put_used(
    edit: &mut BlockEdit<'_>,
    free: Free,
    used: Range<usize>,
    entry: &NewEntry<'_>,
    end: usize,
) {
    let NewEntry { name, inode, entry_type } = *entry;
    assert!(used.len() == length_of(name));
    edit.put_u64(used.start, inode.0);
    edit.put_u8(used.start + 8, name.len() as u8);
    edit.put(used.start + 9, name);
    edit.put_u8(used.start + 9 + name.len(), entry_type.to_disk());
    edit.clear(used.start + 10 + name.len()..used.end - 2);
    edit.put_u16(used.end - 2, used.start as u16);
    cut(edit, free, used, end);
}

/// Removes the byte range `used` from the free record `free`; the rest stays free. The records of
/// the block end at `end`. The caller has already written a record to `used`, or `used` lies after
/// `end`.
pub(super) fn cut(edit: &mut BlockEdit<'_>, free: Free, used: Range<usize>, end: usize) {
    assert!(free.start <= used.start && used.end <= free.end);
    let mut table = BestFree::load(edit.bytes());
    let was_full = table.is_full();
    let was_listed = table.remove(free.start);
    for rest in [free.start..used.start, used.end..free.end] {
        if !rest.is_empty() {
            put_free(edit, &rest);
            table.insert(&rest);
        }
    }
    // A record that was never listed may be longer than the rest of a listed one.
    if was_full && was_listed {
        table = BestFree::scan(edit.bytes(), end);
    }
    table.store(edit);
}

/// Frees a record of a block, and joins it with the adjacent free records. The records of the block
/// end at `end`.
pub(super) fn free(edit: &mut BlockEdit<'_>, record: Range<usize>, end: usize) {
    assert!(record.len().is_multiple_of(ALIGNMENT));
    let mut table = BestFree::load(edit.bytes());
    let was_full = table.is_full();
    let mut free = record.clone();
    let mut joined = 0;
    if let Some(before) = free_before(edit.bytes(), record.start) {
        joined += usize::from(table.remove(before.start));
        free.start = before.start;
    }
    if record.end < end && u16_at(edit.bytes(), record.end) == FREE_TAG {
        let length = record_length(edit.bytes(), record.end);
        joined += usize::from(table.remove(record.end));
        free.end = record.end + length;
    }
    put_free(edit, &free);
    table.insert(&free);
    // Two listed records became one: a record that was never listed may belong into the table.
    if was_full && joined == 2 {
        table = BestFree::scan(edit.bytes(), end);
    }
    table.store(edit);
}

/// Returns the byte range of the entry at `offset`.
pub(super) fn entry_range(bytes: &[u8], offset: usize) -> Range<usize> {
    offset..offset + record_length(bytes, offset)
}

/// Changes the inode that the entry at `offset` names.
pub(super) fn retarget(
    edit: &mut BlockEdit<'_>,
    offset: usize,
    inode: InodeNumber,
    entry_type: EntryType,
) {
    let name_length = usize::from(u8_at(edit.bytes(), offset + 8));
    edit.put_u64(offset, inode.0);
    edit.put_u8(offset + 9 + name_length, entry_type.to_disk());
}

fn put_free(edit: &mut BlockEdit<'_>, free: &Free) {
    edit.put_u16(free.start, FREE_TAG);
    edit.put_u16(free.start + 2, free.len() as u16);
    edit.put_u16(free.end - 2, free.start as u16);
}

/// Writes `entries`, sorted by offset, to a block whose only record is a free one that ends at
/// `end`.
pub(super) fn put_all<'e>(
    edit: &mut BlockEdit<'_>,
    entries: impl Iterator<Item = (usize, NewEntry<'e>)>,
    end: usize,
) {
    let mut free = DATA_HEADER..end;
    for (offset, entry) in entries {
        let used = offset..offset + length_of(entry.name);
        let rest = used.end..end;
        put_used(edit, free, used, &entry, end);
        free = rest;
    }
}

/// Returns whether the block contains no entries: one free record fills it up to byte `end`.
pub(super) fn is_all_free(bytes: &[u8], end: usize) -> bool {
    longest(bytes) == (DATA_HEADER..end)
}

#[cfg(test)]
mod tests;
