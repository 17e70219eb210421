//! The state that all handles of one volume share.

use std::sync::Arc;

use xfs_sync::{AtomicBool, Ordering, Volume};

/// State of a volume that each of its handles refers to. The number of references is the number of
/// handles (F3 of the crate).
#[derive(Clone)]
pub(crate) struct SharedState(Arc<AtomicBool<Volume>>);

impl SharedState {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Returns whether an operation of the volume has panicked (F2 of the crate).
    pub(crate) fn is_unusable(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn make_unusable(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns how many other handles of the volume exist.
    pub(crate) fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}
