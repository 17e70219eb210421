//! Counters of a log.

use super::{FORCES, FORCES_WAITED, Log, LogInner};
use crate::ail::PushCounts;

/// Counters of the events in a log since it was opened, and the present numbers of its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Number of committed transactions. Each transaction of a chain counts as one.
    pub commits: u64,
    /// Number of checkpoints that were written or are being written.
    pub checkpoints: u64,
    /// Number of bytes of the checkpoints that were written or are being written, without the
    /// headers of records.
    pub checkpoint_bytes: u64,
    /// Number of items of the open checkpoint.
    pub gathered_items: u64,
    /// Number of bytes of the open checkpoint's items.
    pub gathered_bytes: u64,
    /// Number of records that were written to the log.
    pub records: u64,
    /// Number of bytes of the written records, headers and padding included.
    pub written_bytes: u64,
    /// Number of times that a thread waited for an in-core log buffer.
    pub buffer_waits: u64,
    /// Number of calls that forced the log.
    pub forces: u64,
    /// Number of forces that made a checkpoint durable, and so had to wait.
    pub forces_waited: u64,
    /// Number of times that a transaction waited for log space.
    pub space_waits: u64,
    /// Counts of the pushes that write items to their home locations on disk.
    pub pushes: PushCounts,
    /// Number of items in the AIL: they are durable in the log, but not yet written to their home
    /// locations on disk.
    pub unplaced_items: u64,
}

impl Log {
    /// Returns the counters. Slots are read one by one, so a checkpoint that is switched meanwhile
    /// may be counted in part.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        let LogInner { cil, ail, space, writer, forces, .. } = &*self.inner;
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
