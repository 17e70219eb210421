//! What has gone through a log, and what of it waits.

use super::{FORCES, FORCES_WAITED, Inner, Log};
use crate::ail::PushCounts;

/// What has gone through a log since it was opened, and what waits in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Transactions, each step of a chain being one.
    pub commits: u64,
    /// Checkpoints that were written, or are being written.
    pub checkpoints: u64,
    /// Bytes that these hold, without the headers of records.
    pub checkpoint_bytes: u64,
    /// Items of the checkpoint that is being gathered now.
    pub gathered_items: u64,
    /// Bytes of these.
    pub gathered_bytes: u64,
    /// Records.
    pub records: u64,
    /// Bytes of records, headers and padding included.
    pub written_bytes: u64,
    /// How often a record waited for one of the buffers in which records are made.
    pub buffer_waits: u64,
    /// How often somebody wanted what was committed to be durable.
    pub forces: u64,
    /// Of those, that had to wait for it.
    pub forces_waited: u64,
    /// How often a transaction waited for log space.
    pub space_waits: u64,
    /// Having items written in place.
    pub pushes: PushCounts,
    /// Items that are not in place now.
    pub unplaced_items: u64,
}

impl Log {
    /// What has gone through the log, and what waits. Slots are looked at one by one: of a checkpoint that
    /// is switched meanwhile a part is told.
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
            // Who has waited has been counted as a force before.
            forces_waited: forces.sum(FORCES_WAITED),
            forces: forces.sum(FORCES),
            space_waits: space.waits(),
            pushes: ail.push_counts(),
            unplaced_items: ail.count(),
        }
    }
}
