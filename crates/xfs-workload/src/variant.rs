//! Who is compared with whom: ours as it is, ours with one design decision taken back, the kernel.

use ferroxfs::{InodeIndex, LockCheck, OpenOptions, ParentPath};
use serde::{Deserialize, Serialize};

/// One that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Ours as it is.
    Ours,
    /// Ours with one list of all inodes in memory.
    OneList,
    /// Ours with one list of all commits, which all threads share.
    OneSlot,
    /// Ours with parent pointers by intents and steps of their own.
    Intents,
    /// Ours on a volume without parent pointers.
    NoParents,
    /// Ours with a look at the pointer to a file's locks at each open and close.
    LockPointer,
    /// Ours with a volume for each thread.
    Apart,
    /// The kernel's XFS.
    Kernel,
}

impl Variant {
    /// What it is called in tables and charts.
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

    /// Whether it is ours with a decision taken back.
    #[must_use]
    pub const fn is_before(self) -> bool {
        !matches!(self, Self::Ours | Self::Apart | Self::Kernel)
    }

    /// Whether what so many threads do in this way on so many processors tells anything.
    #[must_use]
    pub(crate) const fn tells(self, threads: usize, processors: usize) -> bool {
        // One thread has a volume to itself as it is; without a processor for each, the volumes compete for those.
        !matches!(self, Self::Apart) || (threads > 1 && threads <= processors)
    }

    /// How its volume is opened.
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

    /// Whether its volume has parent pointers.
    #[must_use]
    pub const fn has_parents(self) -> bool {
        !matches!(self, Self::NoParents)
    }
}
