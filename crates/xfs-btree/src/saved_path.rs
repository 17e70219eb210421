//! The path to a record of a btree, kept for a later operation.

use xfs_buffer::Buffer;
use xfs_format::btree::BtreeFormat;

use crate::path::Path;

/// The path to the record that an editor or a cursor stands on, in the btree of a group. If a later
/// operation continues from the path and stays in the leaf of that record, it reads no block and
/// allocates nothing.
///
/// A saved path is valid only while no other editor changes the btree. A btree therefore has at
/// most one saved path. Code that changes the btree must do so through an editor that continues
/// from this path, or drop the path.
pub struct SavedPath<F: BtreeFormat, B = Buffer>(pub(crate) Path<F, B>);

impl<F: BtreeFormat, B> core::fmt::Debug for SavedPath<F, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SavedPath").finish_non_exhaustive()
    }
}
