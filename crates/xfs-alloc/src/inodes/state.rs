//! The in-memory state of inode allocation on a volume that is mounted read-write.

use std::collections::HashMap;

use xfs_btree::SavedPath;
use xfs_buffer::{Buffer, Result};
use xfs_format::agi::{AGI_SECTOR, AgiFields};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::{AgInode, AgNumber, BlockKind, Geometry};
use xfs_sync::{
    AppendOnlyVec, AtomicU32, AtomicU64, CachePadded, Group, Mutex, Ordering, SetOnce, Slot, Slots,
    Volume,
};
use xfs_trans::{InodeCluster, Journal};

/// The value of `free_count` while the number of free inodes of the group is not known.
const UNKNOWN: u32 = u32::MAX;

/// The estimated number of blocks that the saved paths of one group keep in memory, in addition to
/// its last cluster.
const KEPT_BLOCKS: u64 = 8;
/// The memory limit for all saved paths, in bytes. A volume that has too many groups for this limit
/// keeps no saved paths.
const MOST_KEPT_BYTES: u64 = 16 << 20;

/// The state of inode allocation of a volume.
pub(super) struct InodeGroups {
    groups: AppendOnlyVec<CachePadded<InodeGroupState>, Volume>,
    /// For each per-CPU slot, the number of the group that the next new directory goes to.
    #[doc(alias = "m_agirotor")]
    next_directory_groups: Slots<AtomicU32<Slot>>,
}

/// The saved paths in the inode btrees of a group. A thread takes the paths out before it changes
/// the btrees. If the thread fails and does not put them back, the next operation starts at the
/// roots.
#[derive(Default)]
pub(super) struct SavedPaths {
    pub(super) chunks: Option<SavedPath<InodeChunks>>,
    pub(super) free_chunks: Option<SavedPath<FreeInodeChunks>>,
    /// The chunk from which the last inode was taken. `free_chunks` ends at its record. `None` if
    /// another editor has changed the btree of chunks with a free inode since.
    pub(super) last_taken: Option<LastTaken>,
    /// The cluster of the inode that was taken last.
    pub(super) cluster: Option<InodeCluster>,
}

/// A chunk from which an inode was taken, and which has more free inodes.
#[derive(Clone, Copy)]
pub(super) struct LastTaken {
    /// The inode near which the taken one had to be.
    pub(super) near: Option<AgInode>,
    /// The chunk without the taken inode.
    pub(super) chunk: InodeChunk,
}

/// The state of inode allocation of one group.
pub(super) struct InodeGroupState {
    /// The number of free inodes in the group, for threads that choose a group. It is updated only
    /// when the number changes from zero or to zero.
    free_count: AtomicU32<Group>,
    /// Number of chunks made since the volume was opened.
    chunks_made: AtomicU32<Group>,
    /// Number of chunks freed since the volume was opened.
    chunks_freed: AtomicU64<Group>,
    /// Number of chunks that the group may make before it reads the volume's inode count again.
    /// Changed only by the holder of the latch of the AGI.
    allowance: AtomicU32<Group>,
    /// For inodes on an unlinked list, the predecessor on the list, as far as it is known.
    before: Mutex<HashMap<AgInode, AgInode>, Group>,
    /// The AGI's buffer, once it has been read. It stays in memory until the volume is unmounted.
    header: SetOnce<Buffer, Group>,
    /// The saved paths in the inode btrees. They are used only by the holder of the latch of the
    /// AGI, which protects all blocks on these paths.
    paths: Mutex<Option<Box<SavedPaths>>, Group>,
    /// Whether `header` and `paths` are kept between operations. They are not if the paths of all
    /// groups together would take too much memory.
    keeps_buffers: bool,
}

impl InodeGroups {
    /// Returns the state of inode allocation of this journal's volume.
    pub(super) fn of(journal: &Journal) -> &Self {
        // With several counters the group of a directory would depend on the number of processors.
        let counters = journal.log().is_by_count().then_some(1);
        journal.extension(|| Self::new(journal.geometry(), counters))
    }

    /// Creates the state with `counters` counters, each of which gives the group of the next new
    /// directory. `None`: creates one counter for each per-CPU slot.
    fn new(geometry: &Geometry, counters: Option<usize>) -> Self {
        // Slots start at different groups, so that threads that start together do not meet in one
        // group.
        let mut slot = 0;
        let mut rotor = || {
            slot += 1;
            AtomicU32::new(slot - 1)
        };
        let groups = geometry.groups().map(|_| InodeGroupState::new(geometry)).collect();
        let next_directory_groups = match counters {
            Some(count) => Slots::with_count(count, &mut rotor),
            None => Slots::new(&mut rotor),
        };
        Self { groups, next_directory_groups }
    }

    /// Returns the state of a group; `None` if the group does not exist.
    #[inline]
    pub(super) fn group(&self, group: AgNumber) -> Option<&InodeGroupState> {
        self.groups.get(group.0 as usize).map(|state| &**state)
    }

