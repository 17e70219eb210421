//! Reading of old records of the log.
//!
//! Owns: reading every whole record that is still in the log, whatever its cycle; finding the run
//! of records that ends at the head. Does **not** own: the items of the records, or the replay of
//! the log.
//!
//! A log is a ring. After an unmount, the volume no longer needs the records of the log, but they
//! stay until later records overwrite them. They hold the inodes and blocks that were changed last.

use std::ops::ControlFlow;

use xfs_format::Lsn;
use xfs_format::log_record::LogRecordHeader;
use xfs_log::{LogDevice, LogEntry, LogReader, LogState};

/// The number of times that each block of the log may be read, on average, before the search for
/// records stops. The records of a damaged log can overlap.
const READS_PER_BLOCK: u64 = 8;

/// The run of whole records that ends at the head of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnbrokenRun {
    /// The LSN of the first record.
    pub(crate) start: Lsn,
    /// The head of the log.
    pub(crate) head: Lsn,
}

/// Passes to `take` the records and transactions of all runs of records, the oldest run first. A
/// run is a sequence of whole records without a gap. Returns the run that ends at the head. Returns
/// `None` if head and tail are unknown, if the newest record is damaged, if too many blocks were
/// read (`READS_PER_BLOCK`), or if `take` ended the reading.
pub(crate) fn read_runs(
    log: &LogDevice,
    mut take: impl FnMut(&LogEntry) -> ControlFlow<()>,
) -> Option<UnbrokenRun> {
    let head = xfs_log::find_head_and_tail(log).ok().map(|state| state.head);
    // Without a head the records are read in the order of their places.
    let first = head.map_or(0, Lsn::block);
    let (mut passed, mut unbroken) = (0, None);
    // Headers in every block of a hostile log could each announce a record of 256 KiB.
    let mut budget = u64::from(log.length_blocks()) * READS_PER_BLOCK;
    while passed < log.length_blocks() {
        let block = log.advance(first, passed);
        let Ok(header) = log.read_header(block) else {
            passed += 1;
            continue;
        };
        budget = budget.checked_sub(header.total_blocks().into())?;
        let run = run_of(log, &header, first);
        let mut reader = LogReader::new(log, &run);
        let mut length = 0_u32;
        // The first error ends the run of records. The search continues after it.
        let is_whole = loop {
            let entry = match reader.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => break true,
                Err(_) => break false,
            };
            if let LogEntry::Record(header) = &entry {
                length = length.saturating_add(header.total_blocks());
            }
            if take(&entry).is_break() {
                return None;
            }
        };
        passed = passed.saturating_add(length.max(1));
        unbroken = (is_whole && passed == log.length_blocks()).then_some(header.lsn);
    }
    Some(UnbrokenRun { start: unbroken?, head: head? })
}

/// Returns a state of the log for reading one run of records: from the record with this header up
/// to block `end`. It is not the real state of the log.
fn run_of(log: &LogDevice, header: &LogRecordHeader, end: u32) -> LogState {
    // A run that begins at `end` would be empty, so it ends at the end of the log.
    let end = if header.lsn.block() == end { log.length_blocks() } else { end };
    LogState {
        head: Lsn::new(header.lsn.cycle(), end),
        tail: header.lsn,
        clean: false,
        last_record: header.lsn.block(),
        buffer_bytes: header.size,
        torn: None,
        is_blank: false,
    }
}
