//! Which ranges of a file are locked, and by whom.
//!
//! # Invariants
//!
//! - **I1** No byte is locked twice by one owner.
//! - **I2** No byte that one owner holds exclusively is held by another: callers look for a
//!   [conflict](RecordLocks::conflict) first.
//! - **I3** Ranges of one owner and one mode that touch are one range.

use crate::range::LockRange;

/// Whom a lock belongs to. Locks of one owner never stand in each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A process, or what a caller takes for one: POSIX record locks, `F_SETLK`. Its locks on a file
    /// end when it closes any descriptor of that file.
    Process(u64),
    /// An open file description: `F_OFD_SETLK`, `flock`. Its locks end with it.
    Description(u64),
}

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Beside others that share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// A lock that somebody holds, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Whose it is.
    pub owner: Owner,
    /// What it covers.
    pub range: LockRange,
    /// How.
    pub mode: LockMode,
}

impl HeldLock {
    /// Whether the two cannot be held at the same time.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner
            && self.range.overlaps(other.range)
            && (self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
    }
}

/// The locks of one file. Time of each call, and memory, grow with their number.
#[derive(Clone, Debug, Default)]
pub struct RecordLocks {
    held: Vec<HeldLock>,
}

impl RecordLocks {
    /// A file without locks.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: Vec::new() }
    }

    /// What stands in the way of `wanted`.
    pub fn conflicts(&self, wanted: HeldLock) -> impl Iterator<Item = &HeldLock> {
        self.held.iter().filter(move |held| held.conflicts(&wanted))
    }

    /// What stands in the way of `wanted` first in the file.
    #[must_use]
    pub fn conflict(&self, wanted: HeldLock) -> Option<HeldLock> {
        self.conflicts(wanted).min_by_key(|held| held.range).copied()
    }

    /// Locks a range, in place of what its owner holds there. What others hold is not looked at.
    pub fn lock(&mut self, wanted: HeldLock) {
        let joins = |held: &HeldLock| {
            held.owner == wanted.owner
                && held.mode == wanted.mode
                && held.range.touches(wanted.range)
        };
        let joined = self.held.iter().filter(|held| joins(held));
        let range = joined.fold(wanted.range, |range, held| range.union(held.range));
        self.held.retain(|held| !joins(held));
        self.unlock(wanted.owner, wanted.range);
        self.held.push(HeldLock { range, ..wanted });
    }

    /// Gives up what an owner holds in a range. Returns whether that was anything.
    pub fn unlock(&mut self, owner: Owner, range: LockRange) -> bool {
        let before = self.held.len();
        let mut rest = Vec::new();
        self.held.retain(|held| {
            let hit = held.owner == owner && held.range.overlaps(range);
            if hit {
                rest.extend(held.range.without(range).map(|range| HeldLock { range, ..*held }));
            }
            !hit
        });
        let changed = self.held.len() < before;
        self.held.append(&mut rest);
        changed
    }

    /// All that is held, in no order.
    #[must_use]
    pub fn held(&self) -> &[HeldLock] {
        &self.held
    }
}

#[cfg(test)]
mod tests;