    /// Returns the buffer of a group's AGI. The buffer is not latched, and another thread may have
    /// latched it.
    pub(super) fn header(journal: &Journal, number: AgNumber) -> Result<Buffer> {
        let known = Self::of(journal).group(number).filter(|state| state.keeps_buffers);
        if let Some(header) = known.and_then(|state| state.header.value()) {
            return Ok(header.clone());
        }
        let geometry = journal.geometry();
        let at = geometry.header_disk_addr(number, AGI_SECTOR);
        let header = journal.cache().read(at, geometry.sector_size, BlockKind::Agi)?;
        if let Some(state) = known {
            // Another thread may have stored the same buffer first.
            let _ = state.header.set(header.clone());
        }
        Ok(header)
    }

    /// Returns the group for a new directory, and moves the counter of this per-CPU slot to the
    /// next group.
    pub(super) fn next_group(&self) -> AgNumber {
        let turn = self.next_directory_groups.mine().fetch_add(1, Ordering::Relaxed);
        let groups = u32::try_from(self.groups.len()).expect("a group has a number of 32 bits");
        AgNumber(turn.checked_rem(groups).expect("a volume has a group"))
    }
}

/// Adds state for the groups by which the volume has grown.
pub(crate) fn extend_groups(journal: &Journal) {
    let groups = &InodeGroups::of(journal).groups;
    let new = journal.geometry().groups().skip(groups.len());
    groups.extend(new.map(|_| InodeGroupState::new(journal.geometry())));
}

impl InodeGroupState {
    fn new(geometry: &Geometry) -> CachePadded<Self> {
        let kept_blocks = KEPT_BLOCKS + u64::from(geometry.cluster_blocks());
        let group_bytes = u64::from(geometry.block_size) * kept_blocks;
        CachePadded::new(Self {
            free_count: AtomicU32::new(UNKNOWN),
            chunks_made: AtomicU32::new(0),
            chunks_freed: AtomicU64::new(0),
            allowance: AtomicU32::new(0),
            before: Mutex::new(HashMap::new()),
            header: SetOnce::new(),
            paths: Mutex::new(None),
            keeps_buffers: u64::from(geometry.ag_count) * group_bytes <= MOST_KEPT_BYTES,
        })
    }

    /// Takes the saved paths in the inode btrees out of the state. The caller holds the latch of
    /// the AGI.
    #[inline]
    pub(super) fn take_paths(&self) -> Box<SavedPaths> {
        self.paths.lock().take().unwrap_or_default()
    }

    /// Stores the saved paths for the next operation (I5: they are those of the last editors). The
    /// caller still holds the latch of the AGI.
    #[inline]
    pub(super) fn keep_paths(&self, paths: Box<SavedPaths>) {
        if self.keeps_buffers {
            *self.paths.lock() = Some(paths);
        }
    }

    /// Whether the group may have a free inode: its count of free inodes was not 0 when last
    /// published, or is unknown.
    pub(super) fn may_have_free(&self) -> bool {
        self.free_count.load(Ordering::Relaxed) != 0
    }

    /// Updates `free_count` from the AGI, for threads that choose a group. These threads need only
    /// know whether the count is zero, so `free_count` is written only if it changes from or to
    /// zero.
    #[inline]
    pub(super) fn publish(&self, agi: &AgiFields) {
        let known = self.free_count.load(Ordering::Relaxed);
        if known == UNKNOWN || (known == 0) != (agi.free_count == 0) {
            self.free_count.store(agi.free_count, Ordering::Relaxed);
        }
    }

    /// Counts a new chunk. Returns the number of this chunk among those made in the group since the
    /// volume was opened.
    pub(super) fn count_chunk(&self) -> u32 {
        self.chunks_made.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a freed chunk. The caller holds the latch of the AGI, and calls this before the inode
    /// clusters are freed.
    pub(super) fn count_freed_chunk(&self) {
        self.chunks_freed.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of chunks freed since the volume was opened.
    pub(super) fn chunks_freed(&self) -> u64 {
        self.chunks_freed.load(Ordering::Acquire)
    }

    /// Subtracts one chunk from the group's allowance. Returns `false` if the allowance is used up.
    pub(super) fn take_allowance(&self) -> bool {
        let left = self.allowance.load(Ordering::Relaxed).checked_sub(1);
        if let Some(left) = left {
            self.allowance.store(left, Ordering::Relaxed);
        }
        left.is_some()
    }

    /// Sets the group's allowance, in chunks.
    pub(super) fn set_allowance(&self, chunks: u32) {
        self.allowance.store(chunks, Ordering::Relaxed);
    }

    /// Records that `before` precedes `inode` on an unlinked list.
    pub(super) fn set_before(&self, inode: AgInode, before: AgInode) {
        self.before.lock().insert(inode, before);
    }

    /// Removes the recorded predecessor of `inode` on its unlinked list, and returns it; `None` if
    /// none is recorded.
    pub(super) fn take_before(&self, inode: AgInode) -> Option<AgInode> {
        self.before.lock().remove(&inode)
    }
}
