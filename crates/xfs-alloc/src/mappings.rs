//! The reverse map of a group, of the data device or of the realtime section: adding, removing and
//! converting mappings between written and unwritten.
//!
//! Owns: finding the record that a mapping belongs to, joining a new mapping with the record that
//! it continues and with the record that continues it, and cutting a mapping out of a longer
//! record. Does **not** own the time of the change: mappings of metadata change with the
//! allocation, and mappings of files in a later transaction step, for which the log has an intent.
//!
//! # Invariants
//!
//! - **I1** Two records of one owner with the same state, where the second continues the first on
//!   disk and in the file, are stored as one record.
//! - **I2** A mapping that is removed lies completely inside one record with the same state. If it
//!   does not, the volume is damaged, or the change has been made already.
//!
//! # Where blocks are shared
//!
//! Records of several owners may cover one block, so the record that covers it need not be the last
//! one that starts at or before it. The search tries the key first, which almost always succeeds,
//! and then all records that overlap the block.

use std::ops::Range;

use xfs_btree::{BtreeStore, Editor, Seek};
use xfs_buffer::{Error, Result};
use xfs_format::btree::BtreeFormat;
use xfs_format::rmap::{ReverseMap, Rmap, RmapCheck, RmapFlags, RmapKey, RmapOwner};
use xfs_format::{AgBlock, Corruption, FileBlock, Structure, StructureAddress};

use crate::owner::ExtentOwner;

/// A range of blocks of the group, with its owner: one mapping of the reverse map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnedExtent(Rmap);

impl OwnedExtent {
    /// Creates the mapping of `range` to `owner`.
    pub(crate) fn new(owner: ExtentOwner, range: Range<u32>) -> Self {
        let ExtentOwner { owner, offset, flags } = owner;
        let (start, count) = (AgBlock(range.start), range.end - range.start);
        Self(Rmap { start, count, owner, offset, flags })
    }
}

/// Whether the mapping has an offset in a fork. Only blocks with contents of a file have one.
fn has_offset(record: &Rmap) -> bool {
    matches!(record.owner, RmapOwner::Inode(_)) && !record.flags.contains(RmapFlags::FORK_BTREE)
}

/// The flags that distinguish two uses of blocks by one owner. The flag for unwritten blocks is not
/// among them, because it is a state of the blocks.
const USE: RmapFlags = RmapFlags::ATTR.union(RmapFlags::FORK_BTREE);

fn same_use(one: &Rmap, other: &Rmap) -> bool {
    one.owner == other.owner && one.flags.intersection(USE) == other.flags.intersection(USE)
}

/// Returns the part of a record that lies in `range`; `None` if the range is empty.
fn part(record: &Rmap, range: Range<u32>) -> Option<Rmap> {
    let skipped = u64::from(range.start - record.start.0);
    let offset = if has_offset(record) { record.offset.0 + skipped } else { 0 };
    (!range.is_empty()).then(|| Rmap {
        start: AgBlock(range.start),
        count: range.end - range.start,
        offset: FileBlock(offset),
        ..*record
    })
}

/// Whether `record` covers the blocks of `wanted`, for the same owner and use, and with matching
/// offsets.
fn covers(record: &Rmap, wanted: &Rmap) -> bool {
    let is_around = record.start <= wanted.start && record.end() >= wanted.end();
    is_around
        && same_use(record, wanted)
        && (!has_offset(record)
            || wanted.offset.0 == record.offset.0 + u64::from(wanted.start.0 - record.start.0))
}

/// Whether `right` continues `left` on disk and in the file, with the same owner and state. I1
/// forbids two records of which this is true.
fn continues(left: &Rmap, right: &Rmap) -> bool {
    left.end() == right.start
        && left.owner == right.owner
        && left.flags == right.flags
        && (!has_offset(left) || left.offset.0 + u64::from(left.count) == right.offset.0)
}

/// An editor of a reverse map.
pub(crate) struct MappingEditor<'e, F: BtreeFormat, S: BtreeStore> {
    /// The editor of the btree.
    pub(crate) editor: &'e mut Editor<F, S>,
    /// Whether records may overlap, because files share blocks.
    pub(crate) overlaps: bool,
    /// The place of the group, for error messages.
    pub(crate) place: StructureAddress,
}

