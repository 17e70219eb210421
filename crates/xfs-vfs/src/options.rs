//! The options of a mount.

use std::time::Duration;

use xfs_dir::ParentPath;
use xfs_trans::Upkeep;

use crate::clock::Clock;

/// The options of a read-write mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// The source of the times that operations store.
    pub clock: Clock,
    /// How operations write parent pointers.
    pub parents: ParentPath,
    /// Whether small writes are buffered, so that they reach the device as large ones.
    pub joins_writes: bool,
    /// The time within which the holder of a broken lease must return the lease.
    pub lease_grace: Duration,
    /// How an open learns whether a file has locks.
    pub lock_check: LockCheck,
    /// The intervals of background work that the caller wants. With `None`, the default intervals
    /// are used. If the clock is fixed, `None` means that no background work is done.
    pub upkeep: Option<Upkeep>,
}

impl MountOptions {
    /// Returns the intervals of background work. `None` means that there is no background work: the
    /// clock stands at a fixed time, and the caller has not asked for background work.
    pub fn chosen_upkeep(&self) -> Option<Upkeep> {
        self.upkeep.or_else(|| (!self.clock.is_fixed()).then(Upkeep::default))
    }
}

/// How an open and a close learn whether a file has locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockCheck {
    /// Each open and each close reads a flag that says whether the file has locks. The memory word
    /// of the flag is rarely written.
    #[default]
    Flag,
    /// Each open and each close also reads the pointer to the file's locks, which lies on a cache
    /// line that each open writes. For benchmarks only.
    Pointer,
}
