//! The counters of an open volume, named as the kernel's XFS names them in /proc/fs/xfs/stat.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! let before = volume.statistics()?;
//! volume.create_dir("/new")?;
//! let after = volume.statistics()?;
//! assert_eq!(after.directories.added, before.directories.added + 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Owns: collecting the figures from the layers that count them. Each counter has one part for each
//! processor slot, and a figure is the sum of the parts. Counters are read one after the other, so
//! they need not agree while operations run.

mod log;

use xfs_buffer::BufferCache;
use xfs_icache::{Count, InodeCounts};
use xfs_inode::{MapCounts, MapUse};
use xfs_vfs::{Activity, Mount};

pub use log::{CheckpointStats, LogSpaceStats, LogStats, TransactionStats, WriteBackStats};

/// The counters of a volume that is open for writing, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeStats {
    /// Counters of lookups in the inode cache.
    #[doc(alias = "ig")]
    pub inode_lookups: InodeLookupStats,
    /// Counters of the inodes in the inode cache.
    #[doc(alias = "vnodes")]
    pub inodes: InodeCacheStats,
    /// Counters of the buffers of metadata blocks.
    #[doc(alias = "buf")]
    pub buffers: BufferStats,
    /// Counters of transactions.
    #[doc(alias = "trans")]
    pub transactions: TransactionStats,
    /// Counters of checkpoints. A checkpoint is a group of commits that are written to the log
    /// together.
    #[doc(alias = "cil")]
    pub checkpoints: CheckpointStats,
    /// Counters of writes and forces of the log.
    pub log: LogStats,
    /// Counters of the space in the log: waits for space, and its use.
    #[doc(alias = "grant")]
    pub log_space: LogSpaceStats,
    /// Counters of writing logged changes in place.
    #[doc(alias = "push_ail")]
    pub write_back: WriteBackStats,
    /// Counters of lookups and changes in extent maps.
    #[doc(alias = "blk_map")]
    pub extent_maps: ExtentMapStats,
    /// Counters of operations on directories.
    #[doc(alias = "dir")]
    pub directories: DirectoryStats,
    /// Counters of operations on extended attributes.
    #[doc(alias = "attr")]
    pub attributes: AttributeStats,
    /// Counters of the names in the dentry cache.
    #[doc(alias = "dentry")]
    pub dentries: DentryCacheStats,
    /// Counters of the locks that callers hold on files.
    pub locks: LockStats,
}

/// Counters of the dentry cache. A name in this cache needs no search of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DentryCacheStats {
    /// Number of names that are in the cache now.
    #[doc(alias = "nr_dentry")]
    pub cached: u64,
    /// Number of names that the cache now records as nonexistent (negative entries).
    #[doc(alias = "nr_negative")]
    pub negative: u64,
}

/// Counters of the locks that callers hold on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// Number of locks that are held now: on disjoint ranges of files (`fcntl`), and on whole files
    /// (`flock`).
    pub held: u64,
}

/// Counters of operations on directories, as in the line `dir` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryStats {
    /// Number of searches of a directory for a name. A cached name needs no search.
    #[doc(alias = "xs_dir_lookup")]
    pub lookups: u64,
    /// Number of names added to directories, also by links and renames. A name that a rename
    /// replaced or exchanged is neither added nor removed.
    #[doc(alias = "xs_dir_create")]
    pub added: u64,
    /// Number of names removed from directories, also by renames.
    #[doc(alias = "xs_dir_remove")]
    pub removed: u64,
    /// Number of parts in which directories were listed. A part is about one block of a directory.
    #[doc(alias = "xs_dir_getdents")]
    pub listings: u64,
}

/// Counters of operations on extended attributes, as in the line `attr` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeStats {
    /// Number of attribute values that were read.
    #[doc(alias = "xs_attr_get")]
    pub reads: u64,
    /// Number of attributes that were set, including access control lists.
    #[doc(alias = "xs_attr_set")]
    pub set: u64,
    /// Number of attributes that were removed.
    #[doc(alias = "xs_attr_remove")]
    pub removed: u64,
    /// Number of times that the attribute names of a file were listed.
    #[doc(alias = "xs_attr_list")]
    pub listings: u64,
}

/// Counters of the extent maps of files, directories and attributes, as in the line `blk_map` of
/// /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentMapStats {
    /// Number of lookups in the map of file contents, for a read or a listing of extents. Lookups
    /// in the maps of directories and attributes are not counted.
    #[doc(alias = "xs_blk_mapr")]
    pub reads: u64,
    /// Number of allocations, and of conversions from or to unwritten extents.
    #[doc(alias = "xs_blk_mapw")]
    pub writes: u64,
    /// Number of steps that unmapped blocks. Unmapping a long range of a file takes several steps.
    #[doc(alias = "xs_blk_unmap")]
    pub unmaps: u64,
    /// Number of extents that were added to a map.
    #[doc(alias = "xs_add_exlist")]
    pub insertions: u64,
    /// Number of extents that were removed from a map, in whole or in part.
    #[doc(alias = "xs_del_exlist")]
    pub deletions: u64,
}

