//! The cursor of the diff over the rows of one of the two compared states.
//!
//! Owns: the check of the order of rows. Does **not** own: the batches (`entries`).

use std::collections::VecDeque;

use super::entries::{EntryBatch, EntryView};
use super::live::LiveScan;
use super::{DiffError, DiffFinding, State};

/// The position of the diff in the rows of one of the two compared states.
pub(super) struct Cursor<'a> {
    state: State,
    scan: LiveScan<'a>,
    batch: EntryBatch,
    next: usize,
    last: Option<u64>,
    findings: VecDeque<DiffFinding>,
    is_at_end: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(state: State, scan: LiveScan<'a>) -> Self {
        let findings = VecDeque::new();
        let batch = EntryBatch::default();
        Self { state, scan, batch, next: 0, last: None, findings, is_at_end: false }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Loads the next batch if all rows of the current one were taken. Checks the order of the
    /// current row (I1 of `xfs_scan::diff`).
    pub(super) fn load(&mut self) -> Result<(), DiffError> {
        while self.next == self.batch.rows().len() && !self.is_at_end {
            match self.scan.next_batch()? {
                Some(mut batch) => {
                    self.findings.extend(batch.findings.drain(..));
                    (self.batch, self.next) = (batch, 0);
                }
                None => self.is_at_end = true,
            }
        }
        if let (Some(row), Some(previous)) = (self.batch.rows().get(self.next), self.last)
            && row.ino <= previous
        {
            return Err(DiffError::Unordered { state: self.state, ino: row.ino, previous });
        }
        Ok(())
    }

    /// Returns the current row; `None` at the end.
    pub(super) fn entry(&self) -> Option<EntryView<'_>> {
        EntryView::new(&self.batch, self.next)
    }

    /// Goes to the next row.
    pub(super) fn step(&mut self) {
        self.last = self.entry().map(|entry| entry.row().ino);
        self.next += 1;
    }

    pub(super) fn take_findings(&mut self) -> VecDeque<DiffFinding> {
        std::mem::take(&mut self.findings)
    }
}
