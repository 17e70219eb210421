//! The shutdown state of the log.
//!
//! Owns: the shutdown flag, which is set once and never cleared. After a failed write the contents
//! of the device are unknown, so nothing more is written to it.

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Ordering, Volume};

/// The shutdown state of one log.
#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool<Volume>,
}

impl Health {
    /// Returns whether the log is shut down.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    /// Returns `Error::Shutdown` if the log is shut down.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_down() { Err(Error::Shutdown) } else { Ok(()) }
    }

    /// Shuts the log down. Returns `false` if it was shut down already.
    pub(crate) fn set_down(&self) -> bool {
        !self.down.swap(true, Ordering::SeqCst)
    }
}
