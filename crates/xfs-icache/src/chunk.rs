//! A chunk of the inode cache: 64 neighbouring inodes, and their tags, by which walks select
//! inodes.
//!
//! # Invariants
//!
//! - **I1** A bit of `present` is set exactly while there is an inode in the slot. Both change
//!   under the chunk's lock.
//! - **I2** Each inode that a walk for a tag must see has the tag. Other inodes may have the tag
//!   too. An inode that is removed loses its tags.
//! - **I3** A chunk that has lost its last inode and its last holder leaves the index, and never
//!   gets an inode again.
//! - **I4** While a chunk holds an inode, the two point to each other. A cache that is dropped must
//!   therefore empty its chunks.

use std::sync::Arc;

use xfs_sync::{AtomicU64, Collector, EpochArray, Mutex, MutexGuard, Object, Ordering};

use crate::cached_inode::CachedInode;
use crate::filter::Tag;
use crate::kind::InodeKind;

/// Number of inodes in a chunk.
pub(crate) const CHUNK_INODES: u32 = 64;

/// The message of the panic that occurs if an inode of a chunk does not know its slot (I4).
const HAS_SLOT: &str = "an inode of a chunk has a slot in it";

/// 64 neighbouring inodes with their tags.
pub(crate) struct Chunk<K: InodeKind> {
    stay: Mutex<Residency, Object>,
    present: AtomicU64<Object>,
    idle: AtomicU64<Object>,
    needs_flush: AtomicU64<Object>,
    entries: EpochArray<CachedInode<K>, Object, { CHUNK_INODES as usize }>,
}

/// The reasons for which a chunk stays in the index of its group.
#[derive(Default)]
pub(crate) struct Residency {
    /// Whether the chunk has left the index (I3).
    gone: bool,
    /// The number of holders that keep the chunk in the index while it has no inode.
    holders: u32,
}

impl<K: InodeKind> Chunk<K> {
    pub(crate) fn new(collector: &Collector) -> Self {
        Self {
            stay: Mutex::default(),
            present: AtomicU64::default(),
            idle: AtomicU64::default(),
            needs_flush: AtomicU64::default(),
            entries: EpochArray::new(collector),
        }
    }

    /// Returns the inodes of the chunk that have a tag, one bit each.
    pub(crate) fn tagged(&self, tag: Tag) -> u64 {
        match tag {
            Tag::Present => self.present.load(Ordering::Acquire),
            Tag::Idle => self.idle.load(Ordering::Acquire),
            Tag::NeedsFlush => self.needs_flush.load(Ordering::Acquire),
        }
    }

    /// Calls `look` with the inode in slot `place`, and returns the result of `look`. Returns
    /// `None` if the slot is empty.
    pub(crate) fn look<R>(
        &self,
        collector: &Collector,
        place: u32,
        look: impl FnOnce(&Arc<CachedInode<K>>) -> R,
    ) -> Option<R> {
        self.entries.read(collector, place as usize, look)
    }

    /// Takes the lock of the chunk, under which inodes are inserted and removed. Returns `None` if
    /// the chunk has left the index.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, Residency>> {
        let stay = self.stay.lock();
        (!stay.gone).then_some(stay)
    }

    /// If no inode and no holder keeps the chunk in the index, marks the chunk as having left the
    /// index. Returns whether the chunk was marked. If so, the caller removes the chunk from the
    /// index, and holds the lock of the chunk until that is done.
    pub(crate) fn leave_index(&self, stay: &mut Residency) -> bool {
        stay.gone = self.is_unneeded(stay);
        stay.gone
    }

    /// Returns whether no inode and no holder keeps the chunk in the index.
    pub(crate) fn is_unneeded(&self, stay: &Residency) -> bool {
        stay.holders == 0 && self.present.load(Ordering::Acquire) == 0
    }
}

impl Residency {
    /// Adds one holder of the chunk. A chunk with a holder stays in the index, even if it has no
    /// inode.
    pub(crate) fn hold(&mut self) {
        self.holders += 1;
    }

    /// Subtracts one holder. A chunk without holders and inodes can leave the index.
    pub(crate) fn let_go(&mut self) {
        assert!(self.holders > 0, "a chunk has more releases than holders");
        self.holders -= 1;
    }
}

