//! Open file descriptions. A description is one open of a file, and all clones of the handle share
//! it.
//!
//! Owns: the count of opens, and the work when the last handle of an open is closed: its locks and
//! leases end, and preallocated blocks are freed. Does **not** own locks and leases (`xfs-locks`).

use std::fmt;
use std::sync::Arc;

use xfs_locks::{FileLocks, OpenMode, Wait, Waiter};
use xfs_vfs::{LockCheck, Mount, lock_error};

use crate::volume_ref::InodeRef;
use crate::{PosixError, Result};

/// An open file description on a mounted volume.
pub(super) struct FileDescription {
    inode_ref: InodeRef,
    mode: OpenMode,
}

impl FileDescription {
    /// Opens the file. Waits until conflicting leases were returned.
    pub(super) fn open(inode_ref: InodeRef, mode: OpenMode) -> Result<Arc<Self>> {
        match count(&inode_ref, mode, Wait::No) {
            Err(crate::Error::Posix(PosixError::WouldBlock)) => {
                count(&inode_ref, mode, Wait::For(&Waiter::new()))
            }
            counted => counted,
        }?;
        Ok(Arc::new(Self { inode_ref, mode }))
    }

    /// Opens the file. `wait` says whether to wait for conflicting leases.
    pub(super) fn try_open(
        inode_ref: InodeRef,
        mode: OpenMode,
        wait: Wait<'_>,
    ) -> Result<Arc<Self>> {
        count(&inode_ref, mode, wait)?;
        Ok(Arc::new(Self { inode_ref, mode }))
    }

    pub(super) fn inode_ref(&self) -> &InodeRef {
        &self.inode_ref
    }

    pub(super) fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Returns the identity of this description as an owner of locks. No two descriptions that
    /// exist at the same time have the same identity.
    pub(super) fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Checks that this description may write, and breaks layout leases.
    pub(super) fn check_writable(&self, mount: &Mount) -> Result<()> {
        if self.mode == OpenMode::Read {
            return Err(PosixError::BadDescriptor.into());
        }
        mount.contents(self.inode_ref.inode()).take_back()
    }
}

/// Counts an open of a file in the file's lock state, as an open in `mode`, and breaks conflicting
/// leases. `wait` says whether to wait until these leases have ended.
fn count(inode_ref: &InodeRef, mode: OpenMode, wait: Wait<'_>) -> Result<()> {
    let mount = inode_ref.mount();
    if inode_ref.tally().is_none() {
        mount.refs.note_open(inode_ref.inode());
    }
    let locks = inode_ref.inode().locks();
    look_at_context(locks, mount);
    let counted = locks.open(inode_ref.tally(), mode, wait, mount.lease_grace);
    if counted.is_err() && mode == OpenMode::Write {
        // A handle that was closed meanwhile has left the end of writing to this one.
        mount.contents(inode_ref.inode()).end_writing();
    }
    counted.map_err(lock_error)
}

/// Reads the pointer to the locks of a file if the mount has the option `LockCheck::Pointer`.
/// Benchmarks measure the cost of this read.
fn look_at_context(locks: FileLocks<'_>, mount: &Mount) {
    if mount.lock_check == LockCheck::Pointer {
        std::hint::black_box(locks.has_context());
    }
}

impl fmt::Debug for FileDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Drop for FileDescription {
    fn drop(&mut self) {
        let mount = self.inode_ref.mount();
        let locks = self.inode_ref.inode().locks();
        look_at_context(locks, mount);
        locks.close(self.inode_ref.tally(), self.mode, self.id(), mount.inode_cache.waits());
        if self.mode == OpenMode::Write {
            mount.contents(self.inode_ref.inode()).end_writing();
        }
    }
}
