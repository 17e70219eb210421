//! Reclaim: evicts inodes that were not used for long, once too many are cached.
//!
//! Owns: the order in which inodes are visited. Does **not** own the number of cached inodes
//! (`size`), or which of them may be evicted (`CachedInode::sweep`).
//!
//! ```text
//!   hand of a slot:    group 0 ─► group 1 ─► … ─► the last ─► group 0
//!   hand of a group:   from where it was left ─► to the end of the group
//!                      the hands of slots continue there
//! ```
//!
//! # Invariants
//!
//! - **I1** All groups take turns, no matter in which groups threads work. So an inode is evicted
//!   because it was not used during a round of the hand, and not because of its group.
//! - **I2** A call makes enough steps to evict the wanted number even if each inode is alone in its
//!   chunk, was used since its last sweep, and all groups must be passed. So an excess is
//!   temporary.
//! - Threads that sweep one group in parallel sweep different chunks, and none of them
//!   begins its next round. So a used inode stays for a whole round.

use super::InodeCache;
use crate::cached_inode::SweepOutcome;
use crate::clock_hands::ClockHand;
use crate::evict::evict_step;
use crate::inode_walk::InodeWalk;
use crate::store::InodeStore;
use crate::walk_step::{WalkStep, WalkVisitor};

/// Number of steps of the clock hand that reclaim may make for each inode that it must evict. A
/// step only clears the mark of an inode that was used since the last step over it. So such an
/// inode is evicted at the second step over it, even if it is alone in its chunk.
const STEPS: u64 = 4;

/// The work that one call of reclaim still has to do.
struct Due {
    /// Number of inodes that are still to be evicted.
    inodes: u64,
    /// Number of steps of the clock hand that the call may still make.
    steps: u64,
}

impl<S: InodeStore> InodeCache<S> {
    /// Evicts as many inodes as `Size::due` returns for the calling thread, possibly none.
    pub(crate) fn reclaim_due(&self) {
        let due = self.size.due();
        if due > 0 {
            self.reclaim(due);
        }
    }

    /// Evicts `wanted` inodes that were not used for long, starting at the clock hand of the
    /// calling thread's processor slot.
    fn reclaim(&self, wanted: u64) {
        let groups = self.parts();
        let mut due = Due { inodes: wanted, steps: STEPS * wanted + 2 * groups as u64 };
        let mut hand = self.hands.mine();
        // The rest of the first group, and each group twice (I2).
        for _ in 0..=2 * groups {
            self.sweep(&mut hand, &mut due);
            if due.inodes == 0 || due.steps == 0 {
                break;
            }
            // The groups take turns (I1).
            let group = if hand.group + 1 < groups { hand.group + 1 } else { 0 };
            hand = ClockHand { group, round: None };
        }
        self.hands.set_mine(hand);
    }

    /// Visits the inodes of the group of `hand`, and evicts unused ones, until the round of the
    /// group's hand ends or nothing is left in `due`.
    fn sweep(&self, hand: &mut ClockHand, due: &mut Due) {
        while due.inodes > 0 && due.steps > 0 {
            due.steps -= 1;
            let (step, _) = evict_step(
                self,
                |visit| self.visit_at_hand(hand, visit),
                |entry| {
                    let sweep = if due.inodes > 0 { entry.sweep() } else { SweepOutcome::Stays };
                    due.inodes -= u64::from(sweep == SweepOutcome::Evicted);
                    sweep
                },
            );
            if step == WalkStep::End {
                return;
            }
        }
    }

    fn visit_at_hand(
        &self,
        hand: &mut ClockHand,
        visit: &mut WalkVisitor<'_, S::Kind>,
    ) -> WalkStep {
        match &self.list {
            Some(list) => list.visit_at_hand(visit),
            None => {
                // Each call gets a chunk of its own, and none after the end of the round.
                let group = self.groups.get(hand.group).expect("a hand stands in a group");
                group.visit_at_hand(&mut hand.round, visit)
            }
        }
    }
}
