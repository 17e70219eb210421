//! Whether the log still works.
//!
//! Owns: the one word that says that the log is shut down. It is set once and never taken back:
//! after a write that failed nobody knows what is on the device, so nothing more is written there.

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Ordering, Volume};

/// Whether the log is shut down.
#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool<Volume>,
}

impl Health {
    /// Whether the log is shut down.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    /// Fails if the log is shut down.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_down() { Err(Error::Shutdown) } else { Ok(()) }
    }

    /// Shuts the log down. Says whether this call did it.
    pub(crate) fn set_down(&self) -> bool {
        !self.down.swap(true, Ordering::SeqCst)
    }
}
