//! Marking the log clean: an unmount record at the head, with no torn records ahead of it.
//!
//! Records that were torn by the crash may lie ahead of the head with the head's cycle. The search
//! for the head would take them for newer than an unmount record that is written before them. So
//! first every block that can be such a leftover becomes a block of the cycle before. Then the
//! unmount record is written at the head; it names itself as the tail.
//!
//! A crash between the two writes leaves a log that has the same head as before: the search stops
//! at the first block of the older cycle.

use xfs_buffer::{Error, IoError, Result};
use xfs_device::Durability;
use xfs_format::log_record::{
    BYTES_PER_HEADER, ByteOrder, LogRecordHeader, MAX_RECORD_BYTES, MAX_RECORDS_IN_FLIGHT,
    block_cycle, unmount_operation,
};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn, Uuid};

use crate::device::{LogDevice, LogGeometry};
use crate::state::{LogState, START, find_head_and_tail};

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
/// Number of blocks that one write overwrites when a log is formatted.
const FORMATTED_BLOCKS: u32 = 2048;

/// Marks a log clean, after all its changes were written to their home locations on disk.
pub(super) fn mark_clean(log: &LogDevice, state: &LogState) -> Result<()> {
    if state.is_blank {
        return begin(log);
    }
    prepare(log, state)?;
    write_unmount(log, state.head)
}

/// Writes the first unmount record of a blank log, as mkfs does.
pub(super) fn begin(log: &LogDevice) -> Result<()> {
    write_unmount(log, START)
}

fn write_unmount(log: &LogDevice, at: Lsn) -> Result<()> {
    let record = unmount_record(log.geometry(), at);
    // A record around the end of the log is written in two parts, the part at the end first (I6 of
    // `xfs_log::writer`).
    log.write_blocks(at.block(), &record.encode(log.length_blocks()), Durability::Durable)?;
    flush(log)
}

/// Appends one more unmount record, which carries `uuid`, to a clean log.
///
/// # Errors
///
/// Returns the error of reading or writing the log. The log stays clean.
///
/// # Panics
///
/// Panics if the log is not clean.
pub fn end_clean_log(log: LogDevice, uuid: Uuid) -> Result<()> {
    let state = find_head_and_tail(&log)?;
    assert!(state.clean, "end_clean_log on a dirty log would lose its changes");
    mark_clean(&log.with_uuid(uuid), &state)
}

