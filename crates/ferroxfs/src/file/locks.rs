//! Locks and leases of an open file.

use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::superblock::Unsupported;
use xfs_icache::MarkRef;
use xfs_locks::{
    HeldLock, LeaseKind, LeaseMode, LeaseRequest, LockMode, LockRange, Notify, Opens, Owner, Wait,
};
use xfs_vfs::{Capabilities, Mount, lock_error};

use super::description::FileDescription;
use super::{File, extent_loan};
use crate::Result;

/// The owner of a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockOwner {
    /// A process, or another owner that the caller identifies by a number, as for `F_SETLK`.
    /// Deadlocks between processes are detected. The locks last until [`File::release_process`],
    /// with or without an open handle. They also end when the file has lost its last name and its
    /// last reference.
    Process(u64),
    /// This open file with all its clones, as for `F_OFD_SETLK`. The locks end when the last of
    /// these handles is closed.
    File,
}

impl File {
    /// Takes a record lock on a range for `owner`. It replaces locks that this owner already has in
    /// the range. Locks are advisory: reads and writes do not check them.
    ///
    /// # Errors
    ///
    /// - EAGAIN with [`Wait::No`] on a conflict.
    /// - EDEADLK if a process would wait for itself.
    /// - EINTR or ETIMEDOUT if the [`Waiter`](xfs_locks::Waiter) ends the wait with this error.
    /// - EBADF for an exclusive lock on a file that is not open for writing, or a shared one on a
    ///   file that is not open for reading.
    /// - EOPNOTSUPP on a volume that is open for reading.
    #[doc(alias = "F_SETLKW")]
    pub fn lock(
        &self,
        range: LockRange,
        mode: LockMode,
        owner: LockOwner,
        wait: Wait<'_>,
    ) -> Result<()> {
        let (mount, description) = self.lockable()?;
        match mode {
            LockMode::Shared => self.check_readable()?,
            LockMode::Exclusive if self.is_writable() => {}
            LockMode::Exclusive => return Err(PosixError::BadDescriptor.into()),
        }
        let wanted = HeldLock::new(description.owner(owner), range, mode);
        let entry = description.inode_ref().inode();
        let locks = entry.locks();
        // The locks of a process keep the inode cached, by one reference for all of them. It is
        // taken first, because another thread may release the locks at any time.
        let kept = matches!(owner, LockOwner::Process(_))
            .then(|| MarkRef::take(&mount.inode_cache, entry));
        let locked = locks.lock(wanted, wait, mount.inode_cache.waits()).map_err(lock_error);
        if let Some(kept) = kept
            && locks.begin_keeping()
        {
            kept.leave();
        }
        locked
    }

    /// Releases the owner's locks in a range.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP on a volume that is open for reading.
    pub fn unlock(&self, range: LockRange, owner: LockOwner) -> Result<()> {
        let (mount, description) = self.lockable()?;
        let entry = description.inode_ref().inode();
        entry.locks().unlock(description.owner(owner), range, mount.inode_cache.waits());
        if entry.locks().end_keeping() {
            drop(MarkRef::resume(&mount.inode_cache, entry));
        }
        Ok(())
    }

    /// Returns the first conflicting lock in the file. If the owner of the lock is another open
    /// file, the result is [`Owner::Description`] with a number. The number has no other meaning
    /// than to tell open files apart.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    #[doc(alias = "F_GETLK")]
    pub fn conflicting_lock(
        &self,
        range: LockRange,
        mode: LockMode,
        owner: LockOwner,
    ) -> Result<Option<HeldLock>> {
        let (_, description) = self.lockable()?;
        let wanted = HeldLock::new(description.owner(owner), range, mode);
        Ok(description.inode_ref().inode().locks().conflict(wanted))
    }

