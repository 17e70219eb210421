//! Finding the head of the log: the block that would be written next.
//!
//! The search looks at the cycles of blocks, not at records. The search bisects first. Then it
//! scans the blocks before the result one by one: several records may have been in flight at a
//! crash and landed in any order, with holes. Finally, if the last record lacks blocks, the search
//! moves the head back to the start of this record.
//!
//! ```text
//!                block 0                                  last block
//!  cycle n       n n n n n n n n n n n n n │ n-1 n-1 n-1 n-1 n-1 n-1
//!  holes         n+1 n+1 n+1 n n n n n n n n n n n n │ n-1 n n n-1 n-1    records around the end
//!  first cycle   1 1 1 1 1 1 1 1 1 1 1 1 1 │ 0 0 0 0 0 0 0 0 0 0 0 0 0
//! ```
//!
//! A hole still has the previous cycle number, so the head is the first hole even if later records
//! lie around the end of the log. In the first cycle a hole is all zeros, and blocks of a damaged
//! log are often zero as well. So records of cycle 2 in a log that ends with zeros count as records
//! in flight only where they can have been in flight. ferroxfs leaves no such log (I6 of
//! [`writer`](crate::writer)), and the kernel refuses it.

use std::cmp::Ordering;

use xfs_buffer::{Error, Result};
use xfs_format::log_record::{
    LogRecordCheck, LogRecordHeader, MAX_RECORD_BYTES, MAX_RECORDS_IN_FLIGHT, block_cycle,
};
use xfs_format::{BASIC_BLOCK_BYTES, Corruption, Structure, StructureAddress};

use crate::device::LogDevice;

/// Number of blocks before the head that may have been in flight at a crash. Only among these can
/// there be holes: blocks that were not written although later blocks were.
const MAX_BLOCKS_IN_FLIGHT: u32 = MAX_RECORDS_IN_FLIGHT * MAX_RECORD_BLOCKS;

/// Length in blocks of the longest payload of a record.
const MAX_RECORD_BLOCKS: u32 = MAX_RECORD_BYTES / BASIC_BLOCK_BYTES;

/// Number of blocks that a scan reads at once.
const SCAN_BLOCKS: u32 = 512;

pub(crate) fn corrupt(block: u32, check: LogRecordCheck) -> Error {
    Corruption::new(Structure::LogRecord, StructureAddress::Log(block), check).into()
}

/// Returns the block number of the head.
#[doc(alias = "xlog_find_head")]
pub(crate) fn find(log: &LogDevice) -> Result<u32> {
    let length = log.length_blocks();
    let (first, last) = (log.read_cycle(0)?, log.read_cycle(length - 1)?);
    if first == 0 {
        return Err(corrupt(0, LogRecordCheck::Zeroed));
    }
    let head = match last {
        0 if first > 2 => return Err(corrupt(0, LogRecordCheck::Cycles { first, last })),
        0 => {
            // The first cycle has not reached the end of the log yet.
            let head = skip_holes(log, bisect(log, |cycle| cycle == 0)?, 0)?;
            if first == 2 && !is_in_flight(log, head, first)? {
                return Err(corrupt(0, LogRecordCheck::Cycles { first, last }));
            }
            return end_of_records(log, head, MAX_BLOCKS_IN_FLIGHT);
        }
        _ if first == last => skip_holes(log, length, last.wrapping_sub(1))?,
        _ => skip_holes(log, bisect(log, |cycle| cycle == last)?, last)?,
    };
    let head = end_of_records(log, head, MAX_RECORD_BLOCKS)?;
    Ok(if head == length { 0 } else { head })
}

/// Returns the first block whose cycle satisfies `is_past`. The caller knows that block 0 and some
/// blocks after it do not satisfy `is_past`, and that all later blocks do, the last one included.
fn bisect(log: &LogDevice, is_past: impl Fn(u32) -> bool) -> Result<u32> {
    let (mut before, mut past) = (0, log.length_blocks() - 1);
    while past - before > 1 {
        let middle = before + (past - before) / 2;
        if is_past(log.read_cycle(middle)?) {
            past = middle;
        } else {
            before = middle;
        }
    }
    Ok(past)
}

/// Checks a log that starts with blocks of cycle number `newer` and ends with zeros, although
/// blocks of the previous cycle should lie there. `head` is the first zero block.
///
/// Returns `true` if the block before `head` is of the previous cycle, and all blocks of cycle
/// `newer` may have been in flight together with the block at `head`. They may if the distance from
/// `head` to the last of them, counted around the end of the log, is at most the number of blocks
/// that can be in flight.
fn is_in_flight(log: &LogDevice, head: u32, newer: u32) -> Result<bool> {
    if log.read_cycle(head - 1)? == newer {
        return Ok(false);
    }
    let past = MAX_BLOCKS_IN_FLIGHT.saturating_sub(log.length_blocks() - head);
    Ok(past >= head || log.read_cycle(past)? != newer)
}

/// Returns the first hole among the blocks before the head that may have been in flight, or the
/// head if there is none. A hole is a block of cycle `stale`: blocks after it were written, but it
/// was not.
fn skip_holes(log: &LogDevice, head: u32, stale: u32) -> Result<u32> {
    let scan = MAX_BLOCKS_IN_FLIGHT.min(log.length_blocks());
    if head >= scan || stale == 0 {
        let start = head.saturating_sub(scan);
        return Ok(find_cycle(log, start, head, stale)?.unwrap_or(head));
    }
    // The blocks before the head reach around the end of the log. There the head's own cycle is the
    // older one, and a hole carries the cycle before.
    let start = log.length_blocks() - (scan - head);
    if let Some(hole) = find_cycle(log, start, log.length_blocks(), stale.wrapping_sub(1))? {
        return Ok(hole);
    }
    Ok(find_cycle(log, 0, head, stale)?.unwrap_or(head))
}

