//! The kinds of metadata buffers. The module [`kind`](crate::kind) verifies and seals them.

use crate::btree::layout::BtreeKind;

/// The kind of a metadata buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Superblock: one sector.
    Superblock,
    /// AG free-space header: one sector.
    Agf,
    /// AG inode header: one sector.
    Agi,
    /// AG free list: one sector.
    Agfl,
    /// A btree block outside the inode: one filesystem block.
    Btree(BtreeKind),
    /// An inode cluster, or any whole number of inodes. Each inode has its own checksum.
    InodeCluster,
    /// A directory data block. Its magic number shows whether it is the only block or one of
    /// several.
    DirectoryData,
    /// A block of a directory's hash index. Its magic number shows whether it is a leaf or a node.
    DirectoryIndex,
    /// A block of a directory's free-space index.
    DirectoryFree,
    /// A block of an attribute fork's btree. Its magic number shows whether it is a leaf or a node.
    Attr,
    /// A block of a remote attribute value.
    AttrRemote,
    /// A block with a part of a symbolic link's target.
    Symlink,
    /// A block of dquots: one filesystem block of a quota inode. Each dquot has its own checksum.
    Dquots,
    /// A block of the bitmap of a classic realtime section. It has neither header nor checksum.
    #[doc(alias = "rtbitmap")]
    RealtimeBitmap,
    /// A block of the summary of a classic realtime section. It has neither header nor checksum.
    #[doc(alias = "rtsummary")]
    RealtimeSummary,
    /// A block of the bitmap of a realtime group, with a header.
    RealtimeGroupBitmap,
    /// A block of the summary of a realtime group, with a header.
    RealtimeGroupSummary,
}
