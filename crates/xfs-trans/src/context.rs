//! The geometry and the buffer cache of a volume, to which each log item holds a reference.
//!
//! A [`VolumeContext`] never changes. It holds neither the journal nor a strong reference to the
//! cache, because both own log items and the references would form a cycle.

use std::sync::{Arc, Weak};

use xfs_buffer::BufferCache;
use xfs_format::Geometry;
use xfs_sync::{VersionChain, Volume};

/// The geometry and the buffer cache of a volume, for its log items.
#[derive(Debug)]
pub(crate) struct VolumeContext {
    geometry: Arc<VersionChain<Geometry, Volume>>,
    cache: Weak<BufferCache>,
}

impl VolumeContext {
    pub(crate) fn new(cache: &Arc<BufferCache>) -> Self {
        Self { geometry: cache.shared_geometry(), cache: Arc::downgrade(cache) }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.geometry.last()
    }

    /// Returns the buffer cache, or `None` while the volume is being closed. Code that runs on
    /// every commit must not call this function, because the function changes a reference count
    /// that the whole volume shares.
    pub(crate) fn cache(&self) -> Option<Arc<BufferCache>> {
        self.cache.upgrade()
    }
}
