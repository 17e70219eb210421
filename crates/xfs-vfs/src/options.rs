//! The options of a mount.

use std::time::Duration;

use xfs_dir::ParentPath;
use xfs_trans::Upkeep;

use crate::clock::Clock;

/// The options of a read-write mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// The source of the timestamps that operations store in inodes.
    pub clock: Clock,
    /// How operations write parent pointers.
    pub parents: ParentPath,
    /// Whether small writes are buffered and joined into large ones before they go to the device.
    pub joins_writes: bool,
    /// The time within which the holder of a broken lease must return the lease.
    pub lease_grace: Duration,
    /// How an open finds out whether a file has locks.
    pub lock_check: LockCheck,
    /// The intervals of background work. `None` means the default intervals or, if the clock is
    /// fixed, no background work.
    pub upkeep: Option<Upkeep>,
}

impl MountOptions {
    /// Returns the intervals of background work, or `None` if there is none: the clock is fixed,
    /// and the option `upkeep` is not set.
    pub fn chosen_upkeep(&self) -> Option<Upkeep> {
        self.upkeep.or_else(|| (!self.clock.is_fixed()).then(Upkeep::default))
    }
}

/// How an open and a close find out whether a file has locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockCheck {
    /// Each open and each close reads a flag that says whether the file has locks. The flag is
    /// rarely written, so threads do not contend for it.
    #[default]
    Flag,
    /// Each open and each close also reads the pointer to the file's locks, which lies on a cache
    /// line that each open writes. For benchmarks only.
    Pointer,
}
