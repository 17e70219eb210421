//! Letting go of inodes that nobody has used for long, once there are too many.
//!
//! Owns: in what order inodes are looked at. Does **not** own how many there are ([`size`](super::size)), or which
//! may go ([`Entry::sweep`](super::Entry::sweep)).
//!
//! ```text
//!   rotor of a slot:   group 0 ─► group 1 ─► … ─► the last ─► group 0
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

use xfs_sync::{Mutex, Slot, Slots};

use super::group::Round;
use super::{Store, Sweep, Table};
use crate::superblock::{Filesystem, Step, Visit, evict_step};

/// Steps for each inode that has to go. One that lies alone in its chunk, and was used, goes at the second.
const STEPS: u64 = 4;

/// Where a slot goes on.
#[derive(Clone, Copy)]
struct Rotor {
    group: usize,
    /// The round of the group, once the slot has been there.
    round: Option<Round>,
}

/// Where each slot goes on.
pub(super) struct Rotors(Slots<Mutex<Rotor, Slot>>);

impl Rotors {
    /// Each slot begins elsewhere, as far as there are groups.
    pub(super) fn new(groups: usize) -> Self {
        let mut starts = (0..groups).cycle();
        let mut start = || Rotor { group: starts.next().unwrap_or(0), round: None };
        Self(Slots::new(|| Mutex::new(start())))
    }
}

/// What a thread has still to do.
struct Due {
    /// Inodes that have to go.
    inodes: u64,
    /// Steps that may be taken for it.
    steps: u64,
}

impl<S: Store> Table<S> {
    /// Lets go of what this slot owes.
    pub(super) fn reclaim_due(&self) {
        let due = self.size.due();
        if due > 0 {
            self.reclaim(due);
        }
    }

    /// Lets go of so many inodes that nobody has used for long, from where this slot has stopped on.
    fn reclaim(&self, wanted: u64) {
        let groups = self.parts();
        let mut due = Due { inodes: wanted, steps: STEPS * wanted + 2 * groups as u64 };
        let mut rotor = *self.rotors.0.mine().lock();
        // The rest of the first one, and each of them twice.
        for _ in 0..=2 * groups {
            self.sweep(&mut rotor, &mut due);
            if due.inodes == 0 || due.steps == 0 {
                break;
            }
            let group = if rotor.group + 1 < groups { rotor.group + 1 } else { 0 };
            rotor = Rotor { group, round: None };
        }
        *self.rotors.0.mine().lock() = rotor;
    }

    /// Sweeps a group to the end of its round, or for as long as something has to be done.
    fn sweep(&self, rotor: &mut Rotor, due: &mut Due) {
        while due.inodes > 0 && due.steps > 0 {
            due.steps -= 1;
            let (step, _) = evict_step(
                self,
                |visit| self.visit_at_hand(rotor, visit),
                |entry| {
                    let sweep = if due.inodes > 0 { entry.sweep() } else { Sweep::Stays };
                    due.inodes -= u64::from(sweep == Sweep::Evicted);
                    sweep
                },
            );
            if step == Step::End {
                return;
            }
        }
    }

    fn visit_at_hand(&self, rotor: &mut Rotor, visit: &mut Visit<'_, S::Inode>) -> Step {
        match &self.list {
            Some(list) => list.visit_at_hand(visit),
            None => {
                let group = self.groups.get(rotor.group);
                group.map_or(Step::End, |group| group.visit_at_hand(&mut rotor.round, visit))
            }
        }
    }
}
