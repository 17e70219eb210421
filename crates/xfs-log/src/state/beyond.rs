//! Whole records after the head of a log.
//!
//! Owns: the search for these records, and the proof that the log is damaged. The record at the
//! head cannot be read. After a crash whole records may follow it, because several records are in
//! flight and land in any order. A later record is a proof of damage if its writer wrote it only
//! after the record at the head was durable.
//!
//! A tail moves only past durable records. So a later record whose tail lies past the head proves
//! that the record there was durable once.
//!
//! Nothing else is a proof. Neither the number of later records nor a completed checkpoint in them
//! says what was durable: the model of the log finds such states after a power failure.

use xfs_buffer::{Error, Result};
use xfs_format::log_record::{
    LogRecordCheck, LogRecordHeader, MAX_RECORD_BYTES, MAX_RECORDS_IN_FLIGHT,
};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn};

use super::LogState;
use crate::device::LogDevice;
use crate::head::{corrupt, find_first_header};

/// Number of blocks after the head that are always searched: as many as can be in flight. The rest
/// is searched if one of [`SAMPLES`] blocks is newer than the head, so that opening stays cheap.
const NEAR_BLOCKS: u32 = MAX_RECORDS_IN_FLIGHT * MAX_RECORD_BYTES / BASIC_BLOCK_BYTES;

/// Number of blocks between the head and the end of the log whose cycle numbers are read as
/// samples.
const SAMPLES: u32 = 64;

/// The whole records after the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordsAfterHead {
    pub(super) count: u32,
    /// The block number at which the last of the records ends.
    pub(super) end: u32,
}

/// Returns the whole records after the head, which no replay reaches, or `None` if there are none.
///
/// # Errors
///
/// Returns [`Error::Corrupt`] if the records prove that the log is damaged, and [`Error::Io`] if
/// the device fails.
pub(super) fn find(log: &LogDevice, state: &LogState) -> Result<Option<RecordsAfterHead>> {
    let found = search(log, state);
    if matches!(found, Ok(None) | Err(Error::Io { .. })) {
        return found;
    }
    // A damaged or torn record lies at the head. If a whole one lies there, the log was written
    // while it was read, or xfsprogs has cleared it.
    if newer_record(log, state.head.block(), state.head)?.is_some() { Ok(None) } else { found }
}

fn search(log: &LogDevice, state: &LogState) -> Result<Option<RecordsAfterHead>> {
    let (head, length) = (state.head, log.length_blocks());
    let mut at = head.block();
    let mut left = blocks_to_search(log, state)?;
    let mut found = RecordsAfterHead { count: 0, end: head.block() };
    while left > 0 {
        let count = left.min(length - at);
        let Some(block) = find_first_header(log, at, at + count)? else {
            (at, left) = (log.advance(at, count), left - count);
            continue;
        };
        let mut passed = block - at + 1;
        if let Some(header) = newer_record(log, block, head)? {
            found.add(log, head, &header)?;
            passed = block - at + header.total_blocks();
        }
        (at, left) = (log.advance(at, passed), left.saturating_sub(passed));
    }
    Ok((found.count > 0).then_some(found))
}

/// Returns the number of blocks after the head in which to look for newer records. These blocks
/// include neither the records that are replayed nor the last record of a clean log.
fn blocks_to_search(log: &LogDevice, state: &LogState) -> Result<u32> {
    let (head, cycle) = (state.head.block(), state.head.cycle());
    let end = if state.clean { state.last_record } else { state.tail.block() };
    let all = log.distance(head, end);
    let step = ((log.length_blocks() - head) / SAMPLES).max(1);
    let mut samples = (head..log.length_blocks()).step_by(step as usize).skip(1);
    let is_newer = |block: u32| log.read_cycle(block).map(|found| found == cycle);
    // Newer records that wrap around the end of the log have the next cycle.
    let mut has_newer = log.read_cycle(0)? == cycle.wrapping_add(1);
    while let (false, Some(block)) = (has_newer, samples.next()) {
        has_newer = is_newer(block)?;
    }
    if has_newer {
        return Ok(all);
    }
    let torn = state.torn.map_or(0, |torn| log.distance(head, torn));
    Ok(all.min(torn.max(NEAR_BLOCKS)))
}

/// Returns the header of the record at `block`. `None` if the block holds no whole record, or one
/// whose LSN lies before the head.
fn newer_record(log: &LogDevice, block: u32, head: Lsn) -> Result<Option<LogRecordHeader>> {
    match log.read_header(block) {
        Ok(header) if header.lsn >= head => {}
        Ok(_) | Err(Error::Corrupt(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    match log.read_record(block) {
        Ok((header, _)) => Ok(Some(header)),
        Err(Error::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl RecordsAfterHead {
    /// Adds `later`, the header of a whole record after the head. Records are added in the order of
    /// their LSNs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if the record proves that the record at the head was durable.
    fn add(&mut self, log: &LogDevice, head: Lsn, later: &LogRecordHeader) -> Result<()> {
        if later.tail > head {
            return Err(corrupt(head.block(), LogRecordCheck::Lost { later: later.lsn }));
        }
        self.count += 1;
        self.end = log.advance(later.lsn.block(), later.total_blocks());
        Ok(())
    }
}
