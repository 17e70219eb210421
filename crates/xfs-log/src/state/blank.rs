//! A blank log: a tool has filled it with zeros, and it has not been written since.
//!
//! The first writer writes an unmount record at the start, and makes it durable before it writes
//! anything else. If power fails meanwhile, the record may be incomplete, and the log is still
//! blank. As soon as the log has anything after that record, the log is not blank, whatever its
//! first block says.

use xfs_buffer::{Error, Result};
use xfs_format::{Check, Lsn};

use super::LogState;
use crate::device::LogDevice;
use crate::head::find_written;
use crate::recovery::unmount_record;

/// The LSN of the first record of a log.
pub(crate) const START: Lsn = Lsn::new(1, 0);

/// Returns whether the log begins with the first record of its first cycle, and this record is
/// incomplete. A crash leaves the header of that record either whole or zero.
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

/// Returns the state of a blank log, or `None` if the log is not blank.
#[doc(alias = "xlog_find_zeroed")]
pub(super) fn find(log: &LogDevice) -> Result<Option<LogState>> {
    let record = unmount_record(log.geometry(), START);
    let (header, after) = (record.header(), record.blocks());
    let length = log.length_blocks();
    // These blocks distinguish most logs from a blank one.
    let is_used = |block| log.read_cycle(block).map(|cycle| cycle != 0);
    if after >= length || is_used(length - 1)? || is_used(after)? {
        return Ok(None);
    }
    if is_used(0)? && !is_torn(log)? {
        return Ok(None);
    }
    if find_written(log, after, length)?.is_some() {
        return Ok(None);
    }
    let head = Lsn::new(START.cycle(), after);
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
