//! The state of a log: its head, its tail, and whether changes that must be replayed lie between
//! them.
//!
//! Owns: the search for the last good record and the tail that it names, and the decision between
//! clean and dirty. Does **not** own the search for the head by cycles ([`head`]), or replay.
//! Nothing is written: blocks that recovery would have to overwrite stay as they are.
//!
//! A log that is [blank](LogState::is_blank) is clean.
//!
//! # The search
//!
//! ```text
//!  head by cycles ─→ last record before it ─→ is it the unmount record? ─yes─→ clean, tail = head
//!                                              │no
//!                    checksums of the last records before the head
//!                                              │ the first torn one becomes the head, and the
//!                                              │ record before it names the tail
//!                    checksums from tail to head
//!                                              │ a torn one soon after the head was overwritten by
//!                                              ↓ the torn write: the tail moves past it
//!                                            dirty
//! ```
//!
//! # Torn, or damaged
//!
//! The search moves head or tail past a record only where a crash can have left the record that
//! way. A crash leaves each sector as it was or as the writer meant it. So no crash makes a header
//! that has the log's cycle and is wrong. Such a record is damage, and the log is refused: the
//! records after it may have been acknowledged.
//!
//! | record | in the first pass, before the head | in the second pass, from the tail on |
//! |---|---|---|
//! | checksum fails | torn | torn |
//! | no header where the previous record ends | damage | torn: new blocks lie over the header |
//! | header with impossible version, length or size | damage | damage |
//! | no checksum on version 5, not an unmount record | damage | damage |
//! | checksum holds; wrong LSN, tail or UUID | damage | damage |
//!
//! Whole records may follow a torn record. They are damage if they [prove](beyond) that the record
//! at the head was durable once.
//!
//! The kernel refuses fewer of these records. It replays records with a wrong LSN or tail, and cuts
//! the log off at a record with a wrong length.

mod beyond;
mod blank;
pub(crate) mod readable;

use xfs_buffer::{Error, Result};
use xfs_format::log_record::{
    LogOperation, LogRecordCheck, LogRecordHeader, MAX_RECORDS_IN_FLIGHT, OperationFlags,
};
use xfs_format::{BASIC_BLOCK_BYTES, Check, Corruption, Lsn, StructureAddress};

use crate::device::LogDevice;
use crate::head::{self, corrupt, find_first_header, find_last_header};
pub(crate) use blank::START;

/// The head and the tail of a log, and whether it must be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The LSN of the next record: no change on the volume can have been logged at or after it.
    pub head: Lsn,
    /// The LSN at which replay starts. In a clean log this is the head itself.
    pub tail: Lsn,
    /// Whether the volume was unmounted and no change waits to be replayed.
    pub clean: bool,
    /// The block number of the last good record.
    pub last_record: u32,
    /// The size in bytes of the in-core log buffers of the writer that wrote the record at the
    /// tail.
    pub buffer_bytes: u32,
    /// The block number at which the torn records after the head end. If no record there is torn,
    /// the block number at which the whole records after the head end. `None` if no record lies
    /// after the head.
    pub torn: Option<u32>,
    /// Whether the log was never written: it is all zeros, except perhaps for a torn first record.
    /// The first writer of such a log begins the log as mkfs does, with an unmount record. `head`
    /// lies after that record.
    pub is_blank: bool,
}

impl LogState {
    /// Returns the cycle in which the next record is written.
    #[must_use]
    pub const fn cycle(&self) -> u32 {
        self.head.cycle()
    }
}

/// A record's block number and header.
#[derive(Clone, Copy)]
struct FoundRecord {
    block: u32,
    header: LogRecordHeader,
}

impl FoundRecord {
    fn end(&self, log: &LogDevice) -> u32 {
        log.advance(self.block, self.header.total_blocks())
    }

    /// Returns the LSN of the block `head`. This record must be the last record before `head`. The
    /// cycle of the result is one higher than the record's cycle if the log wraps between the
    /// record and `head`.
    fn head_after(&self, head: u32) -> Lsn {
        Lsn::new(self.header.cycle.wrapping_add(u32::from(head <= self.block)), head)
    }
}

