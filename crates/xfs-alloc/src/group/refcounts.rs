//! Changes of reference counts in a group: one more or one fewer for each block of a range, in one
//! or more transaction steps.
//!
//! Owns: reading the records that a change concerns, as many as one step may change, and writing
//! the resulting records ([`adjust`]). Does **not** own freeing blocks without references: it
//! returns these blocks to the caller.

mod adjust;

use std::ops::Range;

use xfs_btree::Seek;
use xfs_buffer::Result;
use xfs_format::refcount::{Refcount, RefcountCheck, RefcountDomain, Refcounts};
use xfs_format::{AgBlock, Structure};
use xfs_trans::Transaction;

pub(crate) use adjust::CountChange;

use super::GroupSpace;
use super::btrees::GroupEditor;

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

impl GroupSpace {
    /// Changes the reference counts of a range of blocks, from the start of the range on, for as
    /// many records as one transaction step may change.
    #[doc(alias = "xfs_refcount_adjust")]
    pub(crate) fn count_references(
        &mut self,
        tx: &mut Transaction<'_>,
        change: CountChange,
        range: Range<u32>,
    ) -> Result<CountProgress> {
        let (old, end) = self.touched_counts(tx, change.domain(), range.clone())?;
        let step = range.start..end;
        let adjusted = adjust::adjust(&old, change, step).map_err(|wrong| {
            let (start, references) = (wrong.start, wrong.references);
            self.corrupt(Structure::Btree, RefcountCheck::Change { start, references })
        })?;
        self.replace_counts(tx, &old, &adjusted.records)?;
        let rest = (end < range.end).then_some(end..range.end);
        Ok(CountProgress { unreferenced: adjusted.unreferenced, rest })
    }

    /// Returns the records that overlap or touch `range`, and the block where this transaction step
    /// must stop. The step stops at the end of `range` unless there are too many records.
    fn touched_counts(
        &mut self,
        tx: &mut Transaction<'_>,
        domain: RefcountDomain,
        range: Range<u32>,
    ) -> Result<(Vec<Refcount>, u32)> {
        let mut editor = self.edit::<Refcounts>(tx)?;
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
    fn replace_counts(
        &mut self,
        tx: &mut Transaction<'_>,
        old: &[Refcount],
        new: &[Refcount],
    ) -> Result<()> {
        let starts_in = |records: &[Refcount], start| {
            records.iter().any(|record: &Refcount| record.start == start)
        };
        let mut editor = self.edit::<Refcounts>(tx)?;
        for record in old.iter().filter(|record| !starts_in(new, record.start)) {
            find(&mut editor, record)?;
            editor.remove()?;
        }
        // Kept records are changed to their new length first, so that none overlaps a record that
        // is inserted.
        let changed = new.iter().filter(|record| !old.contains(record));
        let (kept, added): (Vec<&Refcount>, Vec<_>) =
            changed.partition(|record| starts_in(old, record.start));
        for record in kept {
            find(&mut editor, record)?;
            editor.update(*record)?;
        }
        for record in added {
            editor.insert(*record)?;
        }
        Ok(())
    }
}

/// Moves the editor to `record`, which must exist: it was read under the same latch of the AGF.
fn find(editor: &mut GroupEditor<'_, '_, Refcounts>, record: &Refcount) -> Result<()> {
    let found = editor.find((record.domain, record.start))?;
    assert!(found.is_some(), "the reference counts change only under this latch");
    Ok(())
}
