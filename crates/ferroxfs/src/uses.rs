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
use xfs_inode::LiveInode;
use xfs_locks::SlotTally;
use xfs_sync::{Mutex, Slot, Slots};
use xfs_trans::Journal;

use crate::table::{Entry, Inode, Keep, Store, Table};

/// Inodes that a slot remembers.
const PLACES: usize = 64;

/// One use of an inode, by all handles that were made on one slot.
pub(crate) struct SlotUse<I = LiveInode> {
    entry: Arc<Entry<I>>,
    /// Those of the handles that are open files.
    tally: Arc<SlotTally>,
}

impl<I> SlotUse<I> {
    pub(crate) fn entry(&self) -> &Arc<Entry<I>> {
        &self.entry
    }

    pub(crate) fn tally(&self) -> &SlotTally {
        &self.tally
    }
}

/// Gives up a reference to a use; the last one gives up the use.
pub(crate) fn end<S: Store>(held: Arc<SlotUse<S::Inode>>, table: &Table<S>) {
    if let Some(last) = last(held) {
        table.release(last);
    }
}

/// Gives up a reference to a use, and comes back with the use if that was its last one.
pub(crate) fn last<I>(held: Arc<SlotUse<I>>) -> Option<Arc<Entry<I>>> {
    Arc::into_inner(held).map(|last| last.entry)
}

/// The last inodes that a slot had, each at the place that its number says.
type Recent<I> = Vec<Option<Arc<SlotUse<I>>>>;

/// The uses of all slots.
pub(crate) struct Uses<S: Store = Arc<Journal>> {
    slots: Slots<Mutex<Recent<S::Inode>, Slot>>,
}

impl<S: Store> Uses<S> {
    pub(crate) fn new() -> Self {
        Self { slots: Slots::new(Mutex::default) }
    }

    /// A use of this inode by way of the thread's slot; `None` for one that is not counted by slot, or on
    /// its way out, or has no name yet.
    pub(crate) fn hold(
        &self,
        entry: &Arc<Entry<S::Inode>>,
        table: &Table<S>,
    ) -> Option<Arc<SlotUse<S::Inode>>> {
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
        if let Some(held) = place.as_ref().filter(|held| Arc::ptr_eq(&held.entry, entry)) {
            return Some(Arc::clone(held));
        }
        if !entry.live().has_name() || !entry.take(Keep::Cached).is_here() {
            return None;
        }
        let made = Arc::new(SlotUse { entry: Arc::clone(entry), tally: Arc::default() });
        entry.locks().add_slot(&made.tally);
        let before = place.replace(Arc::clone(&made));
        drop(recent);
        before.into_iter().for_each(|before| end(before, table));
        Some(made)
    }

    /// Notes that a file is opened which is not counted by slot.
    pub(crate) fn note_open(&self, entry: &Entry<S::Inode>) {
        entry.locks().note_opener(self.slots.my_number());
    }

    /// Lets all slots forget an inode that has lost its last name: from now on its last user is seen.
    pub(crate) fn drain(&self, entry: &Entry<S::Inode>, table: &Table<S>) {
        entry.locks().drain();
        if entry.locks().was_sharded() {
            self.visit(entry, table);
        }
    }

    /// Has each slot let go of an inode that it remembers.
    fn visit(&self, entry: &Entry<S::Inode>, table: &Table<S>) {
        for slot in self.slots.iter() {
            let is_it = |held: &mut Arc<SlotUse<S::Inode>>| std::ptr::eq(&*held.entry, entry);
            let place = place(entry.number());
            let held = slot.lock().get_mut(place).and_then(|held| held.take_if(is_it));
            held.into_iter().for_each(|held| end(held, table));
        }
    }

    /// Lets all slots forget what nobody has open by way of them.
    pub(crate) fn forget(&self, table: &Table<S>) {
        for slot in self.slots.iter() {
            let recent = std::mem::take(&mut *slot.lock());
            recent.into_iter().flatten().for_each(|held| end(held, table));
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
