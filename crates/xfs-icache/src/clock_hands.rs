//! The clock hands of reclaim: where each processor slot continues to sweep.

use xfs_sync::{Mutex, Slot, Slots};

use crate::group::ClockRound;

/// The place at which the threads of one processor slot continue to sweep for unused inodes: an
/// allocation group, and a round of that group's own clock hand.
#[derive(Clone, Copy)]
pub(crate) struct ClockHand {
    pub(crate) group: usize,
    /// The round in which the processor slot sweeps the group. `None` if the slot has not begun to
    /// sweep the group.
    pub(crate) round: Option<ClockRound>,
}

/// The clock hands of all processor slots.
pub(crate) struct ClockHands(Slots<Mutex<ClockHand, Slot>>);

impl ClockHands {
    /// Makes a hand for each processor slot. No two hands start in the same group if there are
    /// enough groups.
    pub(crate) fn new(groups: usize) -> Self {
        let mut starts = (0..groups).cycle();
        let mut start =
            || ClockHand { group: starts.next().expect("a volume has a group"), round: None };
        Self(Slots::new(|| Mutex::new(start())))
    }

    /// Returns the clock hand of the processor slot to which the calling thread belongs.
    pub(crate) fn mine(&self) -> ClockHand {
        *self.0.mine().lock()
    }

    /// Replaces the clock hand of the processor slot to which the calling thread belongs.
    pub(crate) fn set_mine(&self, hand: ClockHand) {
        *self.0.mine().lock() = hand;
    }
}
