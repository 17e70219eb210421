//! The selection of inodes that a walk shows.

/// A property of inodes for which a chunk has one bit for each inode. Walks skip inodes without the
/// bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The inode is in the index.
    Present,
    /// The inode may have no reference.
    Idle,
    /// The file has buffered bytes, or preallocated blocks past its end.
    Unsettled,
}

/// The inodes that the iterator with references shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFilter {
    /// All cached inodes, except those that are being evicted or freed.
    Cached,
    /// Inodes that have a reference already.
    #[doc(alias = "INO_ITER_REFERENCED")]
    Referenced,
    /// Files with buffered bytes, or with preallocated blocks past their end.
    Unsettled,
}

impl WalkFilter {
    pub(crate) const fn tag(self) -> Tag {
        match self {
            Self::Cached | Self::Referenced => Tag::Present,
            Self::Unsettled => Tag::Unsettled,
        }
    }
}
