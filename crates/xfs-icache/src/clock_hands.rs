//! The clock hands of reclaim: where each processor slot continues to sweep.

use xfs_sync::{Mutex, Slot, Slots};

use crate::group::ClockRound;

/// The clock hand of one slot: a group, and the round in which the slot sweeps that group.
#[derive(Clone, Copy)]
pub(crate) struct ClockHand {
    pub(crate) group: usize,
    /// The round of the group. `None`: the slot has not swept there yet.
    pub(crate) round: Option<ClockRound>,
}

/// The clock hands of all slots.
pub(crate) struct ClockHands(Slots<Mutex<ClockHand, Slot>>);

impl ClockHands {
    /// Makes the hands. Each slot starts in another group, if there are enough groups.
    pub(crate) fn new(groups: usize) -> Self {
        let mut starts = (0..groups).cycle();
        let mut start = || ClockHand { group: starts.next().unwrap_or(0), round: None };
        Self(Slots::new(|| Mutex::new(start())))
    }

    /// Returns the hand of the calling thread's slot.
    pub(crate) fn mine(&self) -> ClockHand {
        *self.0.mine().lock()
    }

    /// Moves the hand of the calling thread's slot.
    pub(crate) fn set_mine(&self, hand: ClockHand) {
        *self.0.mine().lock() = hand;
    }
}
