//! Lock-free cache of a directory's owner, group and mode. Path walks use it.
//!
//! ```text
//!  word   changes counted │ known │ mode        ids   group │ owner
//! ```
//!
//! The rights are unknown at first. A thread that reads the directory under its shared latch stores
//! them. A thread that changes mode, owner or access control list clears them under the exclusive
//! latch, before any caller learns of the change. The rights of a directory with an access control
//! list are never stored: a path walk reads such a directory under the latch.
//!
//! # Invariants
//!
//! - **I1** Between two clears, all stores write the same rights, since no thread changes the
//!   directory under a shared latch.
//! - **I2** If a reader found the same word before and after it read the ids, the ids belong to
//!   that word. If the ids were of a later store, the reader would also see the clear before that
//!   store, and the clear has changed the word.

use xfs_sync::{AtomicU64, Object, Ordering};

use xfs_format::inode::{FileType, InodeCore};

/// Owner, group and mode of a file: its permissions apart from its access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Mode, with the type of the file.
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

/// The cached owner, group and mode of a directory, if they are known.
#[derive(Debug, Default)]
pub(crate) struct RightsHint {
    word: AtomicU64<Object>,
    ids: AtomicU64<Object>,
}

impl RightsHint {
    /// Returns the current owner, group and mode, or `None` if they are not known. While a thread
    /// is changing them, the result may be the values before the change, of which no caller has
    /// learnt yet.
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

    /// Stores the owner, group and mode that the caller read under the shared latch of the
    /// directory (I1).
    pub(crate) fn note(&self, rights: Rights) {
        let word = self.word.load(Ordering::Relaxed);
        // I1: rights that are known already are the same.
        if word & KNOWN != 0 {
            return;
        }
        self.ids.store(u64::from(rights.gid) << 32 | u64::from(rights.uid), Ordering::Release);
        let changes = word & !(ONE_CHANGE - 1);
        self.word.store(changes | KNOWN | u64::from(rights.mode), Ordering::Release);
    }

    /// Drops the cached owner, group and mode, so that they are unknown. The caller holds the
    /// exclusive latch of the directory.
    pub(crate) fn forget(&self) {
        let word = self.word.load(Ordering::Relaxed);
        let changes = word & !(ONE_CHANGE - 1);
        self.word.store(changes.wrapping_add(ONE_CHANGE), Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
