//! Helpers for tests: volumes in memory, opened with their allocator.

use std::sync::Arc;

use xfs_device::SharedDevice;
use xfs_trans::testing::{JournalParts, parts, recovered_parts};
use xfs_trans::{Journal, OpenIntent};

use crate::open_journal;

fn open_parts(parts: JournalParts) -> Arc<Journal> {
    open_journal(parts.cache, parts.log, &parts.superblock).unwrap()
}

/// Opens the journal of a volume whose log is clean.
pub(crate) fn open(device: &SharedDevice, threads: usize) -> Arc<Journal> {
    open_parts(parts(device, threads))
}

/// Recovers the log of a volume and opens its journal. Also returns the intents that the log had
/// left open.
pub(crate) fn recover(device: &SharedDevice) -> (Arc<Journal>, Vec<OpenIntent>) {
    let (parts, replayed) = recovered_parts(device);
    let journal = open_parts(parts);
    let open = journal.adopt(&replayed).unwrap();
    (journal, open)
}
