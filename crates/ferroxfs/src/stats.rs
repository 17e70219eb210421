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
//! Owns: the figures, collected from the layers that count. Each counter is kept by processor slot.
//! Counters are read one after the other, so they need not agree while operations run.

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
    /// Lookups in the inode cache.
    #[doc(alias = "ig")]
    pub inode_lookups: InodeLookupStats,
    /// Cached inodes.
    #[doc(alias = "vnodes")]
    pub inodes: InodeCacheStats,
    /// Metadata buffers.
    #[doc(alias = "buf")]
    pub buffers: BufferStats,
    /// Transactions.
    #[doc(alias = "trans")]
    pub transactions: TransactionStats,
    /// Checkpoints: commits that are written to the log together.
    #[doc(alias = "cil")]
    pub checkpoints: CheckpointStats,
    /// Writes and forces of the log.
    pub log: LogStats,
    /// Space in the log.
    #[doc(alias = "grant")]
    pub log_space: LogSpaceStats,
    /// Writing logged changes in place.
    #[doc(alias = "push_ail")]
    pub write_back: WriteBackStats,
    /// Extent maps.
    #[doc(alias = "blk_map")]
    pub extent_maps: ExtentMapStats,
    /// Operations on directories.
    #[doc(alias = "dir")]
    pub directories: DirectoryStats,
    /// Operations on extended attributes.
    #[doc(alias = "attr")]
    pub attributes: AttributeStats,
    /// The dentry cache.
    #[doc(alias = "dentry")]
    pub dentries: DentryCacheStats,
    /// Locks of programs on files.
    pub locks: LockStats,
}

/// The dentry cache: names that need no search of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DentryCacheStats {
    /// Names that are cached now.
    #[doc(alias = "nr_dentry")]
    pub cached: u64,
    /// Of those: names that do not exist.
    #[doc(alias = "nr_negative")]
    pub negative: u64,
}

/// Locks of programs on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// Held now: disjoint ranges of files (`fcntl`), and whole files (`flock`).
    pub held: u64,
}

/// Operations on directories: the line `dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryStats {
    /// Directories searched for a name. A cached name needs no search.
    #[doc(alias = "xs_dir_lookup")]
    pub lookups: u64,
    /// Names added, also by links and renames. A name that a rename replaced or exchanged is
    /// neither added nor removed.
    #[doc(alias = "xs_dir_create")]
    pub added: u64,
    /// Names removed, also by renames.
    #[doc(alias = "xs_dir_remove")]
    pub removed: u64,
    /// Parts of directories listed, about a block each.
    #[doc(alias = "xs_dir_getdents")]
    pub listings: u64,
}

/// Operations on extended attributes: the line `attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeStats {
    /// Values read.
    #[doc(alias = "xs_attr_get")]
    pub reads: u64,
    /// Attributes set, access control lists among them.
    #[doc(alias = "xs_attr_set")]
    pub set: u64,
    /// Attributes removed.
    #[doc(alias = "xs_attr_remove")]
    pub removed: u64,
    /// Listings of names.
    #[doc(alias = "xs_attr_list")]
    pub listings: u64,
}

/// Extent maps of files, directories and attributes: from the line `blk_map`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentMapStats {
    /// Lookups of file contents, to be read or listed. Lookups of directories and attributes are
    /// not counted.
    #[doc(alias = "xs_blk_mapr")]
    pub reads: u64,
    /// Allocations, and conversions from or to unwritten extents.
    #[doc(alias = "xs_blk_mapw")]
    pub writes: u64,
    /// Steps of unmapping a range.
    #[doc(alias = "xs_blk_unmap")]
    pub unmaps: u64,
    /// Extents added to a map.
    #[doc(alias = "xs_add_exlist")]
    pub insertions: u64,
    /// Extents removed from a map, in whole or in part.
    #[doc(alias = "xs_del_exlist")]
    pub deletions: u64,
}

/// Lookups in the inode cache: the line `ig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeLookupStats {
    /// Lookups by number.
    #[doc(alias = "xs_ig_attempts")]
    pub attempts: u64,
    /// Of those: cached and referenced.
    #[doc(alias = "xs_ig_found")]
    pub found: u64,
    /// Of those: cached and unreferenced.
    #[doc(alias = "xs_ig_frecycle")]
    pub recycled: u64,
    /// Of those: read.
    #[doc(alias = "xs_ig_missed")]
    pub missed: u64,
    /// Read while another thread inserted the same inode.
    #[doc(alias = "xs_ig_dup")]
    pub duplicates: u64,
    /// Evicted to make room, by dropping caches, or because they were looked at only once.
    #[doc(alias = "xs_ig_reclaims")]
    pub reclaims: u64,
}

/// Cached inodes: the line `vnodes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeCacheStats {
    /// Cached now.
    #[doc(alias = "vn_active")]
    pub active: u64,
    /// Inserted.
    #[doc(alias = "vn_alloc")]
    pub allocated: u64,
    /// References released.
    #[doc(alias = "vn_rele")]
    pub released: u64,
    /// Removed because they were freed on disk.
    #[doc(alias = "vn_remove")]
    pub removed: u64,
    /// Removed.
    #[doc(alias = "vn_free")]
    pub freed: u64,
}

/// Metadata buffers: from the line `buf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferStats {
    /// Reads of a metadata block.
    #[doc(alias = "xb_get")]
    pub reads: u64,
    /// Of those: cached.
    pub found: u64,
    /// Of those: read from the device.
    #[doc(alias = "xb_get_read")]
    pub missed: u64,
    /// Evicted to make room.
    pub evicted: u64,
    /// Cached now.
    pub buffers: u64,
    /// Memory of those.
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
