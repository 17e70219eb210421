//! The reference counts of an allocation group. The root of their btree is in the AGF.

use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::StructureAddress;
use xfs_format::refcount::Refcounts;
use xfs_trans::Transaction;

use super::GroupSpace;
use crate::reference_counts::{CountChange, CountEditor, CountProgress};

impl GroupSpace {
    /// Changes the reference counts of a range of blocks, as [`CountEditor::change`] does.
    pub(crate) fn count_references(
        &mut self,
        tx: &mut Transaction<'_>,
        change: CountChange,
        range: Range<u32>,
    ) -> Result<CountProgress> {
        let place = StructureAddress::Group(self.number);
        let mut editor = self.edit::<Refcounts>(tx)?;
        CountEditor { editor: &mut editor, place }.change(change, range)
    }
}
