//! Btree block of any kind (`xfs_btree_block`).

use thiserror::Error;

/// A check of this structure that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum BtreeCheck {}

/// Which btree a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BtreeKind {
    /// Free space by block number.
    #[doc(alias = "bnobt")]
    FreeSpaceByBlock,
    /// Free space by size.
    #[doc(alias = "cntbt")]
    FreeSpaceBySize,
    /// Inode chunks.
    #[doc(alias = "inobt")]
    Inode,
    /// Inode chunks with free inodes.
    #[doc(alias = "finobt")]
    FreeInode,
    /// Reverse map.
    #[doc(alias = "rmapbt")]
    ReverseMap,
    /// Reference counts.
    #[doc(alias = "refcountbt")]
    Refcount,
    /// Extents of a fork.
    #[doc(alias = "bmbt")]
    Extent,
}
