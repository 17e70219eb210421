//! The path to a record of a btree, kept for a later operation.

use xfs_buffer::Buffer;
use xfs_format::btree::BtreeFormat;

use crate::path::Path;

/// The path to the record that an editor or a cursor stands on, in the btree of a group. A later
/// operation that continues from the path, and stays in the leaf of that record, reads no block
/// from the root down and allocates nothing.
///
/// A saved path is valid only while no other editor changes the btree. A btree therefore has at
/// most one saved path: code that may change the btree edits through that path, or drops it.
pub struct SavedPath<F: BtreeFormat, B = Buffer>(pub(crate) Path<F, B>);

impl<F: BtreeFormat, B> core::fmt::Debug for SavedPath<F, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SavedPath").finish_non_exhaustive()
    }
}
