//! Counters of a log.

use super::{FORCES, FORCES_WAITED, Inner, Log};
use crate::ail::PushCounts;

/// Counters of a log since it was opened, and of items in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// The number of transactions; each step of a chain is one.
    pub commits: u64,
    /// The number of checkpoints that were written, or are being written.
    pub checkpoints: u64,
    /// The bytes of these checkpoints, without the headers of records.
    pub checkpoint_bytes: u64,
    /// The number of items of the open checkpoint.
    pub gathered_items: u64,
    /// The bytes of these items.
    pub gathered_bytes: u64,
    /// The number of records that were written.
    pub records: u64,
    /// The bytes of these records, headers and padding included.
    pub written_bytes: u64,
    /// The number of times that a record waited for an in-core buffer.
    pub buffer_waits: u64,
    /// The number of times that commits were forced to be durable.
    pub forces: u64,
    /// The number of forces that had to wait.
    pub forces_waited: u64,
    /// The number of times that a transaction waited for log space.
    pub space_waits: u64,
    /// Counts of the pushes of items to be written in place.
    pub pushes: PushCounts,
    /// The number of items that are not in place now.
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
