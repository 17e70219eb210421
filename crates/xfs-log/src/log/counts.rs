//! Counters of a log.

use super::{FORCES, FORCES_WAITED, Inner, Log};
use crate::ail::PushCounts;

/// Counters of a log since it was opened, and of items in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Transactions; each step of a chain is one.
    pub commits: u64,
    /// Checkpoints that were written, or are being written.
    pub checkpoints: u64,
    /// Bytes of these, without the headers of records.
    pub checkpoint_bytes: u64,
    /// Items of the open checkpoint.
    pub gathered_items: u64,
    /// Bytes of these.
    pub gathered_bytes: u64,
    /// Records.
    pub records: u64,
    /// Bytes of records, headers and padding included.
    pub written_bytes: u64,
    /// How many times a record waited for an in-core buffer.
    pub buffer_waits: u64,
    /// How many times commits were forced to be durable.
    pub forces: u64,
    /// Forces that had to wait.
    pub forces_waited: u64,
    /// How many times a transaction waited for log space.
    pub space_waits: u64,
    /// Pushes of items to be written in place.
    pub pushes: PushCounts,
    /// Items that are not in place now.
    pub unplaced_items: u64,
}

impl Log {
    /// Returns the counters. Slots are read one by one, so a checkpoint that is switched meanwhile
    /// may be counted in part.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        let Inner { cil, ail, space, writer, forces, .. } = &*self.inner;
        let (written, contents) = (writer.written(), cil.contents());
        LogCounts {
            commits: contents.commits,
            checkpoints: cil.current() - 1,
            checkpoint_bytes: cil.written_bytes(),
            gathered_items: contents.items,
            gathered_bytes: contents.bytes,
            records: written.records,
            written_bytes: written.bytes,
            buffer_waits: written.waits,
            // A force that waited was counted as a force before.
            forces_waited: forces.sum(FORCES_WAITED),
            forces: forces.sum(FORCES),
            space_waits: space.waits(),
            pushes: ail.push_counts(),
            unplaced_items: ail.count(),
        }
    }
}
