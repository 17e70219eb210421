//! Which inodes a walk shows.

/// The tags of a chunk by which a walk skips inodes that it need not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// All inodes in the index.
    Present,
    /// Inodes that may be unreferenced.
    Idle,
    /// Inodes with buffered bytes, or with speculatively preallocated blocks.
    Unsettled,
}

/// Which inodes the safe iterator shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkFilter {
    /// All inodes in memory, except those that are on their way out.
    Cached,
    /// Inodes that already have a reference.
    #[doc(alias = "INO_ITER_REFERENCED")]
    Referenced,
    /// Inodes with buffered bytes, or with blocks past their end that they do not need.
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