impl<F: BtreeFormat<Record = Rmap, Key = RmapKey>, S: BtreeStore> MappingEditor<'_, F, S> {
    /// Adds the mapping `new` to the reverse map.
    #[doc(alias = "xfs_rmap_map")]
    pub(crate) fn add(&mut self, new: &OwnedExtent) -> Result<()> {
        let new = new.0;
        let left = self.find_before(&new)?;
        let after =
            RmapKey { start: new.end(), owner: new.owner.to_raw(), offset: part_after(&new) };
        let right = self.editor.find(after)?.filter(|right| continues(&new, right));
        let joined = Rmap { count: new.count + right.map_or(0, |right| right.count), ..new };
        if right.is_some() {
            self.editor.remove()?;
        }
        match left {
            Some(left) => {
                self.find(&left)?;
                self.editor.update(Rmap { count: left.count + joined.count, ..left })
            }
            None => self.editor.insert(joined),
        }
    }

    /// Removes a mapping from the reverse map.
    #[doc(alias = "xfs_rmap_unmap")]
    pub(crate) fn remove(&mut self, old: &OwnedExtent) -> Result<()> {
        let old = old.0;
        let record = self.find_covering(&old)?;
        let record = record.filter(|record| record.flags == old.flags);
        // I2: no such mapping is an error.
        let record = record.ok_or_else(|| self.missing(&old))?;
        self.cut(&record, old.start.0..old.end().0)
    }

    /// Removes the mapping of whichever owner covers these blocks, if there is one. Recovery uses
    /// this for an intent to free the blocks. Recovery knows neither the owner, nor whether the
    /// mapping was removed before the crash.
    pub(crate) fn remove_any(&mut self, range: Range<u32>) -> Result<()> {
        let key = RmapKey { start: AgBlock(range.start), owner: u64::MAX, offset: u64::MAX };
        let found = self.editor.seek(Seek::AtOrBefore(key))?;
        match found.filter(|record| record.end().0 > range.start) {
            Some(record) if record.end().0 >= range.end => self.cut(&record, range),
            Some(record) => Err(self.missing(&record)),
            None => Ok(()),
        }
    }

    /// Converts a mapping from written to unwritten, or back. `new` is the mapping after the
    /// conversion.
    #[doc(alias = "xfs_rmap_convert")]
    pub(crate) fn convert(&mut self, new: &OwnedExtent) -> Result<()> {
        let old = OwnedExtent(Rmap {
            flags: new.0.flags.symmetric_difference(RmapFlags::UNWRITTEN),
            ..new.0
        });
        self.remove(&old)?;
        self.add(new)
    }

    /// Removes `range` from a record that covers it. The parts of the record before and after the
    /// range stay.
    fn cut(&mut self, record: &Rmap, range: Range<u32>) -> Result<()> {
        self.find(record)?;
        let head = part(record, record.start.0..range.start);
        let tail = part(record, range.end..record.end().0);
        match head {
            Some(head) => self.editor.update(head)?,
            None => {
                self.editor.remove()?;
            }
        }
        // Where blocks are shared, records of other owners may lie between the old key and the
        // tail's.
        tail.map_or(Ok(()), |tail| self.editor.insert(tail))
    }

    /// Returns the record that the mapping `new` continues; `None` if there is no such record.
    fn find_before(&mut self, new: &Rmap) -> Result<Option<Rmap>> {
        let Some(start) = new.start.0.checked_sub(1) else { return Ok(None) };
        let offset = if has_offset(new) {
            let Some(offset) = new.offset.0.checked_sub(1) else { return Ok(None) };
            offset
        } else {
            0
        };
        let last = Rmap { start: AgBlock(start), count: 1, offset: FileBlock(offset), ..*new };
        // I1: a record that `new` continues is extended, not followed by a second one.
        let found = self.find_covering(&last)?;
        Ok(found.filter(|left| continues(left, new)))
    }

    /// Returns the record that covers the mapping `wanted`, whether written or unwritten; `None` if
    /// there is no such record.
    fn find_covering(&mut self, wanted: &Rmap) -> Result<Option<Rmap>> {
        let found = self.editor.seek(Seek::AtOrBefore(ReverseMap::key(wanted)))?;
        if let Some(found) = found.filter(|record| covers(record, wanted)) {
            return Ok(Some(found));
        }
        // Without sharing, only the last record that starts at or before the block can cover it.
        if !self.overlaps || !has_offset(wanted) {
            return Ok(None);
        }
        let block = wanted.start;
        self.editor.find_everywhere(
            |low, high| low.start <= block && block <= high.start,
            |record| covers(record, wanted),
        )
    }

    /// Moves the editor to `record`, which must exist: it was read under the same latch of the
    /// group.
    fn find(&mut self, record: &Rmap) -> Result<()> {
        let found = self.editor.find(F::key(record))?;
        assert!(found.is_some(), "the reverse map changes only under this latch");
        Ok(())
    }

    #[cold]
    fn missing(&self, record: &Rmap) -> Error {
        let (start, count, owner) = (record.start.0, record.count, record.owner.to_raw());
        let check = RmapCheck::Missing { start, count, owner };
        Corruption::new(Structure::Btree, self.place, check).into()
    }
}

/// Returns the second half of a reverse-map key (file offset with its flags) for the block that
/// follows the mapping `new`.
fn part_after(new: &Rmap) -> u64 {
    let blocks = if has_offset(new) { u64::from(new.count) } else { 0 };
    ReverseMap::key(new).offset + blocks
}
