//! Whole records after the head of a log.
//!
//! Owns: the search for them, and the proof that they make the log a damaged one. The record at the
//! head cannot be read. After a crash whole records may follow it, because several records are in
//! flight and land in any order. A later record is a proof of damage if its writer wrote it only
//! after the record at the head was durable.
//!
//! | proof | reason |
//! |---|---|
//! | a later record has a tail past the head | a tail moves only past durable records |
//! | a later record completes a checkpoint, and ferroxfs wrote it | I1 of `xfs_log::writer` |
//! | a later record is [`MAX_RECORDS_IN_FLIGHT`] records past one that completes one | below |
//!
//! The number of a checkpoint tells its writer. ferroxfs counts upwards, the kernel draws a random
//! number of 32 bits for each.
//!
//! The kernel writes the record that completes a checkpoint only after the other records of that
//! checkpoint are durable, and completes checkpoints in their order. So the checkpoint of the
//! record at the head is completed in a record up to the first later one that completes any. A
//! buffer is used again only after its record was written: [`MAX_RECORDS_IN_FLIGHT`] records
//! further, that record was durable, and so was the record at the head. Older kernels write all
//! records durably. A distance alone proves nothing: all records of one large checkpoint but the
//! last may be lost in any order.

use xfs_buffer::{Error, Result};
use xfs_format::log_record::{
    LogRecordCheck, LogRecordHeader, MAX_RECORD_BYTES, MAX_RECORDS_IN_FLIGHT,
};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn};

use super::LogState;
use crate::device::LogDevice;
use crate::head::{corrupt, find_first_header};
use crate::reader::commits_of;

/// Number of blocks after the head that are always searched: as many as can be in flight. The rest
/// is searched if one of [`SAMPLES`] blocks is newer than the head, so that opening stays cheap.
const NEAR_BLOCKS: u32 = MAX_RECORDS_IN_FLIGHT * MAX_RECORD_BYTES / BASIC_BLOCK_BYTES;

/// Number of blocks from the head to the end of the log whose cycles are read.
const SAMPLES: u32 = 64;

/// The largest difference between the numbers of two checkpoints that ferroxfs has written one soon
/// after the other. The records between them may be lost.
const MAX_NUMBER_STEP: u32 = 16;

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
    let mut search = Search::default();
    while left > 0 {
        let count = left.min(length - at);
        let Some(block) = find_first_header(log, at, at + count)? else {
            (at, left) = (log.advance(at, count), left - count);
            continue;
        };
        let mut passed = block - at + 1;
        if let Some(header) = newer_record(log, block, head)? {
            search.add(log, state, &header)?;
            passed = block - at + header.total_blocks();
        }
        (at, left) = (log.advance(at, passed), left.saturating_sub(passed));
    }
    Ok(search.found)
}

/// Returns the number of blocks after the head in which newer records are searched. The replayed
/// records are not among them, nor the last record of a clean log.
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

/// Returns the header of the record at `block` if the record is whole and has an LSN from the head
/// on.
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

/// A whole record after the head that completes a checkpoint.
#[derive(Clone, Copy)]
struct FirstCommit {
    block: u32,
    /// Number of whole records that have been found after it.
    followers: u32,
}

/// The records found so far, and the facts for a proof that the record at the head was durable.
#[derive(Default)]
struct Search {
    found: Option<RecordsAfterHead>,
    /// The number of the newest checkpoint that a record so far completes.
    last_number: Option<u32>,
    first_commit: Option<FirstCommit>,
}

impl Search {
    /// Adds a whole record after the head. Records are added in the order of their LSNs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if the records prove that the record at the head was durable.
    fn add(&mut self, log: &LogDevice, state: &LogState, later: &LogRecordHeader) -> Result<()> {
        if self.found.is_none() {
            self.last_number = commits_of(log, state.last_record)?.last().copied();
        }
        let block = later.lsn.block();
        let commits = commits_of(log, block)?;
        let is_proof = later.tail > state.head
            || self.is_of_ferroxfs(&commits)
            || self.is_past_all_in_flight(log, later);
        if is_proof {
            let check = LogRecordCheck::Lost { later: later.lsn };
            return Err(corrupt(state.head.block(), check));
        }
        self.last_number = commits.last().copied().or(self.last_number);
        if self.first_commit.is_none() && !commits.is_empty() {
            self.first_commit = Some(FirstCommit { block, followers: 0 });
        }
        let count = self.found.map_or(0, |found| found.count) + 1;
        let end = log.advance(block, later.total_blocks());
        self.found = Some(RecordsAfterHead { count, end });
        Ok(())
    }

    /// Returns whether a record that completes the checkpoints of these numbers continues the
    /// numbers of the records before it.
    fn is_of_ferroxfs(&self, commits: &[u32]) -> bool {
        let mut last = self.last_number;
        commits.iter().any(|number| {
            let step = last.map(|last| number.wrapping_sub(last));
            last = Some(*number);
            step.is_some_and(|step| (1..=MAX_NUMBER_STEP).contains(&step))
        })
    }

    /// Counts a record, and returns whether the first record that completes a checkpoint was
    /// written before this record was begun.
    fn is_past_all_in_flight(&mut self, log: &LogDevice, later: &LogRecordHeader) -> bool {
        let Some(first) = &mut self.first_commit else { return false };
        first.followers += 1;
        let buffer_bytes = if later.size == 0 { MAX_RECORD_BYTES } else { later.size };
        let in_flight = MAX_RECORDS_IN_FLIGHT * buffer_bytes / BASIC_BLOCK_BYTES;
        let distance = log.distance(first.block, later.lsn.block());
        first.followers >= MAX_RECORDS_IN_FLIGHT || distance > in_flight
    }
}
