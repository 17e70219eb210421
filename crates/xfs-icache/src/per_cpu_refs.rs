//! References that the handles of one processor share.
//!
//! A direct reference is counted in the inode, on one cache line for all threads. An inode that
//! several threads open in turn is instead referenced once by each processor slot, and the handles
//! of a slot share that reference. The handles are counted in the [`Arc`] of the shared reference,
//! which threads of other processors rarely write.
//!
//! ```text
//!  CachedInode  users: 3 ◄── PerCpuRef of slot 0 ◄── handle, handle
//!                        ◄── PerCpuRef of slot 1 ◄── handle
//!                        ◄── a handle with a direct reference
//! ```
//!
//! A slot remembers the inodes that it referenced last, with or without handles on them. So a
//! thread that opens and closes a file again and again does not write to the inode.
//!
//! # Invariants
//!
//! - **I1** A slot remembers only inodes that are counted by slot. A thread that collapses an
//!   inode, so that the slots forget it, first marks the inode as draining and then visits the
//!   slots. A slot adds a reference under its lock, after a check that the inode is not draining.
//!   So no slot remembers the inode after the visit. No slot ever remembers an inode that never had
//!   a name.
//! - **I2** The reference of a slot ends as soon as two conditions hold: its last handle is
//!   dropped, and the slot has forgotten the inode.
//!
//! Lock order: a slot, then the state of an inode or its tallies. A reference ends without the lock
//! of the slot.

use std::sync::Arc;

use xfs_format::InodeNumber;
use xfs_locks::SlotTally;
use xfs_sync::{Mutex, Slot, Slots};

use crate::cache_ref::{CacheRef, StoredRef};
use crate::cached_inode::CachedInode;
use crate::inode_cache::InodeCache;
use crate::kind::{CacheableInode, InodeKind};
use crate::store::InodeStore;

/// The most inodes that a processor slot remembers. The next open through the slot then finds the
/// reference again.
const PLACES: usize = 64;

/// One reference to an inode, shared by all handles that were made on one processor slot.
pub struct PerCpuRef<K: InodeKind> {
    held: StoredRef<K>,
    /// Counts the open files among the handles that share this reference.
    tally: Arc<SlotTally>,
}

impl<K: InodeKind> PerCpuRef<K> {
    /// Returns the inode.
    #[inline]
    pub fn entry(&self) -> &Arc<CachedInode<K>> {
        self.held.inode()
    }

    /// Returns the count of the open files among the handles that share this reference.
    #[inline]
    pub fn tally(&self) -> &SlotTally {
        &self.tally
    }
}

/// Drops one share of a reference: that of a handle, or the share by which the processor slot
/// remembers the inode. The last share releases the reference (I2).
pub fn release_ref<S: InodeStore>(held: Arc<PerCpuRef<S::Kind>>, cache: &InodeCache<S>) {
    drop(last_ref(held).map(|last| CacheRef::restore(cache, last)));
}

/// Drops one share of a reference, as `release_ref` does. If this was the last share, returns the
/// reference itself.
pub fn last_ref<K: InodeKind>(held: Arc<PerCpuRef<K>>) -> Option<StoredRef<K>> {
    Arc::into_inner(held).map(|last| last.held)
}

/// The references that a processor slot remembers, each at an index computed from the inode number.
type Recent<K> = Vec<Option<Arc<PerCpuRef<K>>>>;

/// The references that all processor slots remember: at most one for each slot and inode.
pub struct PerCpuRefs<S: InodeStore> {
    slots: Slots<Mutex<Recent<S::Kind>, Slot>>,
}

impl<S: InodeStore> Default for PerCpuRefs<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: InodeStore> PerCpuRefs<S> {
    /// Makes an empty set: no processor slot remembers an inode.
    pub fn new() -> Self {
        Self { slots: Slots::new(Mutex::default) }
    }

    /// Takes a share of the reference that the calling thread's slot has to an inode. Returns
    /// `None` if the references of the inode are not counted by processor slot, if the inode is
    /// being evicted or freed, or if it has no name.
    pub fn acquire(
        &self,
        entry: &Arc<CachedInode<S::Kind>>,
        cache: &InodeCache<S>,
    ) -> Option<Arc<PerCpuRef<S::Kind>>> {
        if !entry.locks().is_sharded() {
            return None;
        }
        let mut recent = self.slots.mine().lock();
        if !entry.locks().is_sharded() {
            return None;
        }
        if recent.is_empty() {
            recent.resize_with(PLACES, || None);
        }
        let place = recent.get_mut(place(entry.number()))?;
        if let Some(held) = place.as_ref().filter(|held| Arc::ptr_eq(held.entry(), entry)) {
            return Some(Arc::clone(held));
        }
        if !entry.live().has_name() {
            return None;
        }
        let held = CacheRef::of_found(cache, entry)?.store();
        let made = Arc::new(PerCpuRef { held, tally: Arc::default() });
        entry.locks().add_slot(&made.tally);
        let before = place.replace(Arc::clone(&made));
        drop(recent);
        before.into_iter().for_each(|before| release_ref(before, cache));
        Some(made)
    }

    /// Notes that this thread has opened the file of `entry`, with a reference that is counted in
    /// the cached inode itself. Once threads of several processor slots have opened the file, its
    /// references are counted separately for each slot.
    pub fn note_open(&self, entry: &CachedInode<S::Kind>) {
        entry.locks().note_opener(self.slots.my_number());
    }

    /// Makes all processor slots forget an inode that has lost its last name. A slot that still
    /// remembered the inode would keep it from being freed.
    pub fn collapse(&self, entry: &CachedInode<S::Kind>, cache: &InodeCache<S>) {
        entry.locks().drain();
        if entry.locks().was_sharded() {
            self.visit(entry, cache);
        }
    }

    /// Makes each processor slot forget an inode, if the slot remembers it.
    fn visit(&self, entry: &CachedInode<S::Kind>, cache: &InodeCache<S>) {
        for slot in self.slots.iter() {
            let is_it = |held: &mut Arc<PerCpuRef<S::Kind>>| std::ptr::eq(&**held.entry(), entry);
            let place = place(entry.number());
            let held = slot.lock().get_mut(place).and_then(|held| held.take_if(is_it));
            held.into_iter().for_each(|held| release_ref(held, cache));
        }
    }

    /// Makes all processor slots forget all inodes. Handles keep their references.
    pub fn clear(&self, cache: &InodeCache<S>) {
        for slot in self.slots.iter() {
            let recent = std::mem::take(&mut *slot.lock());
            recent.into_iter().flatten().for_each(|held| release_ref(held, cache));
        }
    }
}

/// Returns the index at which a processor slot remembers an inode.
fn place(number: InodeNumber) -> usize {
    // Fibonacci hashing: neighbours get places far apart.
    (number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

#[cfg(all(test, shuttle))]
mod model;
