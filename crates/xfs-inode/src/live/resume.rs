//! Changes of files that a crash has interrupted, and that recovery resumes.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_trans::{Deferred, IntentPayload, Journal};

use super::exchange::resume_exchange;
use super::remap::resume_map;

/// Returns the work of an open intent that changes the extent map of a file. Returns `None` for any
/// other intent.
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