impl<K: InodeKind> Chunk<K> {
    /// Puts an inode into its slot, and sets its bit in `present` (I1). The caller holds the lock
    /// of the chunk.
    pub(crate) fn enter(&self, collector: &Collector, place: u32, entry: Arc<CachedInode<K>>) {
        self.entries.put(collector, place as usize, Some(entry));
        self.present.fetch_or(1 << place, Ordering::AcqRel);
    }

    /// Removes the inode in slot `place`, and its tags. The caller holds the lock of the chunk.
    pub(crate) fn leave(&self, collector: &Collector, place: u32) {
        let bit = 1 << place;
        // The tags go with the inode (I2). Most inodes have nothing to write.
        if self.needs_flush.load(Ordering::Acquire) & bit != 0 {
            self.needs_flush.fetch_and(!bit, Ordering::AcqRel);
        }
        if self.idle.load(Ordering::Acquire) & bit != 0 {
            self.idle.fetch_and(!bit, Ordering::AcqRel);
        }
        self.present.fetch_and(!bit, Ordering::AcqRel);
        self.entries.put(collector, place as usize, None);
    }

    /// Puts inodes into their slots, which are free. The caller holds the lock of the chunk.
    pub(crate) fn enter_all(&self, collector: &Collector, entries: &[Arc<CachedInode<K>>]) {
        let mut came = 0;
        for entry in entries {
            let ChunkSlot { bit, .. } = entry.slot().expect(HAS_SLOT);
            self.entries.put(collector, bit.trailing_zeros() as usize, Some(Arc::clone(entry)));
            came |= bit;
        }
        self.present.fetch_or(came, Ordering::AcqRel);
    }

    /// Removes those inodes of `entries` that still have their slots in the chunk. Returns the
    /// slots that were emptied, one bit each. The caller holds the lock of the chunk.
    pub(crate) fn leave_all(&self, collector: &Collector, entries: &[Arc<CachedInode<K>>]) -> u64 {
        let mut going = 0;
        for entry in entries {
            let ChunkSlot { bit, .. } = entry.slot().expect(HAS_SLOT);
            let is_here = |found: &Arc<CachedInode<K>>| Arc::ptr_eq(found, entry);
            if self.look(collector, bit.trailing_zeros(), is_here) == Some(true) {
                going |= bit;
            }
        }
        if self.needs_flush.load(Ordering::Acquire) & going != 0 {
            self.needs_flush.fetch_and(!going, Ordering::AcqRel);
        }
        if self.idle.load(Ordering::Acquire) & going != 0 {
            self.idle.fetch_and(!going, Ordering::AcqRel);
        }
        self.present.fetch_and(!going, Ordering::AcqRel);
        let mut left = going;
        while left != 0 {
            self.entries.put(collector, left.trailing_zeros() as usize, None);
            left &= left - 1;
        }
        going
    }

    /// Removes all inodes, for a cache that is dropped (I4).
    pub(crate) fn clear(&self, collector: &Collector) {
        (0..CHUNK_INODES as usize).for_each(|place| self.entries.put(collector, place, None));
    }
}

/// The slot of an inode in its chunk. It gives access to the tags of the inode.
pub struct ChunkSlot<K: InodeKind> {
    pub(crate) chunk: Arc<Chunk<K>>,
    pub(crate) bit: u64,
}

impl<K: InodeKind> ChunkSlot<K> {
    /// Tags the inode as idle, so that walks for this tag see it (I2). The caller holds the lock of
    /// the inode's state.
    pub(crate) fn set_idle(&self) {
        if self.chunk.idle.load(Ordering::Relaxed) & self.bit == 0 {
            self.chunk.idle.fetch_or(self.bit, Ordering::Release);
        }
    }

    /// Sets or clears the tag [`Tag::NeedsFlush`] of the inode. The caller holds the contents lock
    /// of the file.
    pub(crate) fn set_needs_flush(&self, needs_flush: bool) {
        if needs_flush {
            self.chunk.needs_flush.fetch_or(self.bit, Ordering::AcqRel);
        } else {
            self.chunk.needs_flush.fetch_and(!self.bit, Ordering::AcqRel);
        }
    }

    /// Removes the idle tag. The caller holds the lock of the inode's state.
    pub(crate) fn clear_idle(&self) {
        self.chunk.idle.fetch_and(!self.bit, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
