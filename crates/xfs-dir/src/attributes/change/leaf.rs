//! Edits of one leaf of the attribute fork.
//!
//! Owns: the table of entries, the names after the table, and the counts. Does **not** own the
//! choice of the leaf, or the tree above.
//!
//! Where a name between other names is removed, its space is lost until the leaf is packed. The
//! leaf header describes only one free range, the gap between table and names. The header's flag
//! for holes is set if the names take fewer bytes than lie between the lowest name and the end of
//! the block.

use std::mem::offset_of;

use xfs_buffer::Result;
use xfs_format::StructureAddress;
use xfs_format::attr::AttrLeaf;
use xfs_format::attr::leaf::{AttrFreeDisk, AttrLeafEntryDisk, AttrLeafHeaderDisk, LEAF_MAGIC};

use crate::edit::{BlockEdit, u16_at};
use crate::tree::{TreeIdentity, put_identity};

const COUNT: usize = offset_of!(AttrLeafHeaderDisk, count);
const USED: usize = offset_of!(AttrLeafHeaderDisk, used_bytes);
const FIRST_USED: usize = offset_of!(AttrLeafHeaderDisk, first_used);
const HOLES: usize = offset_of!(AttrLeafHeaderDisk, holes);
const FREE: usize = offset_of!(AttrLeafHeaderDisk, free);
const TABLE: usize = size_of::<AttrLeafHeaderDisk>();
const ENTRY: usize = size_of::<AttrLeafEntryDisk>();

/// An entry of a leaf with its name and value, encoded, so that it can be copied to another leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEntry {
    pub(super) hash: u32,
    pub(super) flags: u8,
    /// The name and the value as they are stored in a leaf: a header, the name, the value, and
    /// padding to a multiple of 4 bytes.
    pub(super) name: Vec<u8>,
}

impl RawEntry {
    /// Returns the number of bytes that the entry takes in a leaf.
    pub(super) fn length(&self) -> usize {
        ENTRY + self.name.len()
    }
}

/// Returns the number of bytes in a leaf for entries and names.
pub(super) const fn capacity(block_bytes: usize) -> usize {
    block_bytes - TABLE
}

/// The counts in the header of a leaf.
#[derive(Clone, Copy, Debug)]
struct AttrLeafCounts {
    count: usize,
    /// Number of bytes that all names use, with their values.
    used: usize,
    /// The offset in bytes of the lowest name.
    first_used: usize,
}

impl AttrLeafCounts {
    fn of(bytes: &[u8]) -> Self {
        let first_used = match u16_at(bytes, FIRST_USED) {
            0 => 1 << 16,
            first_used => first_used.into(),
        };
        let (count, used) = (u16_at(bytes, COUNT).into(), u16_at(bytes, USED).into());
        Self { count, used, first_used }
    }

    const fn table_end(self) -> usize {
        TABLE + ENTRY * self.count
    }

    fn store(self, edit: &mut BlockEdit<'_>) {
        edit.put_u16(COUNT, self.count as u16);
        edit.put_u16(USED, self.used as u16);
        // The end of the largest block does not fit 16 bits: 0 stands for it.
        edit.put_u16(FIRST_USED, self.first_used as u16);
        edit.put_u8(HOLES, u8::from(self.used != edit.length() - self.first_used));
        let gap = self.first_used - self.table_end();
        let base = if gap == 0 { 0 } else { self.table_end() };
        edit.put_u16(FREE, base as u16);
        edit.put_u16(FREE + 2, gap as u16);
        edit.clear(FREE + size_of::<AttrFreeDisk>()..FREE + 3 * size_of::<AttrFreeDisk>());
    }
}

/// Returns the number of entries in a leaf.
pub(super) fn count(bytes: &[u8]) -> usize {
    AttrLeafCounts::of(bytes).count
}

/// Returns the number of bytes that the entries and names of a leaf use, without the holes between
/// names.
pub(super) fn used(bytes: &[u8]) -> usize {
    let counts = AttrLeafCounts::of(bytes);
    counts.used + ENTRY * counts.count
}