/// Returns the first block from `start` up to `end` that was written in cycle `cycle`, or `None` if
/// there is none.
#[doc(alias = "xlog_find_verify_cycle")]
fn find_cycle(log: &LogDevice, start: u32, end: u32, cycle: u32) -> Result<Option<u32>> {
    find_block(log, start, end, |bytes| block_cycle(bytes) == cycle)
}

/// Returns the first block from `start` up to `end` whose cycle is not 0, or `None` if there is
/// none. A tool that clears the log leaves zeros.
pub(crate) fn find_written(log: &LogDevice, start: u32, end: u32) -> Result<Option<u32>> {
    find_block(log, start, end, |bytes| block_cycle(bytes) != 0)
}

/// Memory into which a scan reads blocks, reused for each read. Opening a volume scans megabytes of
/// log. New memory for each read would first have to be cleared, and that would take most of the
/// time.
struct ScanMemory(Vec<u8>);

impl ScanMemory {
    /// Creates memory for a scan of `blocks` blocks.
    fn new(blocks: u32) -> Self {
        Self(vec![0; (SCAN_BLOCKS.min(blocks) * BASIC_BLOCK_BYTES) as usize])
    }

    /// Reads `count` blocks from `block` on. `count` must be at most `SCAN_BLOCKS`, and at most the
    /// number of blocks for which the memory was created.
    fn read(&mut self, log: &LogDevice, block: u32, count: u32) -> Result<&[u8]> {
        let bytes = self.0.get_mut(..(count * BASIC_BLOCK_BYTES) as usize);
        let bytes = bytes.expect("a scan has memory for the blocks that it reads at once");
        log.read_into(block, bytes)?;
        Ok(bytes)
    }
}

/// Returns the first block from `start` up to `end` whose bytes satisfy `is_one`, or `None` if
/// there is none.
fn find_block(
    log: &LogDevice,
    start: u32,
    end: u32,
    is_one: impl Fn(&[u8]) -> bool,
) -> Result<Option<u32>> {
    let mut memory = ScanMemory::new(end.saturating_sub(start));
    let mut at = start;
    while at < end {
        let bytes = memory.read(log, at, SCAN_BLOCKS.min(end - at))?;
        let mut blocks = (at..).zip(bytes.chunks_exact(BASIC_BLOCK_BYTES as usize));
        if let Some((block, _)) = blocks.find(|(_, bytes)| is_one(bytes)) {
            return Ok(Some(block));
        }
        at = at.saturating_add(SCAN_BLOCKS);
    }
    Ok(None)
}

/// Returns the last block from `start` up to `end` in which a record starts, or `None` if there is
/// none.
pub(crate) fn find_last_header(log: &LogDevice, start: u32, end: u32) -> Result<Option<u32>> {
    let mut memory = ScanMemory::new(end.saturating_sub(start));
    let mut end = end;
    while end > start {
        let at = end.saturating_sub(SCAN_BLOCKS).max(start);
        let bytes = memory.read(log, at, end - at)?;
        let mut blocks = (at..end).zip(bytes.chunks_exact(BASIC_BLOCK_BYTES as usize)).rev();
        if let Some((block, _)) = blocks.find(|(_, bytes)| LogRecordHeader::is_here(bytes)) {
            return Ok(Some(block));
        }
        end = at;
    }
    Ok(None)
}

/// Returns the first block from `start` up to `end` in which a record starts, or `None` if there is
/// none.
pub(crate) fn find_first_header(log: &LogDevice, start: u32, end: u32) -> Result<Option<u32>> {
    find_block(log, start, end, LogRecordHeader::is_here)
}

/// Returns `head` if the last record that starts before `head` ends at `head`. If that record lacks
/// its last blocks, returns the block at which it starts. Looks for the record in the `scan` blocks
/// before `head`.
#[doc(alias = "xlog_find_verify_log_record")]
fn end_of_records(log: &LogDevice, head: u32, scan: u32) -> Result<u32> {
    let start = head.saturating_sub(scan);
    if let Some(block) = find_last_header(log, start, head)? {
        return record_end(log, block, head, head - block);
    }
    if start > 0 {
        return Err(corrupt(head, LogRecordCheck::NoRecord { blocks: scan }));
    }
    // The record that ends at the head starts before the end of the log.
    let length = log.length_blocks();
    let start = length.saturating_sub(scan - head).max(head);
    match find_last_header(log, start, length)? {
        Some(block) => record_end(log, block, head, length - block + head),
        None => Err(corrupt(head, LogRecordCheck::NoRecord { blocks: scan })),
    }
}

/// Returns the head if the record at `block` fills the `present` blocks between `block` and the
/// head. A longer record did not get all its blocks, so its start is the head. A shorter record is
/// followed by blocks that belong to no record. If these blocks have the log's cycle, they are
/// damage, because no crash leaves such blocks. If a tool has cleared them to zeros, the start of
/// the shorter record is the head.
fn record_end(log: &LogDevice, block: u32, head: u32, present: u32) -> Result<u32> {
    let header = log.read_header(block)?;
    let recorded = header.total_blocks();
    match recorded.cmp(&present) {
        Ordering::Equal => Ok(head),
        Ordering::Greater => Ok(block),
        Ordering::Less => {
            let after = log.advance(block, recorded);
            let cycle = header.cycle.wrapping_add(u32::from(after < block));
            if log.read_cycle(after)? != cycle {
                return Ok(block);
            }
            Err(corrupt(block, LogRecordCheck::TooShort { recorded, present }))
        }
    }
}

#[cfg(test)]
mod tests;