/// Overwrites a whole log with an empty log that begins in cycle `cycle`. All changes in the old
/// log are lost. A repair calls this if the log cannot be replayed, or if metadata has LSNs beyond
/// the head of the log. Every LSN of the volume must be of an earlier cycle than `cycle`.
///
/// # Errors
///
/// Returns the error of writing the log.
///
/// # Panics
///
/// Panics if `cycle` is below 2: the rest of the log gets the cycle before `cycle`, which must not
/// be 0.
pub fn format_log(log: &LogDevice, cycle: u32) -> Result<()> {
    assert!(cycle >= 2, "the cycle before the first one is not 0");
    let mut at = 0;
    while at < log.length_blocks() {
        let count = (log.length_blocks() - at).min(FORMATTED_BLOCKS);
        let mut bytes = Vec::with_capacity(count as usize * BLOCK);
        for _ in 0..count {
            bytes.extend_from_slice(&(cycle - 1).to_be_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        log.write_blocks(at, &bytes, Durability::Cached)?;
        at += count;
    }
    write_unmount(log, Lsn::new(cycle, 0))
}

/// Prepares a log for writing from its head on: clears blocks of torn records after the head.
pub(super) fn prepare(log: &LogDevice, state: &LogState) -> Result<()> {
    clear_stale_blocks(log, state)?;
    flush(log)
}

fn flush(log: &LogDevice) -> Result<()> {
    log.flush().map_err(|source| {
        let length_bytes = u64::from(log.length_blocks()) * u64::from(BASIC_BLOCK_BYTES);
        Error::Io(IoError::new("flush", log.geometry().start, length_bytes, source))
    })
}

/// Returns whether a torn record has left blocks after the head. A clean log can have them too:
/// power may fail while the first record after an unmount is written.
pub(super) fn has_stale_blocks(log: &LogDevice, state: &LogState) -> Result<bool> {
    let cycles = cycles_ahead(log, state);
    let count = cycles.iter().map(|(blocks, _)| blocks).sum();
    let bytes = log.read_blocks(state.head.block(), count)?;
    let expected = cycles.iter().flat_map(|(blocks, cycle)| (0..*blocks).map(|_| *cycle));
    let mut found = bytes.chunks_exact(BLOCK).zip(expected);
    Ok(found.any(|(block, expected)| block_cycle(block) != expected))
}

/// Overwrites the blocks after the head that a torn write may have left, so that each block has the
/// older cycle that `cycles_ahead` returns for it.
#[doc(alias = "xlog_clear_stale_blocks")]
fn clear_stale_blocks(log: &LogDevice, state: &LogState) -> Result<()> {
    let mut bytes = Vec::new();
    for (blocks, cycle) in cycles_ahead(log, state) {
        for _ in 0..blocks {
            bytes.extend_from_slice(&cycle.to_be_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    log.write_blocks(state.head.block(), &bytes, Durability::Cached)
}

/// Returns the number of blocks after the head that a torn write may have left, and the cycle
/// number that these blocks should have. The first pair (number, cycle) is for the blocks up to the
/// end of the log, the second pair for the blocks from block 0 on.
fn cycles_ahead(log: &LogDevice, state: &LogState) -> [(u32, u32); 2] {
    let (head, cycle) = (state.head.block(), state.head.cycle());
    let in_flight = MAX_RECORDS_IN_FLIGHT * MAX_RECORD_BYTES / BASIC_BLOCK_BYTES;
    // A clean log needs only its last record, which names the head as the tail.
    let needed = if state.clean { state.last_record } else { state.tail.block() };
    let count = log.distance(head, needed).min(in_flight);
    let until_end = (log.length_blocks() - head).min(count);
    // Past the end of the log the head's own cycle is the older one.
    [(until_end, cycle.wrapping_sub(1)), (count - until_end, cycle)]
}

/// An unmount record of a log. Only the header is kept, because all other bytes of the record
/// follow from it.
pub(crate) struct UnmountRecord(LogRecordHeader);

impl UnmountRecord {
    pub(crate) const fn header(&self) -> &LogRecordHeader {
        &self.0
    }

    /// Returns the number of blocks that the record takes.
    pub(crate) fn blocks(&self) -> u32 {
        self.0.total_blocks()
    }

    /// Returns the bytes of the record for a log of this many blocks.
    fn encode(&self, log_blocks: u32) -> Vec<u8> {
        let Self(header) = self;
        let mut record = vec![0; header.total_blocks() as usize * BLOCK];
        let (operation, payload) = unmount_operation();
        let bytes = [&operation.encode()[..], &payload].concat();
        let start = header.header_blocks() as usize * BLOCK;
        let target = record.get_mut(start..start + bytes.len());
        target.expect("an unmount record has room for its operation").copy_from_slice(&bytes);
        header.encode(&mut record, log_blocks);
        record
    }
}

/// Creates the unmount record that goes to `head`.
pub(crate) fn unmount_record(log: &LogGeometry, head: Lsn) -> UnmountRecord {
    // A record takes whole stripe units and whole sectors.
    let unit = log.stripe_unit_bytes.max(log.sector_bytes);
    let unit = unit.clamp(2 * BASIC_BLOCK_BYTES, MAX_RECORD_BYTES);
    let size = unit.max(BYTES_PER_HEADER);
    let header_bytes = size.div_ceil(BYTES_PER_HEADER) * BASIC_BLOCK_BYTES;
    UnmountRecord(LogRecordHeader {
        cycle: head.cycle(),
        length: unit.checked_sub(header_bytes).expect("a record is longer than its headers"),
        lsn: head,
        tail: head,
        crc: 0,
        previous_block: u32::MAX,
        operations: 1,
        byte_order: if cfg!(target_endian = "big") {
            ByteOrder::BigEndian
        } else {
            ByteOrder::LittleEndian
        },
        uuid: log.uuid,
        size,
        version: log.version,
    })
}
