//! The part of a volume that each of its log items refers to.
//!
//! Owns: nothing that changes. Every item holds a [`VolumeContext`]. The context holds neither the
//! journal nor a strong reference to the cache, since both would be reference cycles.

use std::sync::{Arc, Weak};

use xfs_buffer::BufferCache;
use xfs_format::Geometry;
use xfs_sync::{VersionChain, Volume};

/// The geometry of a volume and its cache, as log items see them.
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

    /// Returns the cache, or `None` while the volume is being closed. Code that runs on every
    /// commit must not call this: the reference count is shared by the whole volume.
    pub(crate) fn cache(&self) -> Option<Arc<BufferCache>> {
        self.cache.upgrade()
    }
}
