//! Edits of a sorted run of hash index entries, in a leaf or at the end of a block in block form.
//!
//! Owns: where a new entry goes, and the reuse of stale entries. Does **not** own the counts, which
//! each form stores elsewhere.

use std::ops::Range;

use xfs_format::directory::{Cookie, HashEntryDisk};
use zerocopy::FromBytes;

use crate::edit::{BlockEdit, u32_at};

/// Number of bytes in an index entry.
pub(super) const ENTRY: usize = size_of::<HashEntryDisk>();

/// A sorted run of hash index entries in its block: the offset in bytes of the first entry, and the
/// number of entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashRun {
    pub(super) base: usize,
    pub(super) count: usize,
}

impl HashRun {
    /// Returns the entries of the run.
    pub(super) fn entries(self, bytes: &[u8]) -> &[HashEntryDisk] {
        let run =
            bytes.get(self.bytes_of(0..self.count)).and_then(|run| <[_]>::ref_from_bytes(run).ok());
        run.expect("the entries lie inside their block")
    }

    /// Returns the range of bytes in the block that the entries with these indexes occupy.
    pub(super) fn bytes_of(self, entries: Range<usize>) -> Range<usize> {
        self.base + ENTRY * entries.start..self.base + ENTRY * entries.end
    }

    /// Returns the index at which a new entry with this hash belongs: the index of the first entry
    /// whose hash is not lower than `hash`.
    pub(super) fn position(self, bytes: &[u8], hash: u32) -> usize {
        self.entries(bytes).partition_point(|entry| entry.hash.get() < hash)
    }

    /// Returns the index of the stale entry nearest to `position`, so that as few entries as
    /// possible move. Returns `None` if no entry is stale.
    fn nearest_stale(self, bytes: &[u8], position: usize) -> Option<usize> {
        let entries = self.entries(bytes);
        let is_stale = |entry: &HashEntryDisk| entry.cookie.get() == 0;
        let (before, after) = entries.split_at_checked(position)?;
        let low = before.iter().rev().position(is_stale);
        let reach = low.map_or(after.len(), |distance| after.len().min(distance + 1));
        let high = after.get(..reach).and_then(|near| near.iter().position(is_stale));
        match (low, high) {
            (Some(low), Some(high)) if low < high => Some(position - 1 - low),
            (_, Some(high)) => Some(position + high),
            (Some(low), None) => Some(position - 1 - low),
            (None, None) => None,
        }
    }

    /// Inserts an entry by reusing the nearest stale entry. Returns `false`, with nothing changed,
    /// if no entry is stale.
    pub(super) fn reuse_stale(self, edit: &mut BlockEdit<'_>, hash: u32, cookie: Cookie) -> bool {
        let position = self.position(edit.bytes(), hash);
        let Some(stale) = self.nearest_stale(edit.bytes(), position) else { return false };
        let place = if stale < position {
            edit.shift(self.bytes_of(stale + 1..position), self.base + ENTRY * stale);
            position - 1
        } else {
            edit.shift(self.bytes_of(position..stale), self.base + ENTRY * (position + 1));
            position
        };
        self.put(edit, place, hash, cookie);
        true
    }

    /// Writes an entry at index `index` of the run.
    pub(super) fn put(self, edit: &mut BlockEdit<'_>, index: usize, hash: u32, cookie: Cookie) {
        let entry = u64::from(hash) << 32 | u64::from(cookie.0);
        edit.put_u64(self.base + ENTRY * index, entry);
    }

    /// Returns the index of the entry with this hash and cookie; `None` if there is no such entry.
    pub(super) fn find(self, bytes: &[u8], hash: u32, cookie: Cookie) -> Option<usize> {
        let first = self.position(bytes, hash);
        let rest = self.entries(bytes).get(first..)?;
        let equal = rest.iter().take_while(|entry| entry.hash.get() == hash);
        equal.zip(first..).find(|(entry, _)| entry.cookie.get() == cookie.0).map(|(_, index)| index)
    }

    /// Marks the entry at `index` as stale.
    pub(super) fn make_stale(self, edit: &mut BlockEdit<'_>, index: usize) {
        edit.put_u32(self.base + ENTRY * index + 4, 0);
    }

    /// Closes the gaps that stale entries leave: moves all other entries to the start or the end of
    /// the run. Returns the number of entries that are not stale.
    pub(super) fn compact(self, edit: &mut BlockEdit<'_>, end: CompactTo) -> usize {
        let live: Vec<(u32, u32)> = live(self.entries(edit.bytes())).collect();
        let first = match end {
            CompactTo::Start => 0,
            CompactTo::End => self.count - live.len(),
        };
        for (index, (hash, cookie)) in (first..).zip(&live) {
            let at = self.base + ENTRY * index;
            if u32_at(edit.bytes(), at) != *hash || u32_at(edit.bytes(), at + 4) != *cookie {
                self.put(edit, index, *hash, Cookie(*cookie));
            }
        }
        live.len()
    }
}

/// The side of a run of index entries, its start or its end, to which the entries that are not
/// stale are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactTo {
    Start,
    End,
}

/// Returns the hash and the cookie of each entry that is not stale.
pub(super) fn live(entries: &[HashEntryDisk]) -> impl Iterator<Item = (u32, u32)> {
    let pairs = entries.iter().map(|entry| (entry.hash.get(), entry.cookie.get()));
    pairs.filter(|(_, cookie)| *cookie != 0)
}

#[cfg(test)]
mod tests;
