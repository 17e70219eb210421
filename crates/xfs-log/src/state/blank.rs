//! A log in which nothing stands: some tool has zeroed it, and nobody has written since.
//!
//! Whoever writes first puts the record of an unmount in front, and it is durable before anything else is
//! written. So power can have gone while that was written, and then it is not whole; but as soon as there
//! is anything behind it, the log is not blank, whatever its first block says.

use xfs_buffer::{Error, Result};
use xfs_format::{Check, Lsn};

use super::LogState;
use crate::device::LogDevice;
use crate::head::find_written;
use crate::recovery::unmount_record;

/// Where the first record of a log lies.
pub(crate) const START: Lsn = Lsn::new(1, 0);

/// Whether the first record is one of this log and this turn, and not whole. A crash leaves its header whole or zero.
fn is_torn(log: &LogDevice) -> Result<bool> {
    let block = START.block();
    match log.read_header(block) {
        Err(Error::Corrupt(_)) => return Ok(false),
        header => header?,
    };
    match log.read_record(block) {
        Err(Error::Corrupt(corruption)) => {
            let is_first = log.read_cycle(block)? == START.cycle();
            Ok(is_first && matches!(corruption.check(), Check::Checksum { .. }))
        }
        read => read.map(|_| false),
    }
}

/// The state of a log that is blank, `None` for another.
#[doc(alias = "xlog_find_zeroed")]
pub(super) fn find(log: &LogDevice) -> Result<Option<LogState>> {
    let record = unmount_record(log.geometry(), START);
    let (header, behind) = (record.header(), record.blocks());
    let length = log.length_blocks();
    // Most logs are told from a blank one by these blocks.
    let is_used = |block| log.read_cycle(block).map(|cycle| cycle != 0);
    if behind >= length || is_used(length - 1)? || is_used(behind)? {
        return Ok(None);
    }
    if is_used(0)? && !is_torn(log)? {
        return Ok(None);
    }
    if find_written(log, behind, length)?.is_some() {
        return Ok(None);
    }
    let head = Lsn::new(START.cycle(), behind);
    Ok(Some(LogState {
        head,
        tail: head,
        clean: true,
        last_record: START.block(),
        buffer_bytes: header.size,
        torn: None,
        is_blank: true,
    }))
}
