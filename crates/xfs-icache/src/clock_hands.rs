//! The position at which each processor slot continues to reclaim.

use xfs_sync::{Mutex, Slot, Slots};

use crate::group::ClockRound;

/// The position of one slot: a group, and the round in which the slot sweeps it.
#[derive(Clone, Copy)]
pub(crate) struct ClockHand {
    pub(crate) group: usize,
    /// The round of the group, once the slot has swept there.
    pub(crate) round: Option<ClockRound>,
}

/// The positions of all slots.
pub(crate) struct ClockHands(Slots<Mutex<ClockHand, Slot>>);

impl ClockHands {
    /// Starts each slot in another group, as far as there are groups.
    pub(crate) fn new(groups: usize) -> Self {
        let mut starts = (0..groups).cycle();
        let mut start = || ClockHand { group: starts.next().unwrap_or(0), round: None };
        Self(Slots::new(|| Mutex::new(start())))
    }

    /// Returns the position of the calling thread's slot.
    pub(crate) fn mine(&self) -> ClockHand {
        *self.0.mine().lock()
    }

    /// Moves the position of the calling thread's slot.
    pub(crate) fn set_mine(&self, hand: ClockHand) {
        *self.0.mine().lock() = hand;
    }
}
