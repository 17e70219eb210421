//! Edits of one leaf of a directory's hash index: the only leaf of a directory in leaf form, or a
//! leaf below nodes.
//!
//! Owns: entries and counts, and the best free lengths at the end of the only leaf. A best free
//! length is the length of the longest free record of one data block. Does **not** own the choice
//! of the leaf, or the tree above.

use std::mem::offset_of;

use xfs_format::dabtree::{self, DaHeaderDisk};
use xfs_format::directory::leaf::{LEAF1_MAGIC, LEAFN_MAGIC, LeafHeaderDisk};
use xfs_format::directory::{Cookie, NULL_OFFSET};

use super::index::{self, CompactTo, ENTRY, HashRun};
use crate::edit::{BlockEdit, u16_at, u32_at};
use crate::tree::{TreeIdentity, put_identity};

const COUNT: usize = offset_of!(LeafHeaderDisk, count);
const STALE: usize = offset_of!(LeafHeaderDisk, stale);
const BASE: usize = size_of::<LeafHeaderDisk>();
/// Number of bytes in the count of best free lengths, which is at the end of the only leaf of a
/// directory in leaf form.
const TAIL: usize = size_of::<u32>();

/// Returns the number of entries that fit in a leaf below nodes.
pub(super) const fn capacity(block_bytes: usize) -> usize {
    (block_bytes - BASE) / ENTRY
}

/// Returns whether the only leaf of a leaf form has room for `entries` index entries and for
/// `lengths` best free lengths. A best free length is the length of a data block's longest free
/// record.
pub(super) const fn fits_only_leaf(block_bytes: usize, entries: usize, lengths: usize) -> bool {
    BASE + ENTRY * entries + size_of::<u16>() * lengths + TAIL <= block_bytes
}

/// The counts of a verified leaf of the hash index, and the position of its entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafCounts {
    pub(super) run: HashRun,
    pub(super) stale: usize,
    /// Number of best free lengths in the only leaf of a directory, one for each data block: the
    /// length of its longest free record. 0 in a leaf below nodes.
    pub(super) lengths: usize,
    is_only: bool,
    block_bytes: usize,
}

impl LeafCounts {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let run = HashRun { base: BASE, count: u16_at(bytes, COUNT).into() };
        let is_only = dabtree::magic(bytes) == Some(LEAF1_MAGIC);
        let lengths = if is_only { u32_at(bytes, bytes.len() - TAIL) as usize } else { 0 };
        let stale = u16_at(bytes, STALE).into();
        Self { run, stale, lengths, is_only, block_bytes: bytes.len() }
    }

    pub(super) const fn live(&self) -> usize {
        self.run.count - self.stale
    }

    /// Returns whether the leaf has room for one more index entry and `lengths` more best free
    /// lengths, without the removal of stale entries. A best free length is the length of a data
    /// block's longest free record.
    pub(super) const fn has_room(&self, lengths: usize) -> bool {
        let entries = self.run.count + if self.stale == 0 { 1 } else { 0 };
        self.fits(entries, lengths)
    }

    /// Returns whether the leaf has room for one more index entry and `lengths` more best free
    /// lengths after all stale entries are removed. A best free length is the length of a data
    /// block's longest free record.
    pub(super) const fn has_room_compacted(&self, lengths: usize) -> bool {
        self.fits(self.live() + 1, lengths)
    }

    const fn fits(&self, entries: usize, lengths: usize) -> bool {
        if self.is_only {
            fits_only_leaf(self.block_bytes, entries, self.lengths + lengths)
        } else {
            entries <= capacity(self.block_bytes)
        }
    }

    fn length_at(&self, index: usize) -> usize {
        self.block_bytes - TAIL - size_of::<u16>() * (self.lengths - index)
    }
}

/// Initializes a new leaf without entries.
pub(super) fn initialise(edit: &mut BlockEdit<'_>, magic: u16, identity: &TreeIdentity) {
    put_identity(edit, magic, identity);
    put_counts(edit, 0, 0);
}

fn put_counts(edit: &mut BlockEdit<'_>, count: usize, stale: usize) {
    edit.put_u16(COUNT, count as u16);
    edit.put_u16(STALE, stale as u16);
}

/// Inserts an entry. The leaf must have room for it.
pub(super) fn insert(edit: &mut BlockEdit<'_>, hash: u32, cookie: Cookie) {
    let LeafCounts { run, stale, .. } = LeafCounts::of(edit.bytes());
    if stale != 0 {
        let reused = run.reuse_stale(edit, hash, cookie);
        assert!(reused, "the count of stale entries was verified");
        edit.put_u16(STALE, stale as u16 - 1);
        return;
    }
    let position = run.position(edit.bytes(), hash);
    edit.shift(run.bytes_of(position..run.count), run.base + ENTRY * (position + 1));
    run.put(edit, position, hash, cookie);
    edit.put_u16(COUNT, run.count as u16 + 1);
}

/// Marks an entry as stale. Returns `false` if the leaf does not contain the entry.
pub(super) fn remove(edit: &mut BlockEdit<'_>, hash: u32, cookie: Cookie) -> bool {
    let LeafCounts { run, stale, .. } = LeafCounts::of(edit.bytes());
    let Some(index) = run.find(edit.bytes(), hash, cookie) else { return false };
    run.make_stale(edit, index);
    edit.put_u16(STALE, stale as u16 + 1);
    true
}

