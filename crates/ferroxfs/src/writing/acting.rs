//! Somebody who changes a volume.
//!
//! Owns: asking, inside a transaction that has latched the inodes, whether somebody may do what they are
//! about to do. Does **not** own the answer ([`permission`](crate::permission)).

use std::ops::Deref;

use xfs_buffer::Result;

use super::access::check_mutable;
use super::{Parts, Writer};
use crate::permission::{Access, Who};
use crate::table::Entry;

/// The parts of a volume, and who works with them.
pub(crate) struct Acting<'a> {
    parts: &'a Parts,
    pub(super) who: Who<'a>,
    /// The operation, where it is one by itself.
    _writer: Option<Writer<'a>>,
}

impl<'a> Acting<'a> {
    /// Somebody in an operation that is under way.
    pub(crate) fn within(parts: &'a Parts, who: Who<'a>) -> Self {
        Self { parts, who, _writer: None }
    }

    /// Somebody who begins an operation.
    pub(crate) fn writing(writer: Writer<'a>, who: Who<'a>) -> Self {
        Self { parts: writer.parts(), who, _writer: Some(writer) }
    }

    /// Whether a file may be used so. The caller has latched it.
    pub(super) fn check(&self, file: &Entry, wanted: Access) -> Result<()> {
        match self.who.somebody() {
            Some(me) => me.check(self.journal.cache(), &file.live().inode(), wanted),
            None => Ok(()),
        }
    }

    /// Whether this directory may be searched, before anything in it is latched. What is found is not told
    /// before it has been asked again, under the latch.
    pub(super) fn check_searchable(&self, directory: &Entry) -> Result<()> {
        if self.who.somebody().is_none() || !directory.is_directory() {
            return Ok(());
        }
        let _latch = directory.live().record().latch().shared();
        self.check(directory, Access::EXECUTE)
    }

    /// Whether a file may lose its name in this directory. The caller has latched both.
    #[doc(alias = "may_delete")]
    pub(super) fn check_removes(&self, directory: &Entry, file: &Entry) -> Result<()> {
        self.check(directory, Access::CHANGE_NAMES)?;
        let above = directory.core();
        check_mutable(&above)?;
        match self.who.somebody() {
            Some(_) => self.who.check_sticky(&above, &file.core()),
            None => Ok(()),
        }
    }

    /// Whether a file may get a further name. The caller has latched it.
    pub(super) fn check_link(&self, file: &Entry) -> Result<()> {
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
