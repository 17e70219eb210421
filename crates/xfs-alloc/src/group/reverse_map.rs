//! The reverse map of an allocation group, whose root is in the AGF.
//!
//! Owns: the access to the btree. Does **not** own the changes of its records
//! ([`mappings`](crate::mappings)).

use std::ops::Range;

use xfs_btree::Anchored;
use xfs_buffer::Result;
use xfs_format::StructureAddress;
use xfs_format::rmap::ReverseMap;
use xfs_trans::Transaction;

use super::GroupSpace;
use super::btrees::InGroup;
use crate::mappings::{MappingEditor, OwnedExtent};

/// The store of the reverse map's btree.
type GroupStore<'e, 'journal> = Anchored<'e, 'journal, InGroup<'e, ReverseMap>>;

impl GroupSpace {
    /// Adds the mapping `new` to the reverse map. Does nothing on volumes without a reverse map.
    pub(crate) fn add_mapping(
        &mut self,
        tx: &mut Transaction<'_>,
        new: &OwnedExtent,
    ) -> Result<()> {
        self.edit_mappings(tx, |mut map| map.add(new))
    }

    /// Removes a mapping from the reverse map. Does nothing on volumes without a reverse map.
    pub(crate) fn remove_mapping(
        &mut self,
        tx: &mut Transaction<'_>,
        old: &OwnedExtent,
    ) -> Result<()> {
        self.edit_mappings(tx, |mut map| map.remove(old))
    }

    /// Removes the mapping of any owner as [`MappingEditor::remove_any`] does. Does nothing on
    /// volumes without a reverse map.
    pub(crate) fn remove_any_mapping(
        &mut self,
        tx: &mut Transaction<'_>,
        range: Range<u32>,
    ) -> Result<()> {
        self.edit_mappings(tx, |mut map| map.remove_any(range))
    }

    /// Converts a mapping from written to unwritten, or back. `new` is the mapping after the
    /// conversion. Does nothing on volumes without a reverse map.
    pub(crate) fn convert_mapping(
        &mut self,
        tx: &mut Transaction<'_>,
        new: &OwnedExtent,
    ) -> Result<()> {
        self.edit_mappings(tx, |mut map| map.convert(new))
    }

    fn edit_mappings(
        &mut self,
        tx: &mut Transaction<'_>,
        edit: impl FnOnce(MappingEditor<'_, ReverseMap, GroupStore<'_, '_>>) -> Result<()>,
    ) -> Result<()> {
        if !self.has::<ReverseMap>() {
            return Ok(());
        }
        let (overlaps, place) = (self.agf.refcount.is_some(), StructureAddress::Group(self.number));
        let mut editor = self.edit::<ReverseMap>(tx)?;
        edit(MappingEditor { editor: &mut editor, overlaps, place })
    }
}
