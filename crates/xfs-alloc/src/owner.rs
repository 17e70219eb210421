//! The owner of allocated or freed blocks, and the account that the blocks are taken from: the
//! blocks that a transaction has reserved, or a reserve of the group.

use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{FileBlock, InodeNumber};

/// The owner of metadata blocks, as the reverse map records it.
#[doc(alias = "xfs_owner_info")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtentOwner {
    /// The inode that owns the blocks, or the kind of metadata.
    pub owner: RmapOwner,
    /// The file offset of the first block in its fork. 0 for everything except contents of files.
    pub offset: FileBlock,
    /// Flags for the use of the blocks: attribute fork, btree of a fork, unwritten.
    pub flags: RmapFlags,
}

impl ExtentOwner {
    /// The owner of inode chunks.
    pub const INODES: Self = Self::special(RmapOwner::Inodes);
    /// The owner of the blocks of both inode btrees.
    pub const INODE_BTREE: Self = Self::special(RmapOwner::InodeBtree);
    /// The owner of the blocks of the btree of reference counts.
    pub const REFCOUNT_BTREE: Self = Self::special(RmapOwner::RefcountBtree);
    /// The owner of the blocks of the free list, the free-space btrees and the reverse map.
    pub const GROUP: Self = Self::special(RmapOwner::Group);
    /// The owner of blocks staged for copy-on-write, until a file takes the blocks over.
    pub const STAGING: Self = Self::special(RmapOwner::Staging);

    const fn special(owner: RmapOwner) -> Self {
        Self { owner, offset: FileBlock(0), flags: RmapFlags::empty() }
    }

    /// Returns the owner of the blocks of a fork's btree.
    #[must_use]
    pub const fn fork_btree(inode: InodeNumber, is_attr: bool) -> Self {
        let flags = if is_attr {
            RmapFlags::FORK_BTREE.union(RmapFlags::ATTR)
        } else {
            RmapFlags::FORK_BTREE
        };
        Self { owner: RmapOwner::Inode(inode), offset: FileBlock(0), flags }
    }
}

/// The section of the volume that has the blocks of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// The allocation groups of the data device.
    Data,
    /// The realtime section.
    Realtime,
}

/// The account that blocks are taken from, and that freed blocks are given back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockPurpose {
    /// The blocks that the transaction has reserved. Contents of files, btrees of forks, inode
    /// chunks and the inode btree are taken from them.
    File,
    /// The group's reserve for the free inode btree and the reference counts.
    Metadata,
}
