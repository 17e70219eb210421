//! The address spaces of a volume, with one type for each.
//!
//! Owns: the newtypes and their printed form. Does **not** own conversions that need a shift from
//! the superblock: those are methods of [`Geometry`](crate::Geometry).

use core::fmt;

/// Bytes in a basic block ("BB"), the unit of disk addresses and of the log.
pub const BASIC_BLOCK_BYTES: u32 = 512;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident($raw:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);

        impl $name {
            /// The address whose bits are all ones. On disk it means "no such address".
            pub const NULL: Self = Self(<$raw>::MAX);

            /// Returns whether this is the address that means "no such address".
            #[must_use]
            pub const fn is_null(self) -> bool {
                self.0 == <$raw>::MAX
            }

            /// Returns the address that is `count` units higher, or `None` on overflow.
            #[must_use]
            pub const fn checked_add(self, count: $raw) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.is_null() {
                    return write!(f, concat!($prefix, " null"));
                }
                write!(f, concat!($prefix, " {}"), self.0)
            }
        }

        impl From<$raw> for $name {
            fn from(raw: $raw) -> Self {
                Self(raw)
            }
        }
    };
}

address! {
    /// The number of an allocation group, counted from 0.
    #[doc(alias = "agno")] #[doc(alias = "xfs_agnumber_t")]
    AgNumber(u32), "AG"
}
address! {
    /// The number of a filesystem block inside its allocation group.
    #[doc(alias = "agbno")] #[doc(alias = "xfs_agblock_t")]
    AgBlock(u32), "AG block"
}
address! {
    /// The number of an inode inside its allocation group.
    #[doc(alias = "agino")] #[doc(alias = "xfs_agino_t")]
    AgInode(u32), "AG inode"
}
address! {
    /// The number of a filesystem block in the volume. The high bits are the group number, so not
    /// every value names a block.
    #[doc(alias = "fsbno")] #[doc(alias = "xfs_fsblock_t")]
    FsBlock(u64), "block"
}
address! {
    /// The number of a filesystem block inside one fork of a file, counted from the start of the
    /// fork.
    #[doc(alias = "fileoff")] #[doc(alias = "xfs_fileoff_t")]
    FileBlock(u64), "file block"
}
address! {
    /// A disk address in units of 512 bytes from the start of the data device.
    #[doc(alias = "daddr")] #[doc(alias = "xfs_daddr_t")]
    DiskAddr(u64), "disk address"
}
address! {
    /// The number of an inode in the volume. The high bits are the group number, so not every value
    /// names an inode.
    #[doc(alias = "ino")] #[doc(alias = "xfs_ino_t")]
    InodeNumber(u64), "inode"
}

impl DiskAddr {
    /// Returns the byte offset of this address on its device, or `None` if it does not fit 64 bits.
    #[must_use]
    pub const fn byte_offset(self) -> Option<u64> {
        self.0.checked_mul(BASIC_BLOCK_BYTES as u64)
    }
}

/// A log sequence number: the cycle of the log in the high 32 bits, a basic block of the log in the
/// low 32 bits.
#[doc(alias = "xfs_lsn_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The value for "never logged". The kernel writes it into structures that recovery does not
    /// compare by LSN.
    #[doc(alias = "NULLCOMMITLSN")]
    pub const NULL: Self = Self(u64::MAX);

    /// Returns the LSN of basic block `block` in cycle `cycle` of the log.
    #[must_use]
    pub const fn new(cycle: u32, block: u32) -> Self {
        Self(((cycle as u64) << 32) | block as u64)
    }

    /// Returns whether this is the "never logged" value.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns the cycle. It is 1 for a new log and grows by 1 each time the log wraps.
    #[must_use]
    pub const fn cycle(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the basic block, counted from the start of the log.
    #[must_use]
    pub const fn block(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LSN {}:{}", self.cycle(), self.block())
    }
}
