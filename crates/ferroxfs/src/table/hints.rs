//! What lookups and opens read of an inode without a lock.
//!
//! Owns: that it lies on a cache line by itself, so that who changes the inode takes it from nobody.
//! Does **not** own what it says.

use xfs_format::inode::FileType;
use xfs_locks::LockWord;

use super::rights::RightsHint;

/// Read by everybody who meets the inode, and written rarely.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Hints {
    word: LockWord,
    file_type: FileType,
    rights: RightsHint,
}

impl Hints {
    pub(super) fn new(file_type: FileType) -> Self {
        Self { word: LockWord::new(), file_type, rights: RightsHint::default() }
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
