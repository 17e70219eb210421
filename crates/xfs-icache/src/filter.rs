//! The selection of inodes that a walk shows.

/// A tag of cached inodes. A chunk has one bit for each of its inodes, and a walk for the tag skips
/// inodes without the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The inode is in the inode cache.
    Present,
    /// The inode had no reference when it got the tag. It may have got a reference since.
    Idle,
    /// The file has buffered bytes, or preallocated blocks past its end.
    NeedsFlush,
}

/// The selection of inodes that a walk shows to its visitor, with a reference to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkFilter {
    /// All cached inodes, except those that are being evicted or freed.
    Cached,
    /// Only inodes that already have a reference.
    #[doc(alias = "INO_ITER_REFERENCED")]
    Referenced,
    /// Files with buffered bytes, or with preallocated blocks past their end.
    NeedsFlush,
}

impl WalkFilter {
    pub(crate) const fn tag(self) -> Tag {
        match self {
            Self::Cached | Self::Referenced => Tag::Present,
            Self::NeedsFlush => Tag::NeedsFlush,
        }
    }
}
