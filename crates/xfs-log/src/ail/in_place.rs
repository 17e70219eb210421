//! Removal from the AIL of items that have been written "in place": to their home locations on
//! disk.
//!
//! Owns: how an item leaves the AIL while the list is not locked, and when the item's position in
//! the list is swept. Does **not** own writing the item, or the reasons for which the tail moves.
//!
//! An item has left the list as soon as its [`ItemState`] says so. The thread that has written the
//! item sets that state before it unlatches the buffer. As soon as the state is set, the item is
//! clean, and may be logged and inserted again. The list still has a reference to the item at the
//! old position, and the tail waits there. A sweep locks the list of the whole volume, and a tail
//! that moves serves the waiters for log space. To save such work, the positions of
//! [`SWEEP_WRITES`] writes are swept together.
//!
//! The thread that has written the item compares the item's LSN with the LSN that it read before
//! the write. If they are equal, nothing of the item was logged since, because an item never
//! returns to an LSN that it has left. A change that is logged after the item was inserted comes
//! after the COMMIT of the checkpoint that inserted it, so it begins in a later record. An item
//! that keeps an older position for a later checkpoint (an ordered buffer) is pinned from the time
//! when that position is read until it is kept: no thread writes it meanwhile.
//!
//! If the item has been moved, another thread may already have swept its old position. The position
//! may then be empty or hold another item. The state of the item found there shows whether it is at
//! its own position ([`AilList::sweep`]).

use std::sync::Arc;

use xfs_format::Lsn;

use super::{Ail, AilList, AilPosition};
use crate::item::{ItemState, LogItem};
use crate::mutant::ActiveMutant;

/// Number of writes after which the positions of the written items are swept. A cluster of inodes
/// is one write of as many as 65 items: 64 inodes and the buffer.
pub(super) const SWEEP_WRITES: usize = 128;

/// The items that were written to their home locations during a walk over the AIL, and that have
/// not been swept from its list yet.
#[derive(Default)]
pub struct InPlace {
    /// Positions in the AIL from which the next sweep removes the items. These items are already
    /// marked as no longer in the AIL.
    positions: Vec<AilPosition>,
    /// The length of `positions` at the end of the last push of an item. If `positions` is longer
    /// at the end of the present push, that push has marked items.
    seen: usize,
    /// Number of pushes, since the last sweep, in which an item was marked as no longer in the AIL.
    writes: usize,
    mutant: ActiveMutant,
}

impl InPlace {
    pub(super) fn new(mutant: ActiveMutant) -> Self {
        Self { mutant, ..Self::default() }
    }

    /// Notes that the disk has the contents that the item had at `lsn`, the LSN in the AIL that the
    /// caller has read before the write. Marks the item as no longer in the AIL, unless the item
    /// has been logged again and moved to a later LSN since.
    pub fn note(&mut self, item: &ItemState, lsn: Lsn) {
        self.positions.extend(item.leave_from(lsn, self.mutant));
    }

    /// Notes that an item will never be written to its home location, because the inode cluster
    /// that contained it has been freed.
    pub fn note_gone(&mut self, item: &ItemState) {
        if let Some(lsn) = item.lsn() {
            self.note(item, lsn);
        }
    }

    /// Ends the push of one item. Returns whether the items marked so far must now be swept from
    /// the AIL, because `SWEEP_WRITES` pushes have marked items since the last sweep.
    pub(super) fn end_push(&mut self) -> bool {
        self.writes += usize::from(self.positions.len() > self.seen);
        self.seen = self.positions.len();
        self.writes == SWEEP_WRITES
    }
}

impl Ail {
    /// Removes from the list all items that were marked as no longer in the AIL, and locks the list
    /// only once for all of them. Then moves the tail.
    pub(super) fn sweep(&self, in_place: &mut InPlace) {
        (in_place.writes, in_place.seen) = (0, 0);
        if in_place.positions.is_empty() {
            return;
        }
        let mut list = self.list.lock();
        let before = list.tail();
        let left: Vec<_> =
            in_place.positions.drain(..).filter_map(|position| list.sweep(position)).collect();
        self.note_removals(&list, before);
        drop(list);
        // Outside the lock: the last reference to an item may be dropped here.
        drop(left);
    }
}

impl AilList {
    /// Removes the item at `position` from the list and returns it. Returns `None` if the list has
    /// no item there. Also returns `None`, and keeps the item, if the item's own state names
    /// `position`: the item was inserted at this position again.
    fn sweep(&mut self, position: AilPosition) -> Option<Arc<dyn LogItem>> {
        let item = self.groups.get(&position.lsn)?.items.get(position.number as usize)?.as_ref()?;
        let is_at_its_position = item.state().position() == Some(position);
        if is_at_its_position { None } else { Some(self.remove(position)) }
    }
}
