//! Somebody who changes a volume.
//!
//! Owns: asking, inside a transaction that has latched the inodes, whether somebody may do what they are
//! about to do. Does **not** own the answer ([`permission`](crate::permission)).

use std::cell::Cell;
use std::ops::Deref;

use xfs_buffer::{Error, PosixError, Result};
use xfs_locks::Breaker;

use super::access::check_mutable;
use super::{Parts, Writer, break_and_wait};
use crate::kind::CachedInode;
use crate::permission::{Access, Who};

/// The parts of a volume, and who works with them.
pub(crate) struct Acting<'a> {
    parts: &'a Parts,
    pub(super) who: Who<'a>,
    /// The operation, where it is one by itself.
    writer: Cell<Option<Writer<'a>>>,
}

impl<'a> Acting<'a> {
    /// Somebody in an operation that is under way.
    pub(crate) fn within(parts: &'a Parts, who: Who<'a>) -> Self {
        Self { parts, who, writer: Cell::new(None) }
    }

    /// Somebody who begins an operation.
    pub(crate) fn writing(writer: Writer<'a>, who: Who<'a>) -> Self {
        Self { parts: writer.parts(), who, writer: Cell::new(Some(writer)) }
    }

    /// Does what changes a file's names or attributes, once its delegations are given back. `act` asks for
    /// that itself where nobody can give a new one, with `check_undelegated`, and changes nothing if it
    /// is refused.
    pub(super) fn undelegated<T>(
        &self,
        files: &[&CachedInode],
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let wait_for =
            |file: &&CachedInode| break_and_wait(file, Breaker::Change, self.lease_grace);
        loop {
            match act() {
                Err(Error::Posix(PosixError::WouldBlock)) => {
                    self.outside(|| files.iter().try_for_each(wait_for))?;
                }
                done => return done,
            }
        }
    }

    /// Waits for somebody who may have to change something first: the volume can be frozen meanwhile, and
    /// is not when this returns.
    fn outside<T>(&self, wait: impl FnOnce() -> T) -> T {
        let Some(writer) = self.writer.take() else { return wait() };
        drop(writer);
        let waited = wait();
        self.writer.set(Some(self.parts.writer()));
        waited
    }

    /// Whether a file may be used so. The caller has latched it.
    pub(super) fn check(&self, file: &CachedInode, wanted: Access) -> Result<()> {
        match self.who.somebody() {
            Some(me) => me.check(self.journal.cache(), &file.live().inode(), wanted),
            None => Ok(()),
        }
    }

    /// Whether this directory may be searched, before anything in it is latched. What is found is not told
    /// before it has been asked again, under the latch.
    pub(super) fn check_searchable(&self, directory: &CachedInode) -> Result<()> {
        if self.who.somebody().is_none() || !directory.is_directory() {
            return Ok(());
        }
        let _latch = directory.live().record().latch().shared();
        self.check(directory, Access::EXECUTE)
    }

    /// Whether a file may lose its name in this directory. The caller has latched both.
    #[doc(alias = "may_delete")]
    pub(super) fn check_removes(&self, directory: &CachedInode, file: &CachedInode) -> Result<()> {
        self.check(directory, Access::CHANGE_NAMES)?;
        check_mutable(directory.live().inode().core())?;
        match self.who.somebody() {
            Some(_) => self.who.check_sticky(&directory.core(), &file.core()),
            None => Ok(()),
        }
    }

    /// Whether a file may get a further name. The caller has latched it.
    pub(super) fn check_link(&self, file: &CachedInode) -> Result<()> {
        match self.who.somebody() {
            Some(_) => self.who.check_link(self.journal.cache(), &file.live().inode()),
            None => Ok(()),
        }
    }
}

impl Deref for Acting<'_> {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        self.parts
    }
}
