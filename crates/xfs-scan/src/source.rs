//! A volume as the input of a scan.

use std::sync::Arc;

use xfs_buffer::BufferCache;
use xfs_format::features::IncompatFeatures;
use xfs_format::{Geometry, InodeNumber, Superblock};

use crate::hashing::{ContentsHasher, Hashed, SourceHasher};
use crate::row::{LogView, OwnerNames, VolumeLabel};

/// A volume to scan: its device and geometry, and the inode numbers in its superblock.
#[derive(Clone)]
pub struct ScanSource {
    pub(crate) cache: Arc<BufferCache>,
    pub(crate) volume: VolumeLabel,
    pub(crate) root: InodeNumber,
    /// Inode numbers of the filesystem's own inodes. No directory names them, and they have no
    /// rows.
    pub(crate) internal: Vec<u64>,
    /// The names of users and groups, for the columns `owner` and `group`.
    pub(crate) names: Option<Arc<OwnerNames>>,
    /// The hasher, for the column `hash`.
    pub(crate) hasher: Option<SourceHasher>,
}

impl ScanSource {
    /// Creates the source for the volume of `cache`, whose superblock is `superblock`.
    #[must_use]
    pub fn new(cache: Arc<BufferCache>, superblock: &Superblock) -> Self {
        let realtime = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
        let quota = superblock.quota_inodes.iter().flatten().copied();
        let internal = realtime.into_iter().chain(quota);
        Self {
            cache,
            volume: VolumeLabel {
                uuid: superblock.uuid,
                label: superblock.label.as_bytes().to_vec(),
                log: None,
            },
            root: superblock.root_inode,
            internal: internal.filter(|inode| !inode.is_null()).map(|inode| inode.0).collect(),
            names: None,
            hasher: None,
        }
    }

    /// Sets the names of users and groups, for the columns `owner` and `group`.
    #[must_use]
    pub fn with_names(mut self, names: Arc<OwnerNames>) -> Self {
        self.names = Some(names);
        self
    }

    /// Sets the hasher for the column `hash`, and the files that it gets.
    #[must_use]
    pub fn with_hasher(mut self, hasher: Arc<dyn ContentsHasher>, hashed: Hashed) -> Self {
        self.hasher = Some(SourceHasher { hasher, hashed });
        self
    }

    /// Returns the geometry of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.cache.geometry()
    }

    /// Returns whether the inodes of the volume have parent pointers, which name their directories.
    #[must_use]
    pub fn has_parent_pointers(&self) -> bool {
        self.geometry().has_incompat(IncompatFeatures::PARENT)
    }
}

impl From<&ferroxfs::Volume> for ScanSource {
    fn from(volume: &ferroxfs::Volume) -> Self {
        let mut source = Self::new(std::sync::Arc::clone(volume.cache()), volume.superblock());
        source.volume.log = Some(match volume.staleness() {
            None => LogView::Current,
            Some(ferroxfs::admin::Staleness::Live) => LogView::Live,
            Some(_) => LogView::NotReplayed,
        });
        source
    }
}
