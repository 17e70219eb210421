//! What `open` makes: one open of a file, which its handles share.
//!
//! Owns: that the open is counted, and that its locks, its leases and what was allocated ahead for it end
//! with the last handle. Does **not** own
//! what they are (`xfs-locks`).

use std::fmt;
use std::sync::Arc;

use xfs_locks::{FileLocks, OpenMode, Wait, Waiter};

use crate::share::User;
use crate::writing::{LockCheck, Parts, lock_error};
use crate::{PosixError, Result};

/// An open file description, of a volume that is written to.
pub(super) struct Description {
    user: User,
    mode: OpenMode,
}

impl Description {
    /// Opens the file, after the leases that are in the way have been given back.
    pub(super) fn open(user: User, mode: OpenMode) -> Result<Arc<Self>> {
        match count(&user, mode, Wait::No) {
            Err(crate::Error::Posix(PosixError::WouldBlock)) => {
                count(&user, mode, Wait::For(&Waiter::new()))
            }
            counted => counted,
        }?;
        Ok(Arc::new(Self { user, mode }))
    }

    /// Opens the file; `wait` says what to do where leases are in the way.
    pub(super) fn try_open(user: User, mode: OpenMode, wait: Wait<'_>) -> Result<Arc<Self>> {
        count(&user, mode, wait)?;
        Ok(Arc::new(Self { user, mode }))
    }

    pub(super) fn user(&self) -> &User {
        &self.user
    }

    pub(super) fn mode(&self) -> OpenMode {
        self.mode
    }

    /// What its locks are known by: no other open that there is at the same time has it.
    pub(super) fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Whether it may write. What was given away of where the data lies is taken back first.
    pub(super) fn check_writable(&self, parts: &Parts) -> Result<()> {
        if self.mode == OpenMode::Read {
            return Err(PosixError::BadDescriptor.into());
        }
        parts.contents(self.user.entry()).take_back()
    }
}

/// Counts an open.
fn count(user: &User, mode: OpenMode, wait: Wait<'_>) -> Result<()> {
    let parts = user.parts()?;
    if user.tally().is_none() {
        parts.refs.note_open(user.entry());
    }
    let locks = user.entry().locks();
    look_at_context(locks, parts);
    let counted = locks.open(user.tally(), mode, wait, parts.lease_grace);
    if counted.is_err() && mode == OpenMode::Write {
        // Who has closed the file meanwhile has left it to this one.
        parts.contents(user.entry()).end_writing();
    }
    counted.map_err(lock_error)
}

/// Touches what the flag is there to leave alone, where that is to be measured.
fn look_at_context(locks: FileLocks<'_>, parts: &Parts) {
    if parts.lock_check == LockCheck::Pointer {
        std::hint::black_box(locks.has_context());
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        let Ok(parts) = self.user.parts() else { return };
        let locks = self.user.entry().locks();
        look_at_context(locks, parts);
        locks.close(self.user.tally(), self.mode, self.id(), parts.inode_cache.waits());
        if self.mode == OpenMode::Write {
            parts.contents(self.user.entry()).end_writing();
        }
    }
}
