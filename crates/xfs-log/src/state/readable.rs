//! The part of a damaged log that can be replayed.
//!
//! Owns: the search for the newest whole record, and for the damage after the tail that it names.
//! Does **not** own: the decision to give up the rest, which a repair makes.
//!
//! The search for the head by cycles has failed here, so every block is looked at. A tail moves
//! only past changes that are in their places, so the tail of the newest whole record is the right
//! start. The replay must end at the first record that cannot be read: a later change of a block
//! that the lost record has changed too would be replayed onto an older state of the block.
//!
//! ```text
//!      tail                      damage                    newest whole record
//!  ────┼─ whole │ whole │ whole ─┼─ unreadable ─┼─ whole ──┼─ names the tail ─┼────
//!      └────── replayed ─────────┘              └─ only their cancellations ───┘
//! ```

use xfs_buffer::{Error, Result};
use xfs_format::Lsn;
use xfs_format::log_record::{LogRecordCheck, LogRecordHeader};

use super::{FoundRecord, LogState, is_unmount};
use crate::device::LogDevice;
use crate::head::{corrupt, find_first_header};

/// The number of times that each block of the log is read, on average, before the search gives up.
/// The records of a damaged log can overlap.
const READS_PER_BLOCK: u64 = 8;

/// The records of a damaged log from the tail to the first one that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadablePart {
    /// A state in which the head is the place of the first record that cannot be read, or the end
    /// of the newest record if all can be read.
    pub(crate) state: LogState,
    /// The LSN of the newest whole record.
    pub(crate) newest: Lsn,
}

/// Returns the part of a damaged log that can be replayed. Returns `None` if no record can be read,
/// if the record at the tail cannot be read, or if the newest record is an unmount record. Also
/// returns `None` if the search was given up because too many headers overlap.
///
/// # Errors
///
/// Returns [`Error::Io`] if the device fails.
pub(crate) fn find(log: &LogDevice) -> Result<Option<ReadablePart>> {
    let mut newest: Option<FoundRecord> = None;
    let is_whole = visit_records(log, 0, log.length_blocks(), |block, header| {
        if newest.is_none_or(|newest| header.lsn > newest.header.lsn) {
            newest = Some(FoundRecord { block, header: *header });
        }
    })?;
    // After a search that was given up, the record that it found need not be the newest one.
    let Some(newest) = newest.filter(|_| is_whole) else { return Ok(None) };
    if is_unmount(log, &newest, newest.end(log))? {
        return Ok(None);
    }
    let (tail, limit) = (newest.header.tail, newest.header.lsn);
    let mut last: Option<FoundRecord> = None;
    let mut at = tail.block();
    while last.is_none_or(|last| last.header.lsn < limit) {
        let header = match log.read_record(at) {
            Ok((header, _)) => header,
            Err(Error::Corrupt(_)) => break,
            Err(error) => return Err(error),
        };
        let follows = last.map_or(header.lsn == tail, |last| header.lsn > last.header.lsn);
        if !follows || header.lsn > limit {
            break;
        }
        last = Some(FoundRecord { block: at, header });
        at = log.advance(at, header.total_blocks());
    }
    // A head at the tail would be an empty part.
    let Some(last) = last.filter(|_| at != tail.block()) else { return Ok(None) };
    let state = LogState {
        head: last.head_after(at),
        tail,
        clean: false,
        last_record: last.block,
        buffer_bytes: last.header.size,
        torn: None,
        is_blank: false,
    };
    Ok(Some(ReadablePart { state, newest: limit }))
}

/// Returns the runs of whole records that start between `head` and the record at `newest`. No gap
/// lies within a run. Each run has the form of a log whose tail is its first record.
///
/// # Errors
///
/// Returns [`Error::Io`] if the device fails, and [`Error::Corrupt`] if the search was given up
/// because too many headers overlap: a record that was not found may cancel buffers.
pub(crate) fn runs_after(log: &LogDevice, head: Lsn, newest: Lsn) -> Result<Vec<LogState>> {
    let mut runs: Vec<LogState> = Vec::new();
    let count = log.distance(head.block(), newest.block()).saturating_add(1);
    let is_whole = visit_records(log, head.block(), count, |block, header| {
        if header.lsn < head {
            return;
        }
        let record = FoundRecord { block, header: *header };
        let end = record.head_after(record.end(log));
        match runs.last_mut() {
            Some(run) if run.head == header.lsn => (run.head, run.last_record) = (end, block),
            _ => runs.push(LogState {
                head: end,
                tail: header.lsn,
                clean: false,
                last_record: block,
                buffer_bytes: header.size,
                torn: None,
                is_blank: false,
            }),
        }
    })?;
    if !is_whole {
        return Err(corrupt(head.block(), LogRecordCheck::Overlap));
    }
    Ok(runs)
}

/// Calls `visit` with the block number and the header of each whole record that starts in the
/// `count` blocks from block `start` on. Gives up and returns `false` if too many blocks were read
/// (`READS_PER_BLOCK`).
///
/// # Errors
///
/// Returns [`Error::Io`] if the device fails.
fn visit_records(
    log: &LogDevice,
    start: u32,
    count: u32,
    mut visit: impl FnMut(u32, &LogRecordHeader),
) -> Result<bool> {
    let mut budget = u64::from(log.length_blocks()) * READS_PER_BLOCK;
    let (mut at, mut left) = (start, count);
    // Number of blocks that are searched next. It starts at 1 after each header and doubles: a log
    // full of damaged headers must not cost a long search for each of them.
    let mut window = 1;
    while left > 0 {
        let until = left.min(log.length_blocks() - at).min(window);
        let Some(block) = find_first_header(log, at, at + until)? else {
            (at, left) = (log.advance(at, until), left - until);
            window = window.saturating_mul(2);
            continue;
        };
        window = 1;
        let passed = match read_record(log, block, &mut budget) {
            Ok(Some(header)) => {
                visit(block, &header);
                header.total_blocks()
            }
            Ok(None) => return Ok(false),
            Err(Error::Corrupt(_)) => 1,
            Err(error) => return Err(error),
        };
        let passed = block - at + passed;
        (at, left) = (log.advance(at, passed), left.saturating_sub(passed));
    }
    Ok(true)
}

/// Reads and checks the record at `block`. Returns `None` if the record has more blocks than
/// `budget`, the number of blocks that may still be read.
fn read_record(log: &LogDevice, block: u32, budget: &mut u64) -> Result<Option<LogRecordHeader>> {
    let blocks = log.read_header(block)?.total_blocks();
    match budget.checked_sub(blocks.into()) {
        Some(left) => *budget = left,
        None => return Ok(None),
    }
    log.read_record(block).map(|(header, _)| Some(header))
}
