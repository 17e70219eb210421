//! Letting go of inodes that nobody has used for long, once there are too many.
//!
//! Owns: in what order inodes are looked at. Does **not** own how many there are ([`size`](super::size)), or which
//! may go ([`CachedInode::sweep`](super::Entry::sweep)).
//!
//! ```text
//!   hand of a slot:   group 0 ─► group 1 ─► … ─► the last ─► group 0
//!   hand of a group:   from where it was left ─► to the end of the group: the rotors there go on
//! ```
//!
//! # Invariants
//!
//! - **I1** All groups take their turns, whoever works in which. So an inode goes because nobody has used it while
//!   the hand came round, and not for where it lies.
//! - **I2** A call takes as many steps as let go of what is wanted if each inode lies alone in its chunk and was
//!   used since it was swept last, and has to pass all groups for it. So what stays too many is that for a time.
//! - **I3** Who sweeps a group beside others sweeps other chunks than they do, and none of them begins
//!   the next round of it: what was used stays for all of a round.

use super::InodeCache;
use crate::cached_inode::SweepOutcome;
use crate::clock_hands::ClockHand;
use crate::evict::evict_step;
use crate::inode_walk::InodeWalk;
use crate::store::Store;
use crate::walk_step::{WalkStep, WalkVisitor};

/// Steps for each inode that has to go. One that lies alone in its chunk, and was used, goes at the second.
const STEPS: u64 = 4;

/// What a thread has still to do.
struct Due {
    /// Inodes that have to go.
    inodes: u64,
    /// Steps that may be taken for it.
    steps: u64,
}

impl<S: Store> InodeCache<S> {
    /// Lets go of what this slot owes.
    pub(crate) fn reclaim_due(&self) {
        let due = self.size.due();
        if due > 0 {
            self.reclaim(due);
        }
    }

    /// Lets go of so many inodes that nobody has used for long, from where this slot has stopped on.
    fn reclaim(&self, wanted: u64) {
        let groups = self.parts();
        let mut due = Due { inodes: wanted, steps: STEPS * wanted + 2 * groups as u64 };
        let mut hand = self.hands.mine();
        // The rest of the first one, and each of them twice.
        for _ in 0..=2 * groups {
            self.sweep(&mut hand, &mut due);
            if due.inodes == 0 || due.steps == 0 {
                break;
            }
            let group = if hand.group + 1 < groups { hand.group + 1 } else { 0 };
            hand = ClockHand { group, round: None };
        }
        self.hands.set_mine(hand);
    }

    /// Sweeps a group to the end of its round, or for as long as something has to be done.
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
                let group = self.groups.get(hand.group);
                group.map_or(WalkStep::End, |group| group.visit_at_hand(&mut hand.round, visit))
            }
        }
    }
}
