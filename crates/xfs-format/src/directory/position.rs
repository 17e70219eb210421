//! Positions in the data fork of a directory: the parts of the fork, and the cookies of entries.

/// Byte offset of the hash index in the data fork.
#[doc(alias = "XFS_DIR2_LEAF_OFFSET")]
pub const INDEX_OFFSET: u64 = 32 << 30;

/// Byte offset of the free-space index in the data fork.
#[doc(alias = "XFS_DIR2_FREE_OFFSET")]
pub const FREE_OFFSET: u64 = 64 << 30;

/// The alignment of directory entries, in bytes.
pub const ALIGNMENT: usize = 8;

/// The position of an entry in its directory: its byte offset in the data blocks, divided by 8.
///
/// An entry keeps its cookie for its whole life, also when the directory changes form. An iteration
/// can therefore continue after any change. It then returns the entries whose cookies are not below
/// the cookie at which it continues.
#[doc(alias = "xfs_dir2_dataptr_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u32);

impl Cookie {
    /// The cookie at which an iteration starts. It is lower than the cookies of all entries.
    pub const START: Self = Self(0);

    /// Returns the cookie of an entry at byte `offset` of the data blocks. Returns `None` for an
    /// offset of 32 GiB or more, where a directory has no data blocks.
    #[must_use]
    pub fn from_offset(offset: u64) -> Option<Self> {
        if offset >= INDEX_OFFSET { None } else { u32::try_from(offset >> 3).ok().map(Self) }
    }

    /// Returns the byte offset of the entry among the data blocks of the directory.
    #[must_use]
    pub const fn offset(self) -> u64 {
        (self.0 as u64) << 3
    }

    /// Returns the cookie from which an iteration continues after this entry.
    #[must_use]
    pub const fn after(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
