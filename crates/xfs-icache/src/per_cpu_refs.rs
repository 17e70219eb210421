//! Uses of the inodes that many threads have open, by slot.
//!
//! A use of an inode is counted in the inode, which is one cache line for all threads. An inode that
//! several threads open in turn is therefore used once by each slot, and the handles of a slot share
//! that use: they count in its [`Arc`], which hardly any other thread writes.
//!
//! ```text
//!  Entry  users: 3 ◄── SlotUse of slot 0 ◄── handle, handle
//!                  ◄── SlotUse of slot 1 ◄── handle
//!                  ◄── a handle that has its own
//! ```
//!
//! A slot remembers the last inodes that it had, whether it has handles on them or not, so that to
//! open and close a file again and again leaves the inode alone.
//!
//! # Invariants
//!
//! - **I1** What a slot remembers is an inode that is counted by slot. Who takes one out of use sets it to
//!   drain and then visits the slots: each is locked by who adds to it, after a look at that. So nothing
//!   is remembered of an inode behind the visit, and nothing ever of one that never had a name.
//! - **I2** The use of a slot ends with the last of its handles and its memory, whichever goes last.
//!
//! Lock order: a slot, then the state of an inode or its tallies. A use ends without the slot.

use std::sync::Arc;

use xfs_format::InodeNumber;
use xfs_locks::SlotTally;
use xfs_sync::{Mutex, Slot, Slots};

use crate::cached_inode::{CachedInode, Keep};
use crate::inode_cache::InodeCache;
use crate::kind::{Inode, InodeKind};
use crate::store::Store;

/// Inodes that a slot remembers.
const PLACES: usize = 64;

/// One use of an inode, by all handles that were made on one slot.
pub struct PerCpuRef<K: InodeKind> {
    entry: Arc<CachedInode<K>>,
    /// Those of the handles that are open files.
    tally: Arc<SlotTally>,
}

impl<K: InodeKind> PerCpuRef<K> {
    /// Returns the inode.
    #[inline]
    pub fn entry(&self) -> &Arc<CachedInode<K>> {
        &self.entry
    }

    /// Returns the tally of open files among its handles.
    #[inline]
    pub fn tally(&self) -> &SlotTally {
        &self.tally
    }
}

/// Gives up a reference to a use; the last one gives up the use.
pub fn release_ref<S: Store>(held: Arc<PerCpuRef<S::Kind>>, table: &InodeCache<S>) {
    if let Some(last) = last_ref(held) {
        table.release(last);
    }
}

/// Gives up a reference to a use, and comes back with the use if that was its last one.
pub fn last_ref<K: InodeKind>(held: Arc<PerCpuRef<K>>) -> Option<Arc<CachedInode<K>>> {
    Arc::into_inner(held).map(|last| last.entry)
}

/// The last inodes that a slot had, each at the place that its number says.
type Recent<K> = Vec<Option<Arc<PerCpuRef<K>>>>;

/// The uses of all slots.
pub struct PerCpuRefs<S: Store> {
    slots: Slots<Mutex<Recent<S::Kind>, Slot>>,
}

impl<S: Store> PerCpuRefs<S> {
    /// Returns an empty set: no slot remembers an inode.
    pub fn new() -> Self {
        Self { slots: Slots::new(Mutex::default) }
    }

    /// A use of this inode by way of the thread's slot; `None` for one that is not counted by slot, or on
    /// its way out, or has no name yet.
    pub fn acquire(
        &self,
        entry: &Arc<CachedInode<S::Kind>>,
        table: &InodeCache<S>,
    ) -> Option<Arc<PerCpuRef<S::Kind>>> {
        if !entry.locks().is_spread() {
            return None;
        }
        let mut recent = self.slots.mine().lock();
        if !entry.locks().is_spread() {
            return None;
        }
        if recent.is_empty() {
            recent.resize_with(PLACES, || None);
        }
        let place = recent.get_mut(place(entry.number()))?;
        if let Some(held) = place.as_ref().filter(|held| Arc::ptr_eq(&held.entry, entry)) {
            return Some(Arc::clone(held));
        }
        if !entry.live().has_name() || !entry.take(Keep::Cached).is_here() {
            return None;
        }
        let made = Arc::new(PerCpuRef { entry: Arc::clone(entry), tally: Arc::default() });
        entry.locks().add_slot(&made.tally);
        let before = place.replace(Arc::clone(&made));
        drop(recent);
        before.into_iter().for_each(|before| release_ref(before, table));
        Some(made)
    }

    /// Notes that a file is opened which is not counted by slot.
    pub fn note_open(&self, entry: &CachedInode<S::Kind>) {
        entry.locks().note_opener(self.slots.my_number());
    }

    /// Lets all slots forget an inode that has lost its last name: from now on its last user is seen.
    pub fn collapse(&self, entry: &CachedInode<S::Kind>, table: &InodeCache<S>) {
        entry.locks().drain();
        if entry.locks().was_spread() {
            self.visit(entry, table);
        }
    }

    /// Has each slot let go of an inode that it remembers.
    fn visit(&self, entry: &CachedInode<S::Kind>, table: &InodeCache<S>) {
        for slot in self.slots.iter() {
            let is_it = |held: &mut Arc<PerCpuRef<S::Kind>>| std::ptr::eq(&*held.entry, entry);
            let place = place(entry.number());
            let held = slot.lock().get_mut(place).and_then(|held| held.take_if(is_it));
            held.into_iter().for_each(|held| release_ref(held, table));
        }
    }

    /// Lets all slots forget what nobody has open by way of them.
    pub fn clear(&self, table: &InodeCache<S>) {
        for slot in self.slots.iter() {
            let recent = std::mem::take(&mut *slot.lock());
            recent.into_iter().flatten().for_each(|held| release_ref(held, table));
        }
    }
}

/// Where a slot remembers an inode.
fn place(number: InodeNumber) -> usize {
    // Fibonacci hashing: neighbours lie apart.
    (number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

#[cfg(all(test, shuttle))]
mod model;