/// Inserts an entry if the leaf has room for it. If necessary, first packs the leaf (closes the
/// holes between names). Returns `false` if the leaf has no room.
pub(super) fn insert(
    edit: &mut BlockEdit<'_>,
    entry: &RawEntry,
    place: StructureAddress,
) -> Result<bool> {
    let counts = AttrLeafCounts::of(edit.bytes());
    if used(edit.bytes()) + entry.length() > capacity(edit.length()) {
        return Ok(false);
    }
    if counts.first_used - counts.table_end() < entry.length() {
        let entries = entries(edit.bytes(), place)?;
        rebuild(edit, &entries);
    }
    let mut counts = AttrLeafCounts::of(edit.bytes());
    let position = position(edit.bytes(), entry.hash, place)?;
    let at = TABLE + ENTRY * position;
    edit.shift(at..counts.table_end(), at + ENTRY);
    counts.count += 1;
    put(edit, &mut counts, at, entry);
    counts.store(edit);
    Ok(true)
}

/// Writes a name at a lower offset than all other names, and the name's table entry at byte offset
/// `at`.
fn put(edit: &mut BlockEdit<'_>, counts: &mut AttrLeafCounts, at: usize, entry: &RawEntry) {
    counts.first_used -= entry.name.len();
    counts.used += entry.name.len();
    edit.put(counts.first_used, &entry.name);
    edit.put_u32(at, entry.hash);
    edit.put_u16(at + 4, counts.first_used as u16);
    edit.put(at + 6, &[entry.flags, 0]);
}

fn position(bytes: &[u8], hash: u32, place: StructureAddress) -> Result<usize> {
    let table = AttrLeaf::decode(bytes, place)?.table();
    Ok(table.partition_point(|entry| entry.hash.get() < hash))
}

/// Removes the entry at `index`, which a search has found.
pub(super) fn remove(
    edit: &mut BlockEdit<'_>,
    index: usize,
    place: StructureAddress,
) -> Result<()> {
    let mut counts = AttrLeafCounts::of(edit.bytes());
    let name = AttrLeaf::decode(edit.bytes(), place)?.name_range(index)?;
    let at = TABLE + ENTRY * index;
    edit.shift(at + ENTRY..counts.table_end(), at);
    edit.clear(name.clone());
    counts.count -= 1;
    counts.used -= name.len();
    edit.put_u16(COUNT, counts.count as u16);
    if name.start == counts.first_used {
        let table = AttrLeaf::decode(edit.bytes(), place)?.table();
        let lowest = table.iter().map(|entry| usize::from(entry.name_offset.get())).min();
        counts.first_used = lowest.unwrap_or(edit.length());
    }
    counts.store(edit);
    Ok(())
}

/// Returns all entries of a leaf, including those marked incomplete.
pub(super) fn entries(bytes: &[u8], place: StructureAddress) -> Result<Vec<RawEntry>> {
    let leaf = AttrLeaf::decode(bytes, place)?;
    let mut entries = Vec::with_capacity(leaf.table().len() + 1);
    for (index, entry) in leaf.table().iter().enumerate() {
        let name = bytes.get(leaf.name_range(index)?);
        let name = name.expect("the range of a name lies inside its leaf").to_vec();
        entries.push(RawEntry { hash: entry.hash.get(), flags: entry.flags, name });
    }
    Ok(entries)
}

/// Rewrites the leaf with exactly these entries, without holes. The entries must be sorted by hash
/// and fit in the leaf.
pub(super) fn rebuild(edit: &mut BlockEdit<'_>, entries: &[RawEntry]) {
    let end = edit.length();
    edit.clear(TABLE..end);
    let mut counts = AttrLeafCounts { count: entries.len(), used: 0, first_used: end };
    for (index, entry) in entries.iter().enumerate() {
        put(edit, &mut counts, TABLE + ENTRY * index, entry);
    }
    counts.store(edit);
}

/// Initializes a new leaf with these entries. The leaf's links to its siblings are not changed.
pub(super) fn initialise(edit: &mut BlockEdit<'_>, identity: &TreeIdentity, entries: &[RawEntry]) {
    put_identity(edit, LEAF_MAGIC, identity);
    rebuild(edit, entries);
}