/// Counters of lookups in the inode cache, as in the line `ig` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeLookupStats {
    /// Number of lookups by inode number.
    #[doc(alias = "xs_ig_attempts")]
    pub attempts: u64,
    /// Number of lookups that found the inode in the cache, with at least one reference to it.
    #[doc(alias = "xs_ig_found")]
    pub found: u64,
    /// Number of lookups that found the inode in the cache, with no reference to it.
    #[doc(alias = "xs_ig_frecycle")]
    pub recycled: u64,
    /// Number of lookups that read the inode from disk.
    #[doc(alias = "xs_ig_missed")]
    pub missed: u64,
    /// Number of lookups that read the inode from disk, while another thread inserted the same
    /// inode into the cache.
    #[doc(alias = "xs_ig_dup")]
    pub duplicates: u64,
    /// Number of inodes that were evicted: to make room, by dropping caches, or because only a
    /// bulkstat had brought them into the cache.
    #[doc(alias = "xs_ig_reclaims")]
    pub reclaims: u64,
}

/// Counters of the inodes in the inode cache, as in the line `vnodes` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeCacheStats {
    /// Number of inodes in the cache now.
    #[doc(alias = "vn_active")]
    pub active: u64,
    /// Number of inodes that were inserted into the cache.
    #[doc(alias = "vn_alloc")]
    pub allocated: u64,
    /// Number of released references to inodes.
    #[doc(alias = "vn_rele")]
    pub released: u64,
    /// Number of inodes that left the cache because they were freed on disk.
    #[doc(alias = "vn_remove")]
    pub removed: u64,
    /// Number of inodes that left the cache, for any reason.
    #[doc(alias = "vn_free")]
    pub freed: u64,
}

/// Counters of the buffers of metadata blocks, as in the line `buf` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferStats {
    /// Number of reads of a metadata block.
    #[doc(alias = "xb_get")]
    pub reads: u64,
    /// Number of reads that found the block in the cache.
    pub found: u64,
    /// Number of reads that read the block from the device.
    #[doc(alias = "xb_get_read")]
    pub missed: u64,
    /// Number of buffers that were evicted to make room.
    pub evicted: u64,
    /// Number of buffers in the cache now.
    pub buffers: u64,
    /// Memory of the cached buffers in bytes.
    pub memory_bytes: u64,
}

impl VolumeStats {
    pub(crate) fn gather(mount: &Mount) -> Self {
        let (counts, done) = (mount.inode_cache.counts(), mount.activity());
        let journal = &mount.journal;
        let (log, transactions) = (journal.log().counts(), journal.transactions());
        Self {
            inode_lookups: lookups(counts),
            inodes: in_memory(counts),
            buffers: BufferStats::gather(journal.cache()),
            transactions: TransactionStats::of(log.commits, transactions),
            checkpoints: CheckpointStats::of(&log),
            log: LogStats::of(&log),
            log_space: LogSpaceStats::of(&log, journal.log().space()),
            write_back: WriteBackStats::of(&log),
            extent_maps: ExtentMapStats::gather(MapCounts::of(journal)),
            directories: DirectoryStats {
                lookups: done.sum(Activity::NameLookup),
                added: done.sum(Activity::NameAdded),
                removed: done.sum(Activity::NameRemoved),
                listings: done.sum(Activity::Listing),
            },
            attributes: AttributeStats {
                reads: done.sum(Activity::AttributeRead),
                set: done.sum(Activity::AttributeSet),
                removed: done.sum(Activity::AttributeRemoved),
                listings: done.sum(Activity::AttributeListing),
            },
            dentries: DentryCacheStats {
                cached: mount.dentries.count() as u64,
                negative: mount.dentries.negative_count() as u64,
            },
            locks: LockStats { held: mount.inode_cache.waits().locks() },
        }
    }
}

fn lookups(counts: &InodeCounts) -> InodeLookupStats {
    InodeLookupStats {
        attempts: counts.sum(Count::Attempt),
        found: counts.sum(Count::Found),
        recycled: counts.sum(Count::Recycled),
        missed: counts.sum(Count::Missed),
        duplicates: counts.sum(Count::Duplicate),
        reclaims: counts.sum(Count::Evicted),
    }
}

fn in_memory(counts: &InodeCounts) -> InodeCacheStats {
    // Removals are read before insertions, so that the difference is not negative.
    let removed = counts.sum(Count::Freed);
    let freed = removed + counts.sum(Count::Evicted);
    let allocated = counts.sum(Count::Missed) + counts.sum(Count::Made);
    InodeCacheStats {
        active: allocated.saturating_sub(freed),
        allocated,
        released: counts.sum(Count::Released),
        removed,
        freed,
    }
}

impl ExtentMapStats {
    fn gather(counts: &MapCounts) -> Self {
        Self {
            reads: counts.sum(MapUse::Read),
            writes: counts.sum(MapUse::Write),
            unmaps: counts.sum(MapUse::Unmap),
            insertions: counts.sum(MapUse::Insertion),
            deletions: counts.sum(MapUse::Deletion),
        }
    }
}

impl BufferStats {
    fn gather(buffers: &BufferCache) -> Self {
        let statistics = buffers.statistics();
        let total = statistics.total();
        Self {
            reads: statistics.hits + total.misses,
            found: statistics.hits,
            missed: total.misses,
            evicted: total.evictions,
            buffers: total.buffers as u64,
            memory_bytes: total.memory_bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests;
