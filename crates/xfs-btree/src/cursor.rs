//! A read-only cursor that stands on one record of a btree.

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeFormat, Extents};
use xfs_format::extent::ExtentRoot;
use xfs_format::{AgNumber, Check, Corruption, InodeNumber, Structure, StructureAddress};

use crate::path::{Direction, Path};
use crate::records::{Leaves, Records};
use crate::root::ForkRoot;
use crate::saved_path::SavedPath;

/// The record that a seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek<K> {
    /// The last record whose key is at most this key.
    #[doc(alias = "XFS_LOOKUP_LE")]
    AtOrBefore(K),
    /// The first record whose key is at least this key.
    #[doc(alias = "XFS_LOOKUP_GE")]
    AtOrAfter(K),
}

/// A cursor that stands on one record of a btree. The cursor keeps the blocks from the root down to
/// that record.
///
/// After an error the cursor stands on the block that could not be read or failed its checks. The
/// next move skips everything below that block, so that the intact part of a damaged btree can be
/// read.
pub struct Cursor<'a, F: BtreeFormat> {
    cache: &'a BufferCache,
    path: Path<F, Buffer>,
}

impl<'a, F: BtreeFormat> Cursor<'a, F> {
    /// Creates a cursor in a btree of an allocation group. The cursor stands on no record yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the group does not exist, or the root's level is impossible.
    pub fn new(cache: &'a BufferCache, group: AgNumber, root: BtreeRoot) -> Result<Self> {
        Ok(Self { cache, path: Path::in_group(cache.geometry(), group, root)? })
    }

    /// Creates a cursor that stands on the record to which the path `saved` leads, as
    /// [`Editor::resume`](crate::Editor::resume) does. Without a saved path, or if the root has
    /// changed since, the cursor stands on no record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
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

    /// Returns the path to the cursor's record, saved so that another cursor can continue from it.
    /// The cursor must not have returned an error.
    #[must_use]
    pub fn leave(self) -> SavedPath<F> {
        SavedPath(self.path)
    }

    /// Returns the record that the cursor stands on; `None` if there is no record.
    ///
    /// # Errors
    ///
    /// Returns an error if the record is corrupt.
    pub fn record(&self) -> Result<Option<F::Record>> {
        self.path.record(self.cache.geometry())
    }

    /// Moves to the first record of the btree and returns it; `None` if the btree is empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`advance`](Self::advance).
    pub fn first(&mut self) -> Result<Option<F::Record>> {
        self.path.first(self.cache)
    }

    /// Moves to the last record of the btree and returns it; `None` if the btree is empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`advance`](Self::advance).
    pub fn last(&mut self) -> Result<Option<F::Record>> {
        self.path.last(self.cache)
    }

    /// Moves to the record that `seek` asks for and returns it.
    ///
    /// Returns `None` if the btree has no such record. The cursor then stands on the first record
    /// of the btree if `seek` is `AtOrBefore`, and on the last record if it is `AtOrAfter`. In an
    /// empty btree the cursor stands on no record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`advance`](Self::advance).
    pub fn seek(&mut self, seek: Seek<F::Key>) -> Result<Option<F::Record>> {
        self.path.seek(self.cache, seek)
    }

    /// Moves to the next record and returns it. Returns `None` at the end of the btree; the cursor
    /// then stays where it is. A cursor that has not been moved yet moves to the first record.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or a corruption if a block is damaged.
    pub fn advance(&mut self) -> Result<Option<F::Record>> {
        self.path.advance(self.cache)
    }

    /// Moves to the previous record and returns it. Returns `None` at the start of the btree; the
    /// cursor then stays where it is. A cursor that has not been moved yet moves to the last
    /// record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`advance`](Self::advance).
    pub fn retreat(&mut self) -> Result<Option<F::Record>> {
        self.path.retreat(self.cache)
    }

    /// Returns an iterator over the records from the cursor's record on. A cursor that has not been
    /// moved yet gives all records of the btree.
    #[must_use]
    pub fn records(self) -> Records<'a, F> {
        Records::new(self)
    }

    /// Returns the same records as `records`, one leaf at a time.
    #[must_use]
    pub fn leaves(self) -> Leaves<'a, F> {
        Leaves::new(self)
    }

    /// Moves to the next leaf, or to the first leaf if the cursor has not been moved yet. Returns
    /// `false` if there is no next leaf.
    pub(crate) fn next_leaf(&mut self) -> Result<bool> {
        if self.path.is_started() {
            return self.path.shift(self.cache, Direction::Forward);
        }
        self.first().map(|record| record.is_some())
    }

    /// Returns whether the cursor has been moved since it was created.
    pub(crate) const fn is_started(&self) -> bool {
        self.path.is_started()
    }

    /// Decodes the records of the current leaf, from the cursor's record on, and stores them in
    /// `into`.
    pub(crate) fn read_leaf(&self, into: &mut Vec<F::Record>) -> Result<()> {
        self.path.read_leaf(self.cache.geometry(), into)
    }
}

impl<'a> Cursor<'a, Extents> {
    /// Creates a cursor in the extent btree of a fork of `inode`. The btree's root lies in the
    /// inode.
    ///
    /// # Errors
    ///
    /// Returns an error if [`ExtentRoot::verify`] refuses the root.
    pub fn in_fork(
        cache: &'a BufferCache,
        inode: InodeNumber,
        root: &ExtentRoot<'_>,
    ) -> Result<Self> {
        let corrupt =
            |check: Check| Corruption::new(Structure::Inode, StructureAddress::Inode(inode), check);
        root.verify(cache.geometry()).map_err(|check| corrupt(check.into()))?;
        let root = ForkRoot::new(root, root.count());
        Ok(Self { cache, path: Path::in_inode(inode, root) })
    }
}

#[cfg(test)]
mod tests;
