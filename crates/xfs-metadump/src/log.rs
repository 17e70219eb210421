//! Writes the log.
//!
//! A clean log still contains old changes with the names of files. No reader of the image needs
//! them. The image gets a log as it is after the first record of a new cycle: an unmount record at
//! block 0, and every other block with the number of the cycle before. The head is after the old
//! head, so no block of the volume is newer than the log. A log that was never written stays zeros.
//! A dirty log is copied as it is.

use xfs_device::SharedDevice;
use xfs_format::log_record::{LogRecordHeader, next_cycle, unmount_operation};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn, Superblock};
use xfs_log::{LogDevice, find_head_and_tail};

use crate::dump::{Dump, DumpError};

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
/// Number of blocks that are read at once.
const CHUNK_BLOCKS: u32 = 2048;

/// The log of the volume, and the decision whether the image gets the log as it is or with new
/// contents.
pub(crate) struct LogCopy {
    log: Option<LogDevice>,
    /// The contents that the image gets in place of the contents of a clean log. `None` if the log
    /// is dirty or cannot be read.
    clean: Option<CleanLog>,
    /// The reason why the state of the log is not known, or `None` if it is known.
    unknown: Option<String>,
}

struct CleanLog {
    /// The cycle number of the blocks after the unmount record.
    cycle: u32,
    /// The unmount record, or no bytes if the log was never written.
    record: Vec<u8>,
}

impl LogCopy {
    /// Opens the log and finds its state. A log that cannot be read counts as dirty. If the log
    /// does not lie inside the device, the image gets no log.
    pub(crate) fn open(device: &SharedDevice, superblock: &Superblock) -> Self {
        let log = match LogDevice::new(device.clone(), superblock) {
            Ok(log) => log,
            Err(error) => return Self { log: None, clean: None, unknown: Some(error.to_string()) },
        };
        let unknown = find_head_and_tail(&log).err().map(|error| error.to_string());
        let clean = CleanLog::find(&log);
        Self { log: Some(log), clean, unknown }
    }

    /// Returns whether the log lies inside the device and is dirty, or may be dirty because it
    /// cannot be read.
    pub(crate) const fn is_dirty(&self) -> bool {
        self.log.is_some() && self.clean.is_none()
    }

    /// Returns an error if the log is or may be dirty: the log is copied as it is, so names in it
    /// stay readable.
    pub(crate) fn check_obfuscated(&self) -> Result<(), DumpError> {
        match &self.unknown {
            _ if !self.is_dirty() => Ok(()),
            Some(reason) => Err(DumpError::UnknownLog(reason.clone())),
            None => Err(DumpError::DirtyLog),
        }
    }

    /// Writes the log to the image.
    pub(crate) fn dump(&self, dump: &mut Dump<'_>) -> Result<(), DumpError> {
        let Some(log) = &self.log else {
            let reason = self.unknown.as_deref().expect("a log without a device has a reason");
            let reason = format!("the log is left out: {reason}");
            dump.note(crate::dump::DumpLocation::default(), reason);
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
            return Some(Self { cycle: 0, record: Vec::new() });
        }
        let (old, _) = log.read_record(state.last_record).ok()?;
        let cycle = state.head.cycle();
        let start = Lsn::new(next_cycle(cycle), 0);
        let header = LogRecordHeader {
            cycle: start.cycle(),
            lsn: start,
            tail: start,
            crc: 0,
            previous_block: state.last_record,
            operations: 1,
            ..old
        };
        Some(Self { cycle, record: unmount_record(&header, log.length_blocks())? })
    }

    fn dump(&self, dump: &mut Dump<'_>, log: &LogDevice, start: u64) -> Result<(), DumpError> {
        let blocks = log.length_blocks();
        let mut at = 0;
        while at < blocks {
            dump.check_stopped()?;
            let count = CHUNK_BLOCKS.min(blocks - at);
            let bytes: Vec<u8> = (at..at + count).flat_map(|number| self.block(number)).collect();
            dump.add(start + u64::from(at) * u64::from(BASIC_BLOCK_BYTES), &bytes)?;
            at += count;
        }
        Ok(())
    }

    /// Returns the contents that the image gets for one block of a clean log.
    fn block(&self, number: u32) -> [u8; BLOCK] {
        let index = usize::try_from(number).ok();
        let kept = index.and_then(|index| self.record.as_chunks().0.get(index));
        kept.copied().unwrap_or_else(|| {
            let mut block = [0; BLOCK];
            if let Some(word) = block.first_chunk_mut() {
                *word = self.cycle.to_be_bytes();
            }
            block
        })
    }
}

/// Returns an unmount record with this header, and zeros after its operation. `None` if the lengths
/// in the header leave no room for the operation.
fn unmount_record(header: &LogRecordHeader, log_blocks: u32) -> Option<Vec<u8>> {
    let mut record = vec![0; usize::try_from(header.total_blocks()).ok()? * BLOCK];
    let (operation, payload) = unmount_operation();
    let bytes = [&operation.encode()[..], &payload].concat();
    let start = usize::try_from(header.header_blocks()).ok()? * BLOCK;
    record.get_mut(start..)?.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    header.encode(&mut record, log_blocks);
    Some(record)
}
