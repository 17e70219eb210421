//! Locks and leases of an open file.

use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_locks::{
    HeldLock, LeaseKind, LeaseMode, LeaseRequest, LockMode, LockRange, Notify, Opens, Owner, Wait,
};

use super::description::Description;
use super::{File, place};
use crate::Result;
use crate::credentials::Capabilities;
use crate::kind::CachedInode;
use crate::writing::{Parts, lock_error};

/// Whom a record lock belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockOwner {
    /// A process, or whatever the caller knows by such a number: `F_SETLK`. Deadlocks are looked for
    /// between processes. Its locks last until [`File::release_process`], whether a handle is open or not, or
    /// until the file is gone: its last name and its last user.
    Process(u64),
    /// This open file, clones included: `F_OFD_SETLK`. Its locks end with it.
    File,
}

impl File {
    /// Locks a range against other owners, in place of what the owner holds there. Locks bind those who
    /// ask for locks; reads and writes do not look at them.
    ///
    /// # Errors
    ///
    /// EAGAIN with [`Wait::No`] where somebody else is in the way; EDEADLK if a process would wait for
    /// itself; EINTR and ETIMEDOUT as the [`Waiter`](xfs_locks::Waiter) ends; EBADF to lock a file
    /// exclusively that is not open for writing, or shared where it is not open for reading; EOPNOTSUPP on a volume that is open for reading.
    #[doc(alias = "F_SETLKW")]
    pub fn lock(
        &self,
        range: LockRange,
        mode: LockMode,
        owner: LockOwner,
        wait: Wait<'_>,
    ) -> Result<()> {
        let (parts, description) = self.lockable()?;
        match mode {
            LockMode::Shared => self.check_readable()?,
            LockMode::Exclusive if self.is_writable() => {}
            LockMode::Exclusive => return Err(PosixError::BadDescriptor.into()),
        }
        let wanted = HeldLock { owner: description.owner(owner), range, mode };
        let entry = description.user().entry();
        let locks = entry.locks();
        // The locks of a process keep the inode in memory, by one use for all of them. It is taken first, as
        // another thread may give them up at any time.
        let is_kept = matches!(owner, LockOwner::Process(_));
        if is_kept {
            entry.share_as_mark();
        }
        let locked = locks.lock(wanted, wait, parts.inode_cache.waits()).map_err(lock_error);
        if is_kept && !locks.begin_keeping() {
            give_up_mark(parts, entry);
        }
        locked
    }

    /// Gives up what the owner holds in a range.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP on a volume that is open for reading.
    pub fn unlock(&self, range: LockRange, owner: LockOwner) -> Result<()> {
        let (parts, description) = self.lockable()?;
        let entry = description.user().entry();
        entry.locks().unlock(description.owner(owner), range, parts.inode_cache.waits());
        if entry.locks().end_keeping() {
            give_up_mark(parts, entry);
        }
        Ok(())
    }

    /// What would stand in the way of a lock, first in the file. Another open file is shown as
    /// [`Owner::Description`], by a number that says no more than which are the same.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    #[doc(alias = "F_GETLK")]
    pub fn conflicting_lock(
        &self,
        range: LockRange,
        mode: LockMode,
        owner: LockOwner,
    ) -> Result<Option<HeldLock>> {
        let (_, description) = self.lockable()?;
        let wanted = HeldLock { owner: description.owner(owner), range, mode };
        Ok(description.user().entry().locks().conflict(wanted))
    }

    /// Gives up all record locks of a process on this file, as POSIX has it when the process closes any
    /// descriptor of it.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    pub fn release_process(&self, process: u64) -> Result<()> {
        self.unlock(LockRange::WHOLE, LockOwner::Process(process))
    }

    /// Locks the whole file for this open, clones included, apart from all record locks. A conversion
    /// gives up the old lock first, also where the new one is then refused.
    ///
    /// # Errors
    ///
    /// EAGAIN, EINTR, ETIMEDOUT and EOPNOTSUPP as [`lock`](Self::lock).
    pub fn flock(&self, mode: LockMode, wait: Wait<'_>) -> Result<()> {
        let (parts, description) = self.lockable()?;
        let locks = description.user().entry().locks();
        locks.flock(description.id(), mode, wait, parts.inode_cache.waits()).map_err(lock_error)
    }

    /// Gives up what [`flock`](Self::flock) took.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    pub fn unflock(&self) -> Result<()> {
        let (parts, description) = self.lockable()?;
        description.user().entry().locks().unflock(description.id(), parts.inode_cache.waits());
        Ok(())
    }

    /// Takes a lease, or changes the one that this open has of the kind. `notify` is told when somebody
    /// is about to do what does not go with it, and what can be kept; who is told has 45 s to give the
    /// rest back, after which it is taken. It must not wait, and it may be called from any thread.
    ///
    /// # Errors
    ///
    /// EACCES on a file of another owner without [`Capabilities::LEASE`]; EAGAIN if the file is open, or
    /// leased, in a way that does not go with it; EDEADLK within the closure of [`lend_at`](Self::lend_at), which
    /// holds the locks that this waits for; EOPNOTSUPP on a volume that is open for reading.
    #[doc(alias = "F_SETLEASE")]
    pub fn set_lease(&self, kind: LeaseKind, mode: LeaseMode, notify: Notify) -> Result<()> {
        let (parts, description) = self.lockable()?;
        if place::is_lending() {
            return Err(PosixError::Deadlock.into());
        }
        let entry = description.user().entry();
        // Who changes contents has looked for layouts under their lock.
        let contents = parts.contents(entry);
        let _contents = (kind == LeaseKind::Layout).then(|| contents.unchanging());
        // Who changes names or attributes has looked for delegations under the latch.
        let _latch = entry.live().record().latch().shared();
        let may = description
            .user()
            .share()
            .who()
            .somebody()
            .is_none_or(|me| me.uid() == entry.core().uid || me.has(Capabilities::LEASE));
        if !may {
            return Err(PosixError::AccessDenied.into());
        }
        let (holder, own) = (description.id(), description.mode());
        let request = LeaseRequest { holder, own, kind, mode, notify };
        entry.locks().set_lease(request).map_err(lock_error)
    }

    /// What this open has of a kind of lease; while it is being broken, what will be left.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    #[doc(alias = "F_GETLEASE")]
    pub fn lease(&self, kind: LeaseKind) -> Result<Option<LeaseMode>> {
        let (_, description) = self.lockable()?;
        Ok(description.user().entry().locks().lease(description.id(), kind))
    }

    /// Gives a lease back.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    pub fn release_lease(&self, kind: LeaseKind) -> Result<()> {
        let (_, description) = self.lockable()?;
        description.user().entry().locks().release_lease(description.id(), Some(kind));
        Ok(())
    }

    /// How often the file is open, this open included.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    pub fn opens(&self) -> Result<Opens> {
        let (_, description) = self.lockable()?;
        Ok(description.user().entry().locks().opens())
    }

    fn lockable(&self) -> Result<(&Parts, &Arc<Description>)> {
        let description = self.description.as_ref().ok_or(PosixError::NotSupported)?;
        Ok((description.user().parts()?, description))
    }
}

/// Gives up the use that keeps an inode in memory for locks.
fn give_up_mark(parts: &Parts, entry: &Arc<CachedInode>) {
    entry.unmark();
    parts.release(Arc::clone(entry));
}

impl Description {
    fn owner(&self, owner: LockOwner) -> Owner {
        match owner {
            LockOwner::Process(process) => Owner::Process(process),
            LockOwner::File => Owner::Description(self.id()),
        }
    }
}
