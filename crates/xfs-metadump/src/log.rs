//! Writes the log.
//!
//! A clean log holds names of the past, which nobody needs. Only its shape is kept: the cycle
//! number of each block, from which readers find the head, and the last record, which says that the
//! volume was unmounted. The head stays where it is, so no block is newer than the log. A dirty log
//! is copied as it is.

use std::ops::Range;

use xfs_device::SharedDevice;
use xfs_format::log_record::{LogRecordHeader, block_cycle, unmount_operation};
use xfs_format::{BASIC_BLOCK_BYTES, Superblock};
use xfs_log::{LogDevice, LogState, find_head_and_tail};

use crate::dump::{Dump, DumpError};

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
/// Number of blocks that are read at once.
const CHUNK_BLOCKS: u32 = 2048;

/// The log of the volume, and the way in which it is copied.
pub(crate) struct LogCopy {
    log: Option<LogDevice>,
    /// The state and the last record of a clean log; `None` if the log is copied as it is.
    clean: Option<CleanLog>,
}

struct CleanLog {
    state: LogState,
    /// The unmount record, or no bytes if the log was never written.
    record: Vec<u8>,
}

impl LogCopy {
    /// Finds the state of the log. A log that cannot be read counts as dirty.
    pub(crate) fn open(device: &SharedDevice, superblock: &Superblock) -> Self {
        let log = LogDevice::new(device.clone(), superblock).ok();
        let clean = log.as_ref().and_then(CleanLog::find);
        Self { log, clean }
    }

    /// Returns whether the log holds changes that wait for replay, as far as it can be read.
    pub(crate) const fn is_dirty(&self) -> bool {
        self.clean.is_none()
    }

    /// Writes the log.
    pub(crate) fn dump(&self, dump: &mut Dump<'_>) -> Result<(), DumpError> {
        let Some(log) = &self.log else {
            dump.note(crate::dump::Spot::default(), "the log does not lie inside the volume");
            return Ok(());
        };
        let start = log.geometry().start.byte_offset().expect("a log lies inside its device");
        let bytes = u64::from(log.length_blocks()) * u64::from(BASIC_BLOCK_BYTES);
        match &self.clean {
            Some(clean) if !dump.options.whole_blocks => clean.dump(dump, log, start),
            _ => dump.copy(start..start + bytes, None),
        }
    }
}

impl CleanLog {
    fn find(log: &LogDevice) -> Option<Self> {
        let state = find_head_and_tail(log).ok().filter(|state| state.clean)?;
        if state.is_blank {
            return Some(Self { state, record: Vec::new() });
        }
        let (header, _) = log.read_record(state.last_record).ok()?;
        Some(Self { state, record: unmount_record(&header, log.length_blocks())? })
    }

    fn dump(&self, dump: &mut Dump<'_>, log: &LogDevice, start: u64) -> Result<(), DumpError> {
        let blocks = log.length_blocks();
        let mut at = 0;
        while at < blocks {
            let count = CHUNK_BLOCKS.min(blocks - at);
            let first = start + u64::from(at) * u64::from(BASIC_BLOCK_BYTES);
            let range = first..first + u64::from(count) * u64::from(BASIC_BLOCK_BYTES);
            let spot = crate::dump::Spot { byte: Some(first), inode: None };
            if let Some(mut bytes) = dump.read(range, spot)? {
                for (number, block) in (at..).zip(bytes.chunks_mut(BLOCK)) {
                    self.clean_block(block, log.distance(self.state.last_record, number));
                }
                dump.add(first, &bytes)?;
            }
            at += count;
        }
        Ok(())
    }

    /// Cleans the block that lies `distance` blocks after the start of the last record.
    fn clean_block(&self, block: &mut [u8], distance: u32) {
        let cycle = block_cycle(block);
        block.fill(0);
        let offset = usize::try_from(distance).ok().and_then(|at| at.checked_mul(BLOCK));
        let range: Option<Range<usize>> = offset.map(|at| at..at.saturating_add(BLOCK));
        if let Some(kept) = range.and_then(|range| self.record.get(range)) {
            block.copy_from_slice(kept);
        } else if let Some(word) = block.first_chunk_mut() {
            *word = cycle.to_be_bytes();
        }
    }
}

/// Returns an unmount record with this header. Bytes after its operation are zeros, where the
/// writer's buffer may have held others.
fn unmount_record(header: &LogRecordHeader, log_blocks: u32) -> Option<Vec<u8>> {
    let mut record = vec![0; usize::try_from(header.total_blocks()).ok()? * BLOCK];
    let (operation, payload) = unmount_operation();
    let bytes = [&operation.encode()[..], &payload].concat();
    let start = usize::try_from(header.header_blocks()).ok()? * BLOCK;
    record.get_mut(start..)?.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    header.encode(&mut record, log_blocks);
    Some(record)
}
