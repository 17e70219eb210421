//! A place in a btree.

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeFormat, Extents};
use xfs_format::extent::ExtentRoot;
use xfs_format::{AgNumber, Check, Corruption, InodeNumber, Place, Structure};

use crate::path::{Direction, Path};
use crate::records::{Leaves, Records};
use crate::root::ForkRoot;
use crate::saved_path::SavedPath;

/// Which record to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek<K> {
    /// The last one whose key is not above this.
    #[doc(alias = "XFS_LOOKUP_LE")]
    AtOrBefore(K),
    /// The first one whose key is not below this.
    #[doc(alias = "XFS_LOOKUP_GE")]
    AtOrAfter(K),
}

/// A place in a btree: a record, and the blocks from the root down to it.
///
/// After an error the cursor stands on the block that could not be read or believed. Moving on
/// skips all that is below it, so that a damaged btree can be read as far as it is whole.
pub struct Cursor<'a, F: BtreeFormat> {
    cache: &'a BufferCache,
    path: Path<F, Buffer>,
}

impl<'a, F: BtreeFormat> Cursor<'a, F> {
    /// A cursor in a btree of an allocation group; it stands nowhere yet.
    ///
    /// # Errors
    ///
    /// There must be such a group.
    pub fn new(cache: &'a BufferCache, group: AgNumber, root: BtreeRoot) -> Result<Self> {
        Ok(Self { cache, path: Path::in_group(cache.geometry(), group, root)? })
    }

    /// A cursor that stands where one stood, as
    /// [`Editor::resume`](crate::Editor::resume).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn resume(
        cache: &'a BufferCache,
        group: AgNumber,
        root: BtreeRoot,
        saved: Option<SavedPath<F>>,
    ) -> Result<Self> {
        match saved {
            Some(SavedPath(path)) if path.is_in(group, root) => Ok(Self { cache, path }),
            _ => Self::new(cache, group, root),
        }
    }

    /// Where the cursor stands, to go on from there. No error may have come from it.
    #[must_use]
    pub fn leave(self) -> SavedPath<F> {
        SavedPath(self.path)
    }

    /// The record that the cursor stands on, if it stands on one.
    ///
    /// # Errors
    ///
    /// A record that cannot be believed.
    pub fn record(&self) -> Result<Option<F::Record>> {
        self.path.record(self.cache.geometry())
    }

    /// Goes to the first record of the btree.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn first(&mut self) -> Result<Option<F::Record>> {
        self.path.first(self.cache)
    }

    /// Goes to the last record of the btree.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn last(&mut self) -> Result<Option<F::Record>> {
        self.path.last(self.cache)
    }

    /// Goes to the record asked for and returns it; `None` if there is none on that side. Then the
    /// cursor stands on the first record, or on the last, if the btree has any.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn seek(&mut self, seek: Seek<F::Key>) -> Result<Option<F::Record>> {
        self.path.seek(self.cache, seek)
    }

    /// Goes to the next record and returns it; `None` at the end, where the cursor stays. A cursor
    /// that stands nowhere yet goes to the first.
    ///
    /// # Errors
    ///
    /// The device's error, or a block that cannot be believed.
    pub fn advance(&mut self) -> Result<Option<F::Record>> {
        self.path.advance(self.cache)
    }

    /// Goes to the record before and returns it; `None` at the start, where the cursor stays. A
    /// cursor that stands nowhere yet goes to the last.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn retreat(&mut self) -> Result<Option<F::Record>> {
        self.path.retreat(self.cache)
    }

    /// The records from where the cursor stands, or all of them if it stands nowhere yet.
    #[must_use]
    pub fn records(self) -> Records<'a, F> {
        Records::new(self)
    }

    /// The same, one leaf at a time.
    #[must_use]
    pub fn leaves(self) -> Leaves<'a, F> {
        Leaves::new(self)
    }

    /// Goes to the first leaf, if the cursor stands nowhere yet, or to the next one. `false` at the
    /// end.
    pub(crate) fn next_leaf(&mut self) -> Result<bool> {
        if self.path.is_started() {
            return self.path.shift(self.cache, Direction::Forward);
        }
        self.first().map(|record| record.is_some())
    }

    /// Whether the cursor has been moved at all.
    pub(crate) const fn is_started(&self) -> bool {
        self.path.is_started()
    }

    /// Decodes the records of the leaf from the one that the cursor stands on.
    pub(crate) fn read_leaf(&self, into: &mut Vec<F::Record>) -> Result<()> {
        self.path.read_leaf(self.cache.geometry(), into)
    }
}

impl<'a> Cursor<'a, Extents> {
    /// A cursor in the extents of a fork of `inode`, whose root stands in the inode.
    ///
    /// # Errors
    ///
    /// The root must be one that [`ExtentRoot::verify`] passes.
    pub fn in_fork(
        cache: &'a BufferCache,
        inode: InodeNumber,
        root: &ExtentRoot<'_>,
    ) -> Result<Self> {
        let corrupt = |check: Check| Corruption::new(Structure::Inode, Place::Inode(inode), check);
        root.verify(cache.geometry()).map_err(|check| corrupt(check.into()))?;
        let root = ForkRoot::new(root, root.count());
        Ok(Self { cache, path: Path::in_inode(inode, root) })
    }
}

#[cfg(test)]
mod tests;
