//! What has been written in place leaves the list.
//!
//! Owns: how an item leaves without the list being locked, and when its place is given up. Does **not**
//! own who writes it, or what moves the tail.
//!
//! An item is out of the list as soon as its [`ItemState`] says so, which who has written it sees to before he
//! lets go of what he has written, a buffer: from then on it is clean, and may be logged and placed anew. The list still has its old
//! place, with a reference to the item, and the tail waits there. It belongs to the whole volume, and whatever moves the tail
//! serves who waits for log space: so the places of [`SWEEP_WRITES`] writes are given up together.
//!
//! That the item stands at the LSN at which it was seen is enough to know that nothing stands there of it that was
//! logged later, since it never comes back to an LSN that it has left. What is logged after it was placed comes after
//! the COMMIT of the checkpoint that placed it, so it begins in a later record. And what keeps an older place for a
//! later checkpoint (an ordered buffer) is pinned from the look at that place until it is kept: nobody writes
//! it meanwhile.
//!
//! A place that somebody else has given up meanwhile, since the item has been moved, may be that of another
//! item by now, or none: what stands in it says whether it is its place ([`AilList::sweep`]).

use std::sync::Arc;

use xfs_format::Lsn;

use super::{Ail, AilList, Position};
use crate::item::{ItemState, LogItem};
use crate::mutant::ActiveMutant;

/// Writes in place after which their items give up their places. A cluster of inodes is one write of as many
/// as 65 items.
const SWEEP_WRITES: usize = 32;

/// What a walk has had written in place since it last gave up places.
#[derive(Default)]
pub struct InPlace {
    /// Of items that have left.
    positions: Vec<Position>,
    /// How many there were when the last item had been pushed.
    seen: usize,
    /// Pushes by which something has left.
    writes: usize,
    mutant: ActiveMutant,
}

impl InPlace {
    pub(super) fn new(mutant: ActiveMutant) -> Self {
        Self { mutant, ..Self::default() }
    }

    /// The item is in place as it was at `lsn`, where the caller has seen it. If it has been logged again, and
    /// moved, it stays in the list.
    pub fn note(&mut self, item: &ItemState, lsn: Lsn) {
        self.positions.extend(item.leave_from(lsn, self.mutant));
    }

    /// The item will never be in place: what it was part of is gone.
    pub fn note_gone(&mut self, item: &ItemState) {
        if let Some(lsn) = item.lsn() {
            self.note(item, lsn);
        }
    }

    /// An item has been pushed. Returns whether so many have been written that the places shall be given up.
    pub(super) fn end_push(&mut self) -> bool {
        self.writes += usize::from(self.positions.len() > self.seen);
        self.seen = self.positions.len();
        self.writes == SWEEP_WRITES
    }
}

impl Ail {
    /// Gives up the places of what is in place.
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
    /// Takes out what stands there, unless it is its place.
    fn sweep(&mut self, position: Position) -> Option<Arc<dyn LogItem>> {
        let item = self.groups.get(&position.lsn)?.items.get(position.number as usize)?.as_ref()?;
        let is_its_place = item.state().position() == Some(position);
        if is_its_place { None } else { self.remove(position) }
    }
}
