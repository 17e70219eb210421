//! The options of a mount.

use std::time::Duration;

use xfs_dir::ParentPath;
use xfs_trans::Upkeep;

use crate::clock::Clock;

/// How a volume is mounted read-write.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// The source of times.
    pub clock: Clock,
    /// How parent pointers are written.
    pub parents: ParentPath,
    /// Whether small writes are buffered and joined.
    pub joins_writes: bool,
    /// How long the holder of a lease has to give it back.
    pub lease_grace: Duration,
    /// How an open learns whether a file has locks.
    pub lock_check: LockCheck,
    /// Work that the caller wants in the background. `None`: the default.
    pub upkeep: Option<Upkeep>,
}

impl MountOptions {
    /// Returns what is done in the background. With a fixed time nothing is, unless the caller
    /// wants it.
    pub fn chosen_upkeep(&self) -> Option<Upkeep> {
        self.upkeep.or_else(|| (!self.clock.is_fixed()).then(Upkeep::default))
    }
}

/// How an open and a close learn whether a file has locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockCheck {
    /// By a flag, in a word that is rarely written.
    #[default]
    Flag,
    /// By the pointer to the locks too, on a cache line that opens write: for benchmarks only.
    Pointer,
}
