//! The used bytes of an inode's fork in memory.

use core::ops::Deref;
use std::sync::Arc;

/// The used bytes of a fork, as they lie in its inode.
///
/// Inline contents are shared: the image of the inode and the readers of the file use the same
/// bytes. A writer therefore replaces these bytes and does not change them.
#[derive(Clone, Debug)]
pub enum ForkBytes {
    /// Bytes that only the inode's image uses: extent records, the root of a btree, or nothing.
    Own(Vec<u8>),
    /// Inline contents, shared with the readers of the file.
    Shared(Arc<[u8]>),
}

impl ForkBytes {
    /// A fork without bytes.
    pub const NONE: Self = Self::Own(Vec::new());

    /// Returns the bytes in a form that can be shared.
    #[must_use]
    pub fn into_shared(self) -> Arc<[u8]> {
        match self {
            Self::Own(bytes) => bytes.into(),
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Deref for ForkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for ForkBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

impl PartialEq for ForkBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ForkBytes {}
