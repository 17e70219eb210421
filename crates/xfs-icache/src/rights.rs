//! What a directory lets whom do, read without a lock: a path is walked by it.
//!
//! ```text
//!  word   changes counted │ known │ mode        ids   group │ owner
//! ```
//!
//! Unknown at first. Who has looked at the directory under its shared latch notes what it found; who changes
//! mode, owner or list forgets that under the exclusive latch, before the change is told to anybody. A
//! directory with a list is never noted: who meets one looks at it under the latch.
//!
//! # Invariants
//!
//! - **I1** Between two forgets all notes say the same, since nobody changes the directory under a shared
//!   latch.
//! - **I2** A reader that found the same word before and after has ids that belong to it: ids of a later
//!   note are seen together with the forget before it, and that has counted.

use xfs_sync::{AtomicU64, Object, Ordering};

use xfs_format::inode::{FileType, InodeCore};

/// What of a file says who may do what with it, apart from its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// With the type.
    pub mode: u16,
}

impl From<&InodeCore> for Rights {
    fn from(core: &InodeCore) -> Self {
        Self { uid: core.uid, gid: core.gid, mode: core.mode }
    }
}

impl Rights {
    /// Returns whether the mode is that of a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        FileType::from_mode(self.mode) == Some(FileType::Directory)
    }
}

const KNOWN: u64 = 1 << 16;
const ONE_CHANGE: u64 = KNOWN << 1;

/// The rights of a directory, if they are known.
#[derive(Debug, Default)]
pub(crate) struct RightsHint {
    word: AtomicU64<Object>,
    ids: AtomicU64<Object>,
}

impl RightsHint {
    /// The rights as they are, or were before a change that nobody has been told of yet.
    pub(crate) fn rights(&self) -> Option<Rights> {
        let before = self.word.load(Ordering::Acquire);
        if before & KNOWN == 0 {
            return None;
        }
        let ids = self.ids.load(Ordering::Acquire);
        if self.word.load(Ordering::Relaxed) != before {
            return None;
        }
        Some(Rights { uid: ids as u32, gid: (ids >> 32) as u32, mode: before as u16 })
    }

    /// Notes what somebody has found who shares the latch of the directory.
    pub(crate) fn note(&self, rights: Rights) {
        let word = self.word.load(Ordering::Relaxed);
        if word & KNOWN != 0 {
            return;
        }
        self.ids.store(u64::from(rights.gid) << 32 | u64::from(rights.uid), Ordering::Release);
        let changes = word & !(ONE_CHANGE - 1);
        self.word.store(changes | KNOWN | u64::from(rights.mode), Ordering::Release);
    }

    /// Forgets them. The caller has the exclusive latch of the directory.
    pub(crate) fn forget(&self) {
        let word = self.word.load(Ordering::Relaxed);
        let changes = word & !(ONE_CHANGE - 1);
        self.word.store(changes.wrapping_add(ONE_CHANGE), Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