/// Removes all stale entries from the leaf.
pub(super) fn compact(edit: &mut BlockEdit<'_>) {
    let LeafCounts { run, stale, .. } = LeafCounts::of(edit.bytes());
    if stale != 0 {
        let live = run.compact(edit, CompactTo::Start);
        put_counts(edit, live, 0);
    }
}

/// Appends entries. The new entries must be sorted, and their hashes must not be lower than the
/// existing ones.
pub(super) fn append(edit: &mut BlockEdit<'_>, entries: &[(u32, u32)]) {
    let LeafCounts { run, stale, .. } = LeafCounts::of(edit.bytes());
    for (index, (hash, cookie)) in (run.count..).zip(entries) {
        run.put(edit, index, *hash, Cookie(*cookie));
    }
    put_counts(edit, run.count + entries.len(), stale);
}

/// Inserts entries before the existing ones. The new entries must be sorted, and their hashes must
/// not be higher than the existing ones. The leaf must have no stale entries.
pub(super) fn prepend(edit: &mut BlockEdit<'_>, entries: &[(u32, u32)]) {
    let LeafCounts { run, stale, .. } = LeafCounts::of(edit.bytes());
    edit.shift(run.bytes_of(0..run.count), run.base + ENTRY * entries.len());
    for (index, (hash, cookie)) in entries.iter().enumerate() {
        run.put(edit, index, *hash, Cookie(*cookie));
    }
    put_counts(edit, run.count + entries.len(), stale);
}

/// Removes the upper half of the entries from the leaf, and returns them. The leaf must have no
/// stale entries.
pub(super) fn take_upper_half(edit: &mut BlockEdit<'_>) -> Vec<(u32, u32)> {
    let LeafCounts { run, .. } = LeafCounts::of(edit.bytes());
    let kept = run.count / 2;
    let (_, upper) = run.entries(edit.bytes()).split_at(kept);
    let upper = index::live(upper).collect();
    put_counts(edit, kept, 0);
    upper
}

/// Returns the hash and the cookie of each entry that is not stale.
pub(super) fn live_entries(bytes: &[u8]) -> Vec<(u32, u32)> {
    index::live(LeafCounts::of(bytes).run.entries(bytes)).collect()
}

/// Returns, for each data block, the length of its longest free record. The leaf must be the only
/// leaf of its directory, which stores these lengths at its end.
pub(super) fn lengths(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let counts = LeafCounts::of(bytes);
    (0..counts.lengths).map(move |index| u16_at(bytes, counts.length_at(index)))
}

/// Stores the length of the longest free record of data block `index`. The leaf must be the only
/// leaf of its directory.
pub(super) fn set_length(edit: &mut BlockEdit<'_>, index: usize, length: u16) {
    let at = LeafCounts::of(edit.bytes()).length_at(index);
    if edit.u16_at(at) != length {
        edit.put_u16(at, length);
    }
}

/// Appends the length of one more data block's longest free record to the lengths at the end of the
/// leaf. The leaf must be the only leaf of its directory, with room for the length.
pub(super) fn add_length(edit: &mut BlockEdit<'_>, length: u16) {
    let counts = LeafCounts::of(edit.bytes());
    let (start, end) = (counts.length_at(0), edit.length() - TAIL);
    edit.shift(start..end, start - size_of::<u16>());
    edit.put_u16(end - size_of::<u16>(), length);
    edit.put_u32(end, counts.lengths as u32 + 1);
}

/// Removes best free lengths from the end of their table, as long as the last one belongs to a data
/// block that does not exist. A best free length is the length of a data block's longest free
/// record. Returns the number of lengths that are left.
pub(super) fn trim_lengths(edit: &mut BlockEdit<'_>) -> usize {
    let counts = LeafCounts::of(edit.bytes());
    let last = lengths(edit.bytes()).collect::<Vec<_>>();
    let kept = last.iter().rposition(|length| *length != NULL_OFFSET).map_or(0, |last| last + 1);
    let start = counts.length_at(0);
    let dropped = size_of::<u16>() * (counts.lengths - kept);
    if dropped != 0 {
        edit.shift(start..start + size_of::<u16>() * kept, start + dropped);
        edit.put_u32(edit.length() - TAIL, kept as u32);
    }
    kept
}

/// Converts the only leaf of a directory to a leaf below nodes.
pub(super) fn into_tree_leaf(edit: &mut BlockEdit<'_>) {
    edit.put_u16(offset_of!(DaHeaderDisk, magic), LEAFN_MAGIC);
}

/// Converts a leaf below nodes to the only leaf of a directory. The leaf must have no stale
/// entries, and room for `lengths`, the length of each data block's longest free record.
pub(super) fn into_only_leaf(edit: &mut BlockEdit<'_>, lengths: &[u16]) {
    edit.put_u16(offset_of!(DaHeaderDisk, magic), LEAF1_MAGIC);
    put_lengths(edit, lengths);
}

/// Writes `lengths` to the end of the only leaf of a directory: for each data block, the length of
/// its longest free record.
pub(super) fn put_lengths(edit: &mut BlockEdit<'_>, lengths: &[u16]) {
    edit.put_u32(edit.length() - TAIL, lengths.len() as u32);
    let counts = LeafCounts::of(edit.bytes());
    for (index, length) in lengths.iter().enumerate() {
        edit.put_u16(counts.length_at(index), *length);
    }
}
