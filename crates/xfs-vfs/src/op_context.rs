//! The context of an operation that changes a volume.
//!
//! Owns: permission checks inside a transaction that has latched the inodes, and waiting for leases
//! outside of a transaction. Does **not** own the permission rules
//! ([`permission`](crate::permission)).

use std::cell::Cell;

use xfs_buffer::{Error, PosixError, Result};
use xfs_locks::Breaker;

use crate::freeze::WriteGuard;
use crate::inode_flags::check_mutable;
use crate::kind::CachedInode;
use crate::leases::break_and_wait;
use crate::mount::Mount;
use crate::permission::{Access, Caller};

/// The context of an operation: the mount, the caller whose permissions count, and the guard that
/// keeps the volume from being frozen.
pub struct OpContext<'a> {
    /// The mount.
    pub mount: &'a Mount,
    /// The caller.
    pub caller: Caller<'a>,
    /// Guard that keeps the volume from being frozen during this operation. `None` if the operation
    /// is a part of a larger one, which holds the guard.
    guard: Cell<Option<WriteGuard<'a>>>,
}

impl<'a> OpContext<'a> {
    /// Creates the context for a part of an operation that has begun already. The context has no
    /// guard, because the guard of the whole operation keeps the volume from being frozen.
    #[must_use]
    pub fn within_operation(mount: &'a Mount, caller: Caller<'a>) -> Self {
        Self { mount, caller, guard: Cell::new(None) }
    }

    /// Makes the context of a new operation, with the guard that keeps the volume from being
    /// frozen.
    #[must_use]
    pub fn new(guard: WriteGuard<'a>, caller: Caller<'a>) -> Self {
        Self { mount: guard.mount(), caller, guard: Cell::new(Some(guard)) }
    }

    /// Runs `act`, which changes the names or attributes of `files`. `act` must call
    /// `check_undelegated` for each file while no new delegation can be given. If a file has
    /// delegations, `act` must change nothing and return the error of `check_undelegated`. This
    /// function then waits until the delegations are returned, and runs `act` again.
    pub(crate) fn undelegated<T>(
        &self,
        files: &[&CachedInode],
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let wait_for =
            |file: &&CachedInode| break_and_wait(file, Breaker::Change, self.mount.lease_grace);
        loop {
            match act() {
                Err(Error::Posix(PosixError::WouldBlock)) => {
                    self.outside(|| files.iter().try_for_each(wait_for))?;
                }
                done => return done,
            }
        }
    }

    /// Runs `wait` without the guard that keeps the volume from being frozen, and then acquires the
    /// guard again. The program for which `wait` waits may have to change the volume first, which
    /// needs a guard of its own. The volume can be frozen during the wait, but is not frozen on
    /// return.
    fn outside<T>(&self, wait: impl FnOnce() -> T) -> T {
        let Some(guard) = self.guard.take() else { return wait() };
        drop(guard);
        let waited = wait();
        self.guard.set(Some(self.mount.write_guard()));
        waited
    }

    /// Checks that the caller has the access `wanted` to a file. The file is latched.
    pub(crate) fn check(&self, file: &CachedInode, wanted: Access) -> Result<()> {
        match self.caller.credentials() {
            Some(me) => me.check(self.mount.journal.cache(), &file.live().inode(), wanted),
            None => Ok(()),
        }
    }

    /// Checks that the caller may search this directory. Called before anything in the directory is
    /// latched. The caller must repeat the check under the latch before it returns a result of the
    /// search.
    pub(crate) fn check_searchable(&self, directory: &CachedInode) -> Result<()> {
        if self.caller.credentials().is_none() || !directory.is_directory() {
            return Ok(());
        }
        let _latch = directory.live().log_item().latch().shared();
        self.check(directory, Access::EXECUTE)
    }

    /// Checks that the caller may remove a name of `file` from the directory. The directory and the
    /// file are latched.
    #[doc(alias = "may_delete")]
    pub(crate) fn check_removes(&self, directory: &CachedInode, file: &CachedInode) -> Result<()> {
        self.check(directory, Access::CHANGE_NAMES)?;
        check_mutable(directory.live().inode().core())?;
        match self.caller.credentials() {
            Some(_) => self.caller.check_sticky(&directory.core(), &file.core()),
            None => Ok(()),
        }
    }

    /// Checks that the caller may add a name to a file. The file is latched.
    pub(crate) fn check_link(&self, file: &CachedInode) -> Result<()> {
        match self.caller.credentials() {
            Some(_) => self.caller.check_link(self.mount.journal.cache(), &file.live().inode()),
            None => Ok(()),
        }
    }
}
