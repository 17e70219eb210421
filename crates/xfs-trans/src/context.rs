//! What every item of a volume knows of its volume.
//!
//! Owns: nothing that changes. Items hold it, so it holds neither the journal nor a strong reference
//! to the cache: both would be cycles.

use std::sync::{Arc, Weak};

use xfs_buffer::BufferCache;
use xfs_format::Geometry;
use xfs_sync::{Chain, Volume};

/// What every item of a volume knows of its volume.
#[derive(Debug)]
pub(crate) struct VolumeContext {
    geometry: Arc<Chain<Geometry, Volume>>,
    cache: Weak<BufferCache>,
}

impl VolumeContext {
    pub(crate) fn new(cache: &Arc<BufferCache>) -> Self {
        Self { geometry: cache.shared_geometry(), cache: Arc::downgrade(cache) }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.geometry.last()
    }

    /// The cache, unless the volume is being closed. Not for what happens on every commit: the
    /// count of references is shared by the whole volume.
    pub(crate) fn cache(&self) -> Option<Arc<BufferCache>> {
        self.cache.upgrade()
    }
}
