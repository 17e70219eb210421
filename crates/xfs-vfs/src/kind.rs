//! The types of cached inodes on a volume that is mounted read-write.

use xfs_icache::{InodeKind, JournalStore};
use xfs_inode::LiveInode;

use crate::contents::Contents;
use crate::watch::QueueWatch;

/// The kind of cached inode on a volume that is mounted read-write. Such an inode holds the
/// buffered contents of its file, and the watches that put events of the inode into a queue.
pub enum VolumeKind {}

impl InodeKind for VolumeKind {
    type Inode = LiveInode;
    type Contents = Contents;
    type Watch = QueueWatch;
}

/// The inode cache of a volume.
pub type InodeCache = xfs_icache::InodeCache<JournalStore<VolumeKind>>;

/// A cached inode of a volume.
pub type CachedInode = xfs_icache::CachedInode<VolumeKind>;

/// A reference to a cached inode of a volume, released on drop.
pub(crate) type CacheRef<'a> = xfs_icache::CacheRef<'a, InodeCache>;

/// A reference to a cached inode of a volume, stored without a borrow of the cache.
pub(crate) type StoredRef = xfs_icache::StoredRef<VolumeKind>;

/// References to inodes, grouped by the processor on which the references were made. All handles
/// that were made on one processor share one reference to an inode.
pub type PerCpuRefs = xfs_icache::PerCpuRefs<JournalStore<VolumeKind>>;

/// One reference to an inode, shared by all handles that were made on one processor.
pub type PerCpuRef = xfs_icache::PerCpuRef<VolumeKind>;

// The contents and the marks of a cached inode are boxed, so that the kind does not change its
// size.
const _: () = assert!(size_of::<CachedInode>() == 128);
