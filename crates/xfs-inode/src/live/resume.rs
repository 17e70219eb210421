//! Work on files that a crash has left open.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_trans::{Deferred, IntentPayload, Journal};

use super::exchange::resume_exchange;
use super::remap::resume_map;

/// Returns the work of an intent about maps of files, or `None` if the intent is about anything
/// else.
///
/// # Errors
///
/// A corrupt intent; the errors of loading its files.
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
