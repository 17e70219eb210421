//! The locked ranges of a file, and their owners.
//!
//! # Invariants
//!
//! - **I1** Each owner has at most one lock on a byte.
//! - **I2** If one owner holds a byte exclusively, no other owner holds it. Callers check for a
//!   [conflict](RecordLocks::conflict) first.
//! - **I3** Adjacent ranges of one owner and one mode are joined into one range.

use crate::range::LockRange;

/// The owner of a lock. Locks of one owner never conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// A process, or a number that a caller uses in its place. It owns POSIX record locks
    /// (`F_SETLK`). Its locks on a file end when it closes any descriptor of that file.
    Process(u64),
    /// An open file description. It owns locks of `F_OFD_SETLK` and `flock`. Its locks end when the
    /// description is closed.
    Description(u64),
}

/// The mode of a lock.
///
/// Not `#[non_exhaustive]`, because POSIX has no other modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// The lock can be held together with other shared locks.
    Shared,
    /// The lock excludes all other locks on its range.
    Exclusive,
}

/// A lock that is held or requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// The owner of the lock.
    pub owner: Owner,
    /// The range of the lock.
    pub range: LockRange,
    /// The mode of the lock.
    pub mode: LockMode,
}

impl HeldLock {
    /// Creates the description of a lock.
    #[must_use]
    pub const fn new(owner: Owner, range: LockRange, mode: LockMode) -> Self {
        Self { owner, range, mode }
    }

    /// Returns whether the two locks cannot be held at the same time.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner
            && self.range.overlaps(other.range)
            && (self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
    }
}

/// The record locks of one file. The time of each call and the memory grow linearly with the number
/// of locks.
#[derive(Clone, Debug, Default)]
pub struct RecordLocks {
    held: Vec<HeldLock>,
}

impl RecordLocks {
    /// Creates the list of a file without locks.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: Vec::new() }
    }

    /// Returns the locks that conflict with `wanted`.
    pub fn conflicts(&self, wanted: HeldLock) -> impl Iterator<Item = &HeldLock> {
        self.held.iter().filter(move |held| held.conflicts(&wanted))
    }

    /// Returns the conflicting lock that is first in the file, or `None` if no lock conflicts.
    #[must_use]
    pub fn conflict(&self, wanted: HeldLock) -> Option<HeldLock> {
        self.conflicts(wanted).min_by_key(|held| held.range).copied()
    }

    /// Takes the lock `wanted`. It replaces all locks that the owner of `wanted` has in the range
    /// of `wanted`. Locks of other owners are not checked.
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

    /// Releases the locks that an owner has in a range of bytes. Returns whether it had any there.
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

    /// Returns all locks, in no particular order.
    #[must_use]
    pub fn held(&self) -> &[HeldLock] {
        &self.held
    }
}

#[cfg(test)]
mod tests;
