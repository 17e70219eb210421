//! The reference counts of a group: one more or one fewer for a range, a step at a time.
//!
//! Owns: reading the records that a change concerns, as many as one step may change, and writing
//! the resulting records ([`adjust`]). Does **not** own freeing blocks without references: it
//! returns them.

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

/// The number of records that one step reads. It writes at most twice as many, in neighbouring
/// leaves.
const RECORDS_PER_STEP: usize = 16;

/// The result of one step.
#[derive(Debug)]
pub(crate) struct CountProgress {
    /// Blocks without any reference left.
    pub(crate) unreferenced: Vec<Range<u32>>,
    /// The part of the range that the step has not reached.
    pub(crate) rest: Option<Range<u32>>,
}

impl GroupSpace {
    /// Changes the counts of a range, from its start on, as far as one step goes.
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

    /// The records that overlap or touch a range, and the end of the step if there are many.
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

    /// Replaces the records of a stretch, and writes only those that differ.
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

/// Moves to a record whose start was read under the same latch.
fn find(editor: &mut GroupEditor<'_, '_, Refcounts>, record: &Refcount) -> Result<()> {
    let found = editor.find((record.domain, record.start))?;
    assert!(found.is_some(), "the reference counts change only under this latch");
    Ok(())
}
