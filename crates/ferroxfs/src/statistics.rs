//! What a volume counts while it is open, named as the kernel's XFS names it in /proc/fs/xfs/stat.
//!
//! Owns: the figures, put together from the layers that count. Counters are kept by slot and read one
//! after the other, so they need not fit each other while others are at work.

mod activity;
mod log;

use xfs_buffer::BufferCache;
use xfs_icache::{Count, InodeCounts};
use xfs_inode::{MapCounts, MapUse};

use crate::writing::Parts;
pub(crate) use activity::{Activity, ActivityCounts};
pub use log::{Checkpoints, LogSpace, LogUse, Transactions, WriteBack};

/// What a volume that is open for writing has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Looking inodes up in memory.
    #[doc(alias = "ig")]
    pub inode_lookups: InodeLookups,
    /// Inodes in memory.
    #[doc(alias = "vnodes")]
    pub inodes: InodesInMemory,
    /// Buffers of metadata.
    #[doc(alias = "buf")]
    pub buffers: Buffers,
    /// Transactions.
    #[doc(alias = "trans")]
    pub transactions: Transactions,
    /// What transactions are gathered to before they are written to the log.
    #[doc(alias = "cil")]
    pub checkpoints: Checkpoints,
    /// Writing the log, and waiting for it.
    pub log: LogUse,
    /// Room in the log.
    #[doc(alias = "grant")]
    pub log_space: LogSpace,
    /// Writing in place what the log has.
    #[doc(alias = "push_ail")]
    pub write_back: WriteBack,
    /// The maps from files to blocks.
    #[doc(alias = "blk_map")]
    pub extent_maps: ExtentMaps,
    /// What was done to directories.
    #[doc(alias = "dir")]
    pub directories: DirectoryOperations,
    /// What was done to extended attributes.
    #[doc(alias = "attr")]
    pub attributes: AttributeOperations,
    /// Names whose meaning is remembered.
    #[doc(alias = "dentry")]
    pub names: RememberedNames,
    /// Locks of programs on files.
    pub locks: FileLocks,
}

/// Names whose meaning is remembered, so that no directory is searched for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberedNames {
    /// In memory now.
    #[doc(alias = "nr_dentry")]
    pub remembered: u64,
    /// Of those, names that no file has.
    #[doc(alias = "nr_negative")]
    pub absent: u64,
}

/// Locks of programs on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileLocks {
    /// Held now: ranges of files that lie apart (`fcntl`), and whole files (`flock`).
    pub held: u64,
}

/// What was done to directories: the line `dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryOperations {
    /// Directories searched for a name; what a remembered name means is not searched for.
    #[doc(alias = "xs_dir_lookup")]
    pub lookups: u64,
    /// Names added, also by links and renames. A name that means another file from then on, because it
    /// was replaced or exchanged, is neither added nor removed.
    #[doc(alias = "xs_dir_create")]
    pub added: u64,
    /// Names removed, also by renames.
    #[doc(alias = "xs_dir_remove")]
    pub removed: u64,
    /// Pieces of directories listed, a block or so each.
    #[doc(alias = "xs_dir_getdents")]
    pub listings: u64,
}

/// What was done to extended attributes: the line `attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeOperations {
    /// Values asked for.
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

/// The maps from blocks of files, directories and attributes to blocks of the volume: of the line `blk_map`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtentMaps {
    /// How often the contents of a file were looked for, to be read or listed. Lookups of directories and
    /// attributes are not counted.
    #[doc(alias = "xs_blk_mapr")]
    pub reads: u64,
    /// How often blocks were asked for, or converted from unwritten ones or to them.
    #[doc(alias = "xs_blk_mapw")]
    pub writes: u64,
    /// Steps of unmapping a range.
    #[doc(alias = "xs_blk_unmap")]
    pub unmaps: u64,
    /// Extents that came into a map.
    #[doc(alias = "xs_add_exlist")]
    pub insertions: u64,
    /// Extents that went out of one, also in part.
    #[doc(alias = "xs_del_exlist")]
    pub deletions: u64,
}

/// Looking inodes up in memory: the line `ig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeLookups {
    /// Inodes asked for by number.
    #[doc(alias = "xs_ig_attempts")]
    pub attempts: u64,
    /// Of those, in memory and in use.
    #[doc(alias = "xs_ig_found")]
    pub found: u64,
    /// Of those, in memory and without a user.
    #[doc(alias = "xs_ig_frecycle")]
    pub recycled: u64,
    /// Of those, read.
    #[doc(alias = "xs_ig_missed")]
    pub missed: u64,
    /// Read, while somebody else brought the same inode in.
    #[doc(alias = "xs_ig_dup")]
    pub duplicates: u64,
    /// Let go of to make room, to drop caches, or because they were looked at only once.
    #[doc(alias = "xs_ig_reclaims")]
    pub reclaims: u64,
}

/// Inodes in memory: the line `vnodes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodesInMemory {
    /// In memory now.
    #[doc(alias = "vn_active")]
    pub active: u64,
    /// That came into memory.
    #[doc(alias = "vn_alloc")]
    pub allocated: u64,
    /// Uses given up.
    #[doc(alias = "vn_rele")]
    pub released: u64,
    /// That left memory because they were freed on disk.
    #[doc(alias = "vn_remove")]
    pub removed: u64,
    /// That left memory.
    #[doc(alias = "vn_free")]
    pub freed: u64,
}

/// Buffers of metadata: of the line `buf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffers {
    /// Reads of a block of metadata.
    #[doc(alias = "xb_get")]
    pub reads: u64,
    /// Of those, that found it in memory.
    pub found: u64,
    /// Of those, that had to read the device.
    #[doc(alias = "xb_get_read")]
    pub missed: u64,
    /// Let go of to make room.
    pub evicted: u64,
    /// In memory now.
    pub buffers: u64,
    /// Bytes that those take.
    pub memory_bytes: u64,
}

impl Statistics {
    pub(crate) fn gather(parts: &Parts) -> Self {
        let (counts, done) = (parts.inode_cache.counts(), &parts.activity);
        let journal = &parts.journal;
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
                remembered: parts.dentries.count() as u64,
                absent: parts.dentries.negative_count() as u64,
            },
            locks: FileLocks { held: parts.inode_cache.waits().locks() },
        }
    }
}

impl Parts {
    /// Counts what somebody has done.
    pub(crate) fn note(&self, activity: Activity) {
        self.activity.note(activity);
    }

    /// Counts that somebody looks where contents are.
    pub(crate) fn note_map_read(&self) {
        MapCounts::of(&self.journal).note(MapUse::Read);
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
    // What went is read before what came, so that the difference is not negative.
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
