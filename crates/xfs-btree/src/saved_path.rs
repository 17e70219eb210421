//! A way through a btree that is kept for later.

use xfs_buffer::Buffer;
use xfs_format::btree::BtreeFormat;

use crate::path::Path;

/// Where an editor or a cursor of a group's btree stood, with the blocks above it. Who goes on from
/// there, and stays in the leaf, reads nothing from the root on, and allocates nothing.
///
/// It tells the truth for as long as the btree changes by nobody but the editor that is made of it:
/// whoever may change the btree keeps the one spot of it, or gives it up.
pub struct SavedPath<F: BtreeFormat, B = Buffer>(pub(crate) Path<F, B>);

impl<F: BtreeFormat, B> core::fmt::Debug for SavedPath<F, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SavedPath").finish_non_exhaustive()
    }
}