    /// Releases all record locks of a process on this file, as POSIX requires when the process
    /// closes any descriptor of it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    pub fn release_process(&self, process: u64) -> Result<()> {
        self.unlock(LockRange::WHOLE, LockOwner::Process(process))
    }

    /// Locks the whole file for this open file and its clones. The lock does not conflict with
    /// record locks. A call that changes the mode of a held lock releases the old lock first, even
    /// if the new one is then refused.
    ///
    /// # Errors
    ///
    /// EAGAIN, EINTR, ETIMEDOUT and EOPNOTSUPP as [`lock`](Self::lock).
    pub fn flock(&self, mode: LockMode, wait: Wait<'_>) -> Result<()> {
        let (mount, description) = self.lockable()?;
        let locks = description.inode_ref().inode().locks();
        locks.flock(description.id(), mode, wait, mount.inode_cache.waits()).map_err(lock_error)
    }

    /// Releases the lock that [`flock`](Self::flock) has taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    pub fn unflock(&self) -> Result<()> {
        let (mount, description) = self.lockable()?;
        description
            .inode_ref()
            .inode()
            .locks()
            .unflock(description.id(), mount.inode_cache.waits());
        Ok(())
    }

    /// Takes a lease, or changes the lease of this kind that this open file already has. `notify`
    /// is called before a conflicting operation, with the mode that the holder may keep. The holder
    /// then has 45 s, unless set otherwise, to reduce the lease to that mode. After that time, the
    /// lease is reduced or removed without the holder. `notify` must not wait, and may be called
    /// from any thread.
    ///
    /// # Errors
    ///
    /// - EACCES on a file of another owner without [`Capabilities::LEASE`].
    /// - EAGAIN if the file is open, or leased, in a conflicting way.
    /// - EDEADLK within the closure of [`lend_at`](Self::lend_at), because the loan holds locks
    ///   that this call would wait for.
    /// - EOPNOTSUPP on a volume that is open for reading, and for the layout of a file in realtime
    ///   zones.
    #[doc(alias = "F_SETLEASE")]
    pub fn set_lease(&self, kind: LeaseKind, mode: LeaseMode, notify: Notify) -> Result<()> {
        let (mount, description) = self.lockable()?;
        if extent_loan::is_lending() {
            return Err(PosixError::Deadlock.into());
        }
        let entry = description.inode_ref().inode();
        if kind == LeaseKind::Layout && entry.live().is_in_zones(&mount.journal) {
            return Err(Unsupported::ZonedLayout.into());
        }
        // A change of contents checks for layout leases under this lock.
        let contents = mount.contents(entry);
        let _contents = (kind == LeaseKind::Layout).then(|| contents.unchanging());
        // A change of names or attributes checks for delegations under this latch.
        let _latch = entry.live().log_item().latch().shared();
        let may = description
            .inode_ref()
            .handle()
            .volume_ref()
            .caller()
            .credentials()
            .is_none_or(|me| me.uid() == entry.core().uid || me.has(Capabilities::LEASE));
        if !may {
            return Err(PosixError::AccessDenied.into());
        }
        let (holder, own) = (description.id(), description.mode());
        let request = LeaseRequest { holder, own, kind, mode, notify };
        entry.locks().set_lease(request).map_err(lock_error)
    }

    /// Returns the mode of the lease of this kind that this open file has; `None` if it has none.
    /// While the lease is being broken, the result is the mode that will remain.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    #[doc(alias = "F_GETLEASE")]
    pub fn lease(&self, kind: LeaseKind) -> Result<Option<LeaseMode>> {
        let (_, description) = self.lockable()?;
        Ok(description.inode_ref().inode().locks().lease(description.id(), kind))
    }

    /// Gives up the lease of this kind, if this open file has one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    pub fn release_lease(&self, kind: LeaseKind) -> Result<()> {
        let (_, description) = self.lockable()?;
        description.inode_ref().inode().locks().release_lease(description.id(), Some(kind));
        Ok(())
    }

    /// Returns how many times the file is open, this open file included.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`unlock`](Self::unlock).
    pub fn opens(&self) -> Result<Opens> {
        let (_, description) = self.lockable()?;
        Ok(description.inode_ref().inode().locks().opens())
    }

    fn lockable(&self) -> Result<(&Mount, &Arc<FileDescription>)> {
        let description = self.description.as_ref().ok_or(PosixError::NotSupported)?;
        Ok((description.inode_ref().mount(), description))
    }
}

impl FileDescription {
    fn owner(&self, owner: LockOwner) -> Owner {
        match owner {
            LockOwner::Process(process) => Owner::Process(process),
            LockOwner::File => Owner::Description(self.id()),
        }
    }
}
