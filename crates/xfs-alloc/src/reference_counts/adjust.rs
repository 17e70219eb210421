//! A pure function that computes the reference count records after a range gets one more reference,
//! or one fewer.
//!
//! Owns: the counts block by block, and the records that describe them. Does **not** own the btree.
//!
//! # Invariants
//!
//! - **I1** Blocks with the default count have no record: one reference among shared blocks, none
//!   among staged ones.
//! - **I2** Two records that touch have different counts. The records therefore follow from the
//!   counts of the blocks alone, and a checker that derives them from the reverse map finds the
//!   same.

use std::ops::Range;

use xfs_format::AgBlock;
use xfs_format::refcount::{Refcount, RefcountDomain};

/// The highest count that a record can hold. A count that has reached it no longer changes.
const SATURATED: u32 = u32::MAX;

/// A change of the reference counts of a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CountChange {
    /// One more file contains the blocks.
    Increase,
    /// One file fewer contains the blocks.
    Decrease,
    /// The blocks become staged for copy-on-write: allocated for a file, but not mapped into it
    /// yet.
    Stage,
    /// The blocks are no longer staged for copy-on-write.
    Unstage,
}

impl CountChange {
    /// Returns the kind of records that the change concerns: those of shared blocks or those of
    /// staged blocks.
    pub(crate) const fn domain(self) -> RefcountDomain {
        match self {
            Self::Increase | Self::Decrease => RefcountDomain::Shared,
            Self::Stage | Self::Unstage => RefcountDomain::Staging,
        }
    }

    /// Returns the default count (I1): blocks with this reference count have no record.
    const fn base(self) -> u32 {
        match self.domain() {
            RefcountDomain::Shared => 1,
            RefcountDomain::Staging => 0,
        }
    }

    /// Returns the reference count that follows from the count `references` by this change. `None`:
    /// a block with that count does not allow the change.
    fn apply(self, references: u32) -> Option<u32> {
        match self {
            Self::Increase | Self::Decrease if references == SATURATED => Some(SATURATED),
            Self::Increase => references.checked_add(1),
            Self::Decrease => references.checked_sub(1),
            Self::Stage => (references == 0).then_some(1),
            Self::Unstage => (references == 1).then_some(0),
        }
    }
}

/// The result of a change: the new records, and the blocks that are free now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Adjusted {
    pub(super) records: Vec<Refcount>,
    /// The blocks that have no reference left.
    pub(super) unreferenced: Vec<Range<u32>>,
}

/// The error for a block whose count does not allow the change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidChange {
    pub(super) start: u32,
    pub(super) references: u32,
}

/// Computes the records after the counts of `range` change. `old` holds the records that overlap or
/// touch the range, in order.
pub(super) fn adjust(
    old: &[Refcount],
    change: CountChange,
    range: Range<u32>,
) -> Result<Adjusted, InvalidChange> {
    let mut builder = RecordBuilder { change, records: Vec::new(), unreferenced: Vec::new() };
    let mut from = range.start;
    for record in old {
        let Range { start, end } = record.start.0..record.end().0;
        builder.keep(start..end.min(range.start), record.references);
        let inside = start.max(range.start)..end.min(range.end);
        if !inside.is_empty() {
            builder.change(from..inside.start, change.base())?;
            from = inside.end;
            builder.change(inside, record.references)?;
        } else if start >= range.end {
            builder.change(from..range.end, change.base())?;
            from = range.end;
        }
        if end > range.end {
            builder.keep(start.max(range.end)..end, record.references);
        }
    }
    builder.change(from..range.end, change.base())?;
    Ok(Adjusted { records: builder.records, unreferenced: builder.unreferenced })
}

/// Builds the list of records after the change, in order of blocks.
struct RecordBuilder {
    change: CountChange,
    records: Vec<Refcount>,
    unreferenced: Vec<Range<u32>>,
}

impl RecordBuilder {
    fn change(&mut self, range: Range<u32>, references: u32) -> Result<(), InvalidChange> {
        if range.is_empty() {
            return Ok(());
        }
        let wrong = InvalidChange { start: range.start, references };
        let references = self.change.apply(references).ok_or(wrong)?;
        if self.change == CountChange::Decrease && references == 0 {
            self.unreferenced.push(range);
        } else {
            self.keep(range, references);
        }
        Ok(())
    }

    /// Appends blocks with the count `references`. Blocks with the default count get no record
    /// (I1). Blocks with the count of the last record extend that record (I2).
    fn keep(&mut self, range: Range<u32>, references: u32) {
        if range.is_empty() || references == self.change.base() {
            return;
        }
        let (start, count) = (AgBlock(range.start), range.end - range.start);
        match self.records.last_mut() {
            Some(last) if last.end() == start && last.references == references => {
                last.count += count;
            }
            _ => {
                let domain = self.change.domain();
                self.records.push(Refcount { domain, start, count, references });
            }
        }
    }
}

#[cfg(test)]
mod tests;
