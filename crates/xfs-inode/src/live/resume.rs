//! Work on files that a crash has left open.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_trans::{Deferred, IntentPayload, Journal};

use super::exchange::resume_exchange;
use super::remap::resume_map;

/// The work that keeps a promise of the log about maps of files, or `None` if it is about something
/// else.
///
/// # Errors
///
/// A promise that cannot be believed; what loading its files fails with.
pub fn resume(
    journal: &Arc<Journal>,
    promise: &IntentPayload,
) -> Result<Option<Box<dyn Deferred>>> {
    match promise {
        IntentPayload::Map(map) => resume_map(map).map(Some),
        IntentPayload::Exchange(exchange) => resume_exchange(journal, exchange).map(Some),
        _ => Ok(None),
    }
}