/// Finds the head and the tail of a log, and whether the log is clean.
///
/// # Errors
///
/// Returns [`Error::Corrupt`] for a damaged log, whose head and tail cannot be trusted, and
/// `Error::Io` if the device fails.
#[doc(alias = "xlog_find_tail")]
pub fn find_head_and_tail(log: &LogDevice) -> Result<LogState> {
    if let Some(state) = blank::find(log)? {
        return Ok(state);
    }
    let mut state = find_by_cycles(log)?;
    let beyond = beyond::find(log, &state)?;
    state.torn = state.torn.or(beyond.map(|records| records.end));
    Ok(state)
}

/// Returns the number of whole records after the head. Recovery does not replay these records.
/// After a power failure, they are records that were in flight together with a torn or missing
/// record. A damaged log can look the same. In that case the records may hold changes that were
/// synced.
///
/// # Errors
///
/// Returns [`Error::Corrupt`] if the records prove that the log is damaged, and [`Error::Io`] if
/// the device fails.
pub fn count_records_after_head(log: &LogDevice, state: &LogState) -> Result<u32> {
    if state.is_blank {
        return Ok(0);
    }
    Ok(beyond::find(log, state)?.map_or(0, |records| records.count))
}

/// Finds head and tail without looking for records after the head.
fn find_by_cycles(log: &LogDevice) -> Result<LogState> {
    let end = head::find(log)?;
    let block = find_header_before(log, end)?
        .ok_or_else(|| corrupt(end, LogRecordCheck::NoRecord { blocks: log.length_blocks() }))?;
    let last = FoundRecord { block, header: log.read_header(block)? };
    if is_unmount(log, &last, end)? {
        return Ok(clean_state(&last, end, None));
    }
    let (last, head) = verify_head(log, last, end)?;
    let torn = (head != end).then_some(end);
    if torn.is_some() && is_unmount(log, &last, head)? {
        return Ok(clean_state(&last, head, torn));
    }
    let head = last.head_after(head);
    let oldest = verify_tail(log, &last, head.block())?;
    let (tail, buffer_bytes) = (oldest.lsn, oldest.size);
    let last_record = last.block;
    let state =
        LogState { head, tail, clean: false, last_record, buffer_bytes, torn, is_blank: false };
    // Equal blocks mean that nothing is left, which only an unmount record could say.
    if tail >= head || tail.block() == head.block() {
        return Err(corrupt(head.block(), LogRecordCheck::Order { head, tail }));
    }
    if tail.cycle() != head.cycle() && tail.block() < head.block() {
        return Err(corrupt(head.block(), LogRecordCheck::Order { head, tail }));
    }
    Ok(state)
}

fn clean_state(last: &FoundRecord, head: u32, torn: Option<u32>) -> LogState {
    let head = last.head_after(head);
    let (last_record, buffer_bytes) = (last.block, last.header.size);
    LogState { head, tail: head, clean: true, last_record, buffer_bytes, torn, is_blank: false }
}

/// Returns the block number of the last record that starts before `block`, or `None` if there is
/// none. Going backwards, the last block of the log follows block 0.
fn find_header_before(log: &LogDevice, block: u32) -> Result<Option<u32>> {
    match find_last_header(log, 0, block)? {
        Some(found) => Ok(Some(found)),
        None => find_last_header(log, block, log.length_blocks()),
    }
}

/// Returns whether the record is an unmount record that ends at the head.
#[doc(alias = "xlog_check_unmount_rec")]
fn is_unmount(log: &LogDevice, record: &FoundRecord, head: u32) -> Result<bool> {
    if record.header.operations != 1 || record.end(log) != head {
        return Ok(false);
    }
    let payload = log.advance(record.block, record.header.header_blocks());
    let operation =
        LogOperation::decode(&log.read_blocks(payload, 1)?, StructureAddress::Log(payload));
    Ok(operation.is_ok_and(|operation| operation.flags.contains(OperationFlags::UNMOUNT)))
}

