//! The counters of an open volume, named as the kernel's XFS names them in /proc/fs/xfs/stat.
//!
//! Owns: the figures, collected from the layers that count. Counters are kept by processor slot and
//! read one after the other, so that they need not agree while operations run.

mod log;

use xfs_buffer::BufferCache;
use xfs_icache::{Count, InodeCounts};
use xfs_inode::{MapCounts, MapUse};
use xfs_vfs::{Activity, Mount};

pub use log::{Checkpoints, LogSpace, LogUse, Transactions, WriteBack};

/// The counters of a volume that is open for writing, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Lookups in the inode cache.
    #[doc(alias = "ig")]
    pub inode_lookups: InodeLookups,
    /// Cached inodes.
    #[doc(alias = "vnodes")]
    pub inodes: InodesInMemory,
    /// Metadata buffers.
    #[doc(alias = "buf")]
    pub buffers: Buffers,
    /// Transactions.
    #[doc(alias = "trans")]
    pub transactions: Transactions,
    /// Checkpoints: commits that are written to the log together.
    #[doc(alias = "cil")]
    pub checkpoints: Checkpoints,
    /// Writes and forces of the log.
    pub log: LogUse,
    /// Space in the log.
    #[doc(alias = "grant")]
    pub log_space: LogSpace,
    /// Writing logged changes in place.
    #[doc(alias = "push_ail")]
    pub write_back: WriteBack,
    /// Extent maps.
    #[doc(alias = "blk_map")]
    pub extent_maps: ExtentMaps,
    /// Operations on directories.
    #[doc(alias = "dir")]
    pub directories: DirectoryOperations,
    /// Operations on extended attributes.
    #[doc(alias = "attr")]
    pub attributes: AttributeOperations,
    /// The dentry cache.
    #[doc(alias = "dentry")]
    pub names: RememberedNames,
    /// Locks of programs on files.
    pub locks: FileLocks,
}

/// The dentry cache: names that need no search of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberedNames {
    /// Names that are cached now.
    #[doc(alias = "nr_dentry")]
    pub remembered: u64,
    /// Of those: names that do not exist.
    #[doc(alias = "nr_negative")]
    pub absent: u64,
}

/// Locks of programs on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileLocks {
    /// Held now: disjoint ranges of files (`fcntl`), and whole files (`flock`).
    pub held: u64,
}

/// Operations on directories: the line `dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryOperations {
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
pub struct AttributeOperations {
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
pub struct ExtentMaps {
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
pub struct InodeLookups {
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
pub struct InodesInMemory {
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
pub struct Buffers {
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

impl Statistics {
    pub(crate) fn gather(mount: &Mount) -> Self {
        let (counts, done) = (mount.inode_cache.counts(), mount.activity());
        let journal = &mount.journal;
        let (log, transactions) = (journal.log().counts(), journal.transactions());
        Self {
            inode_lookups: lookups(counts),
            inodes: in_memory(counts),
            buffers: Buffers::gather(journal.cache()),
            transactions: Transactions::of(log.commits, transactions),
            checkpoints: Checkpoints::of(&log),
            log: LogUse::of(&log),
            log_space: LogSpace::of(&log, journal.log().space()),
            write_back: WriteBack::of(&log),
            extent_maps: ExtentMaps::gather(MapCounts::of(journal)),
            directories: DirectoryOperations {
                lookups: done.sum(Activity::NameLookup),
                added: done.sum(Activity::NameAdded),
                removed: done.sum(Activity::NameRemoved),
                listings: done.sum(Activity::Listing),
            },
            attributes: AttributeOperations {
                reads: done.sum(Activity::AttributeRead),
                set: done.sum(Activity::AttributeSet),
                removed: done.sum(Activity::AttributeRemoved),
                listings: done.sum(Activity::AttributeListing),
            },
            names: RememberedNames {
                remembered: mount.dentries.count() as u64,
                absent: mount.dentries.negative_count() as u64,
            },
            locks: FileLocks { held: mount.inode_cache.waits().locks() },
        }
    }
}

fn lookups(counts: &InodeCounts) -> InodeLookups {
    InodeLookups {
        attempts: counts.sum(Count::Attempt),
        found: counts.sum(Count::Found),
        recycled: counts.sum(Count::Recycled),
        missed: counts.sum(Count::Missed),
        duplicates: counts.sum(Count::Duplicate),
        reclaims: counts.sum(Count::Evicted),
    }
}

fn in_memory(counts: &InodeCounts) -> InodesInMemory {
    // Removals are read before insertions, so that the difference is not negative.
    let removed = counts.sum(Count::Freed);
    let freed = removed + counts.sum(Count::Evicted);
    let allocated = counts.sum(Count::Missed) + counts.sum(Count::Made);
    InodesInMemory {
        active: allocated.saturating_sub(freed),
        allocated,
        released: counts.sum(Count::Released),
        removed,
        freed,
    }
}

impl ExtentMaps {
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

impl Buffers {
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
