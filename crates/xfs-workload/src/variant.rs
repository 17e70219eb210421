//! The implementations that a benchmark compares (variants): ferroxfs, ferroxfs with one design
//! decision reverted, and the kernel.

use ferroxfs::OpenOptions;
use ferroxfs::bench::{InodeIndex, LockCheck, ParentPath};
use serde::{Deserialize, Serialize};

/// One of the compared variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The library of ferroxfs as it is.
    Ours,
    /// The library with an additional list of all cached inodes, under one lock.
    OneList,
    /// The library with a log whose threads all share one list of commits, in place of one list per
    /// slot.
    OneSlot,
    /// The library with updates of parent pointers by intents in separate transactions, and not
    /// directly.
    Intents,
    /// The library on a volume without parent pointers.
    NoParents,
    /// The library with one more read at each open and close: it reads the pointer to the file's
    /// locks.
    LockPointer,
    /// The library with a separate volume per thread.
    Apart,
    /// The kernel's XFS.
    Kernel,
}

impl Variant {
    /// Returns the name of the variant in tables and charts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ferroxfs",
            Self::OneList => "one list of inodes",
            Self::OneSlot => "one slot for commits",
            Self::Intents => "parents by intents",
            Self::NoParents => "no parents",
            Self::LockPointer => "lock pointer",
            Self::Apart => "a volume for each thread",
            Self::Kernel => "kernel",
        }
    }

    /// Returns whether the variant is the library with one design decision reverted.
    #[must_use]
    pub const fn is_before(self) -> bool {
        !matches!(self, Self::Ours | Self::Apart | Self::Kernel)
    }

    /// Returns whether a comparison of the variant is meaningful with this number of threads and
    /// processors.
    #[must_use]
    pub(crate) const fn is_meaningful(self, threads: usize, processors: usize) -> bool {
        // One thread always has a volume of its own. Without a processor per thread, the volumes
        // compete for processors.
        !matches!(self, Self::Apart) || (threads > 1 && threads <= processors)
    }

    /// Returns the options for opening the volume of this variant.
    #[must_use]
    pub fn options(self) -> OpenOptions {
        let usual = OpenOptions::new();
        match self {
            Self::OneList => usual.inode_index(InodeIndex::OneList),
            Self::OneSlot => usual.log_slots(1),
            Self::Intents => usual.parent_path(ParentPath::Intents),
            Self::LockPointer => usual.lock_check(LockCheck::Pointer),
            Self::Ours | Self::NoParents | Self::Apart | Self::Kernel => usual,
        }
    }

    /// Returns whether the volume of this variant has parent pointers.
    #[must_use]
    pub const fn has_parents(self) -> bool {
        !matches!(self, Self::NoParents)
    }
}
