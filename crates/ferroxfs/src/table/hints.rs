//! What lookups and opens read of an inode without a lock.
//!
//! Owns: that it lies on a cache line by itself, so that who changes the inode takes it from nobody.
//! Does **not** own what it says.

use std::sync::Arc;

use xfs_format::inode::FileType;
use xfs_locks::LockWord;

use super::chunk::Spot;
use super::rights::RightsHint;
use crate::superblock::Marks;

/// Read by everybody who meets the inode, and written rarely.
#[repr(align(64))]
pub(super) struct Hints<I> {
    word: LockWord,
    file_type: FileType,
    rights: RightsHint,
    live: Arc<I>,
    /// Its tags, where walks go by tags.
    spot: Option<Spot<I>>,
    /// What holds it for somebody outside.
    marks: Marks,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Hints<()>>() == 64);

impl<I> Hints<I> {
    pub(super) fn new(file_type: FileType, live: Arc<I>, spot: Option<Spot<I>>) -> Self {
        let (word, rights) = (LockWord::new(), RightsHint::default());
        Self { word, file_type, rights, live, spot, marks: Marks::default() }
    }

    pub(super) fn live(&self) -> &Arc<I> {
        &self.live
    }

    pub(super) fn spot(&self) -> Option<&Spot<I>> {
        self.spot.as_ref()
    }

    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(super) fn word(&self) -> &LockWord {
        &self.word
    }

    pub(super) fn rights(&self) -> &RightsHint {
        &self.rights
    }

    pub(super) fn file_type(&self) -> FileType {
        self.file_type
    }
}