/// Checks the records that may have been in flight when the log was last written. Returns the last
/// good record, and the block number of the head after it.
#[doc(alias = "xlog_verify_head")]
fn verify_head(log: &LogDevice, last: FoundRecord, head: u32) -> Result<(FoundRecord, u32)> {
    let tail = last.header.tail.block();
    let before = |block: u32| -> Result<Option<u32>> {
        let found = find_header_before(log, block)?;
        Ok(found.filter(|found| log.distance(tail, *found) < log.distance(tail, block)))
    };
    let mut start = last.block;
    for _ in 1..MAX_RECORDS_IN_FLIGHT {
        match before(start)? {
            Some(block) => start = block,
            None => break,
        }
    }
    let Some(bad) = find_torn_record(log, start, head, Tear::Writing)? else {
        return Ok((last, head));
    };
    // If no record from the tail on is good, the record before the tail names an older tail.
    let good = if bad.block == tail { find_header_before(log, tail)? } else { before(bad.block)? };
    let Some(block) = good else { return Err(bad.error) };
    let good = FoundRecord { block, header: log.read_header(block)? };
    if good.header.tail.block() == bad.block {
        return Err(bad.error);
    }
    Ok((good, bad.block))
}

/// Checks the records from the tail to the head. Returns the header of the record at the tail. If a
/// torn write at the head has destroyed the first records, the tail is the record after them.
#[doc(alias = "xlog_verify_tail")]
fn verify_tail(log: &LogDevice, last: &FoundRecord, head: u32) -> Result<LogRecordHeader> {
    // A torn write can reach no further than the buffers that were in flight.
    let reach = MAX_RECORDS_IN_FLIGHT * last.header.size / BASIC_BLOCK_BYTES;
    let named = last.header.tail;
    let mut tail = next_record(log, named.block(), head)?
        .ok_or_else(|| corrupt(named.block(), LogRecordCheck::NoRecord { blocks: 0 }))?;
    // No record starts at the tail that the last record names: only a torn write over it explains
    // that.
    if tail != named.block() && log.distance(head, named.block()) > reach {
        let blocks = log.distance(named.block(), tail);
        return Err(corrupt(named.block(), LogRecordCheck::NoTailRecord { blocks }));
    }
    while let Some(bad) = find_torn_record(log, tail, head, Tear::Overwriting)? {
        if log.distance(head, bad.block) > reach {
            return Err(bad.error);
        }
        let after = log.advance(bad.block, 1);
        match next_record(log, after, head)? {
            Some(next) => tail = next,
            None => return Err(bad.error),
        }
    }
    log.read_header(tail)
}

/// Returns the first block from `block` up to `head` in which a record starts, or `None` if there
/// is none. Block 0 follows the last block.
fn next_record(log: &LogDevice, block: u32, head: u32) -> Result<Option<u32>> {
    if block <= head {
        return find_first_header(log, block, head);
    }
    match find_first_header(log, block, log.length_blocks())? {
        Some(found) => Ok(Some(found)),
        None => find_first_header(log, 0, head),
    }
}

/// The block number of a torn record, and the check that it failed.
struct BadRecord {
    block: u32,
    error: Error,
}

/// The ways in which a torn write may have damaged a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tear {
    /// The power failed while the record itself was being written.
    Writing,
    /// When the power failed, new records were being written over this old record.
    Overwriting,
}

impl Tear {
    /// Returns whether a tear of this kind can be the cause of `corruption`.
    fn explains(self, corruption: &Corruption) -> bool {
        match corruption.check() {
            Check::Checksum { .. } => true,
            Check::Magic { .. } => self == Self::Overwriting,
            _ => false,
        }
    }
}

/// Checks the records from block `start` to the head. Returns the first torn record, or `None` if
/// all records are good. The check of a record begins where the previous record ends, so the walk
/// reads every block at most once. Returns an error for a damaged record that is not torn.
fn find_torn_record(
    log: &LogDevice,
    start: u32,
    head: u32,
    tear: Tear,
) -> Result<Option<BadRecord>> {
    let mut block = start;
    let mut left = log.distance(start, head);
    while left > 0 {
        match log.read_record(block) {
            Ok((header, _)) => {
                block = log.advance(block, header.total_blocks());
                left = left.saturating_sub(header.total_blocks());
            }
            Err(Error::Corrupt(corruption)) if tear.explains(&corruption) => {
                return Ok(Some(BadRecord { block, error: corruption.into() }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
