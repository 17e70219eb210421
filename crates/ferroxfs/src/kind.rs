//! The types of which a volume that is mounted read-write makes its cached inodes.

use xfs_icache::{InodeKind, JournalStore};
use xfs_inode::Live;

use crate::file::Contents;
use crate::watch::QueueWatch;

/// A cached inode holds the buffered contents of its file, and watches that end in a queue.
pub(crate) enum VolumeKind {}

impl InodeKind for VolumeKind {
    type Inode = Live;
    type Contents = Contents;
    type Watch = QueueWatch;
}

/// The inode cache of a volume.
pub(crate) type InodeCache = xfs_icache::InodeCache<JournalStore<VolumeKind>>;

/// A cached inode of a volume.
pub(crate) type CachedInode = xfs_icache::CachedInode<VolumeKind>;

/// References to inodes that the handles of one processor share.
pub(crate) type PerCpuRefs = xfs_icache::PerCpuRefs<JournalStore<VolumeKind>>;

/// One reference to an inode, shared by all handles that were made on one processor.
pub(crate) type PerCpuRef = xfs_icache::PerCpuRef<VolumeKind>;
