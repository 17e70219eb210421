//! Changes of reference counts in a group, of the data device or of the realtime section: one more
//! or one fewer for each block of a range, in one or more transaction steps.
//!
//! Owns: reading the records that a change concerns, as many as one step may change, and writing
//! the resulting records ([`adjust`]). Does **not** own freeing blocks without references: it
//! returns these blocks to the caller.

mod adjust;

use std::ops::Range;

use xfs_btree::{BtreeStore, Editor, Seek};
use xfs_buffer::Result;
use xfs_format::btree::BtreeFormat;
use xfs_format::refcount::{Refcount, RefcountCheck, RefcountDomain};
use xfs_format::{AgBlock, Corruption, Structure, StructureAddress};

pub(crate) use adjust::CountChange;

/// Number of records that one transaction step reads. The step writes at most twice as many, in
/// neighbouring leaves.
const RECORDS_PER_STEP: usize = 16;

/// The result of one transaction step that changes reference counts.
#[derive(Debug)]
pub(crate) struct CountProgress {
    /// The blocks that have no reference left.
    pub(crate) unreferenced: Vec<Range<u32>>,
    /// The rest of the range, which the step has not reached; `None` if the change is complete.
    pub(crate) rest: Option<Range<u32>>,
}

/// An editor of the btree of reference counts of a group.
pub(crate) struct CountEditor<'e, F: BtreeFormat, S: BtreeStore> {
    /// The editor of the btree.
    pub(crate) editor: &'e mut Editor<F, S>,
    /// The place of the group, for error messages.
    pub(crate) place: StructureAddress,
}

impl<F, S> CountEditor<'_, F, S>
where
    F: BtreeFormat<Record = Refcount, Key = (RefcountDomain, AgBlock)>,
    S: BtreeStore,
{
    /// Changes the reference counts of a range of blocks, from the start of the range on, for as
    /// many records as one transaction step may change.
    #[doc(alias = "xfs_refcount_adjust")]
    pub(crate) fn change(
        &mut self,
        change: CountChange,
        range: Range<u32>,
    ) -> Result<CountProgress> {
        let (old, end) = self.touched(change.domain(), range.clone())?;
        let step = range.start..end;
        let adjusted = adjust::adjust(&old, change, step).map_err(|wrong| {
            let (start, references) = (wrong.start, wrong.references);
            let check = RefcountCheck::Change { start, references };
            Corruption::new(Structure::Btree, self.place, check)
        })?;
        self.replace(&old, &adjusted.records)?;
        let rest = (end < range.end).then_some(end..range.end);
        Ok(CountProgress { unreferenced: adjusted.unreferenced, rest })
    }

    /// Returns the records that overlap or touch `range`, and the block where this transaction step
    /// must stop. The step stops at the end of `range` unless there are too many records.
    fn touched(
        &mut self,
        domain: RefcountDomain,
        range: Range<u32>,
    ) -> Result<(Vec<Refcount>, u32)> {
        let editor = &mut *self.editor;
        let mut records = Vec::new();
        // A record that ends where the range starts may be joined with it.
        let just_before = AgBlock(range.start.saturating_sub(1));
        let before = editor.seek(Seek::AtOrBefore((domain, just_before)))?;
        let before =
            before.filter(|before| before.domain == domain && before.end().0 >= range.start);
        let mut next = match before {
            Some(before) => Some(before),
            None => editor.seek(Seek::AtOrAfter((domain, AgBlock(range.start))))?,
        };
        while let Some(record) = next.filter(|record| record.domain == domain) {
            if record.start.0 > range.end {
                break;
            }
            // A record that only touches the end is always read: the last blocks may become part of
            // it.
            if records.len() >= RECORDS_PER_STEP && record.start.0 < range.end {
                return Ok((records, record.start.0));
            }
            records.push(record);
            next = editor.advance()?;
        }
        Ok((records, range.end))
    }

    /// Replaces the records `old` by `new`, and writes only those that differ.
    fn replace(&mut self, old: &[Refcount], new: &[Refcount]) -> Result<()> {
        let starts_in = |records: &[Refcount], start| {
            records.iter().any(|record: &Refcount| record.start == start)
        };
        for record in old.iter().filter(|record| !starts_in(new, record.start)) {
            self.find(record)?;
            self.editor.remove()?;
        }
        // Kept records are changed to their new length first, so that none overlaps a record that
        // is inserted.
        let changed = new.iter().filter(|record| !old.contains(record));
        let (kept, added): (Vec<&Refcount>, Vec<_>) =
            changed.partition(|record| starts_in(old, record.start));
        for record in kept {
            self.find(record)?;
            self.editor.update(*record)?;
        }
        for record in added {
            self.editor.insert(*record)?;
        }
        Ok(())
    }

    /// Moves the editor to `record`, which must exist: it was read under the same latch of the
    /// group.
    fn find(&mut self, record: &Refcount) -> Result<()> {
        let found = self.editor.find((record.domain, record.start))?;
        assert!(found.is_some(), "the reference counts change only under this latch");
        Ok(())
    }
}
