//! What is kept in memory of the inodes of a volume that is open for writing.

use std::collections::HashMap;

use xfs_btree::SavedPath;
use xfs_buffer::{Buffer, Result};
use xfs_format::agi::{AGI_SECTOR, AgiFields};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::{AgInode, AgNumber, BlockKind, Geometry};
use xfs_sync::{
    AtomicU32, AtomicU64, CachePadded, Group, Growing, Mutex, Ordering, SetOnce, Slot, Slots,
    Volume,
};
use xfs_trans::Journal;

/// Nobody has looked at the group yet.
const UNKNOWN: u32 = u32::MAX;

/// Blocks of a group that are kept in memory with the paths in its btrees, if these are high.
const KEPT_BLOCKS: u64 = 8;
/// A volume of so many groups that they would keep more than this does without.
const MOST_KEPT_BYTES: u64 = 16 << 20;

/// The inodes of a volume.
pub(super) struct InodeGroups {
    groups: Growing<CachePadded<GroupState>, Volume>,
    /// Where the next directory goes, by slot.
    #[doc(alias = "m_agirotor")]
    rotors: Slots<AtomicU32<Slot>>,
}

/// Where somebody last was in the btrees of a group. Whoever takes them may change the btrees; who does
/// not put them back, because of an error, has the next one start at the roots.
#[derive(Default)]
pub(super) struct SavedPaths {
    pub(super) chunks: Option<SavedPath<InodeChunks>>,
    pub(super) free_chunks: Option<SavedPath<FreeInodeChunks>>,
}

/// The inodes of one group.
pub(super) struct GroupState {
    /// How many are free, as it was last known.
    free_count: AtomicU32<Group>,
    /// Chunks made since the volume was opened.
    chunks_made: AtomicU32<Group>,
    /// Chunks given back since then.
    chunks_freed: AtomicU64<Group>,
    /// Chunks that may be made before the volume's number of inodes has to be looked at. Changed by
    /// who holds the latch of the AGI.
    allowance: AtomicU32<Group>,
    /// For inodes on an unlinked list, the one before. Not all of them need be here.
    before: Mutex<HashMap<AgInode, AgInode>, Group>,
    /// The AGI, which is never freed, once somebody has asked for it.
    header: SetOnce<Buffer, Group>,
    /// Used by who holds the latch of the AGI, which stands for all blocks on the way to them.
    paths: Mutex<SavedPaths, Group>,
    /// Whether the two above are kept.
    keeps_buffers: bool,
}

impl InodeGroups {
    /// The state of the volume that this journal is of.
    pub(super) fn of(journal: &Journal) -> &Self {
        // With several rotors the group of a directory would depend on how many processors there are.
        let rotors = journal.log().is_by_count().then_some(1);
        journal.extension(|| Self::new(journal.geometry(), rotors))
    }

    /// With so many rotors, or one for each slot.
    fn new(geometry: &Geometry, rotors: Option<usize>) -> Self {
        // Slots start apart, so that threads that begin together do not meet in one group.
        let mut slot = 0;
        let mut rotor = || {
            slot += 1;
            AtomicU32::new(slot - 1)
        };
        let groups = geometry.groups().map(|_| GroupState::new(geometry)).collect();
        let rotors = match rotors {
            Some(count) => Slots::with_count(count, &mut rotor),
            None => Slots::new(&mut rotor),
        };
        Self { groups, rotors }
    }

    /// The state of a group, if there is such a group.
    pub(super) fn group(&self, group: AgNumber) -> Option<&GroupState> {
        self.groups.get(group.0 as usize).map(|state| &**state)
    }

    /// The header of a group, which may be latched by somebody.
    pub(super) fn header(journal: &Journal, number: AgNumber) -> Result<Buffer> {
        let known = Self::of(journal).group(number).filter(|state| state.keeps_buffers);
        if let Some(header) = known.and_then(|state| state.header.value()) {
            return Ok(header.clone());
        }
        let geometry = journal.geometry();
        let at = geometry.header_disk_addr(number, AGI_SECTOR);
        let header = journal.cache().read(at, geometry.sector_size, BlockKind::Agi)?;
        if let Some(state) = known {
            // Somebody may have been faster, with the same buffer.
            let _ = state.header.set(header.clone());
        }
        Ok(header)
    }

    /// The group that a new directory should lie in.
    pub(super) fn next_group(&self) -> AgNumber {
        let turn = self.rotors.mine().fetch_add(1, Ordering::Relaxed);
        AgNumber(turn % u32::try_from(self.groups.len().max(1)).unwrap_or(u32::MAX))
    }
}

/// The volume has got more groups.
pub(crate) fn extend_groups(journal: &Journal) {
    let groups = &InodeGroups::of(journal).groups;
    let new = journal.geometry().groups().skip(groups.len());
    groups.extend(new.map(|_| GroupState::new(journal.geometry())));
}

impl GroupState {
    fn new(geometry: &Geometry) -> CachePadded<Self> {
        let group_bytes = u64::from(geometry.block_size) * KEPT_BLOCKS;
        CachePadded::new(Self {
            free_count: AtomicU32::new(UNKNOWN),
            chunks_made: AtomicU32::new(0),
            chunks_freed: AtomicU64::new(0),
            allowance: AtomicU32::new(0),
            before: Mutex::new(HashMap::new()),
            header: SetOnce::new(),
            paths: Mutex::new(SavedPaths::default()),
            keeps_buffers: u64::from(geometry.ag_count) * group_bytes <= MOST_KEPT_BYTES,
        })
    }

    /// The paths in the btrees, for who has latched the AGI.
    pub(super) fn take_paths(&self) -> SavedPaths {
        std::mem::take(&mut *self.paths.lock())
    }

    /// Keeps paths for the next one. The caller still has the AGI latched.
    pub(super) fn keep_paths(&self, paths: SavedPaths) {
        if self.keeps_buffers {
            *self.paths.lock() = paths;
        }
    }

    /// Whether there was a free inode when somebody last looked, or nobody has looked yet.
    pub(super) fn may_have_free(&self) -> bool {
        self.free_count.load(Ordering::Relaxed) != 0
    }

    /// Makes the numbers of a header visible to those who choose a group. Written only if they have
    /// changed to or from none at all: nobody asks for more.
    pub(super) fn publish(&self, agi: &AgiFields) {
        let known = self.free_count.load(Ordering::Relaxed);
        if known == UNKNOWN || (known == 0) != (agi.free_count == 0) {
            self.free_count.store(agi.free_count, Ordering::Relaxed);
        }
    }

    /// A number that no chunk of the group has had since the volume was opened.
    pub(super) fn count_chunk(&self) -> u32 {
        self.chunks_made.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a chunk is given back: before its clusters are, and by who holds the AGI.
    pub(super) fn count_freed_chunk(&self) {
        self.chunks_freed.fetch_add(1, Ordering::AcqRel);
    }

    /// How many chunks have been given back since the volume was opened.
    pub(super) fn chunks_freed(&self) -> u64 {
        self.chunks_freed.load(Ordering::Acquire)
    }

    /// Takes one chunk of what the group may make without asking. `false` if it has to ask.
    pub(super) fn take_allowance(&self) -> bool {
        let left = self.allowance.load(Ordering::Relaxed).checked_sub(1);
        if let Some(left) = left {
            self.allowance.store(left, Ordering::Relaxed);
        }
        left.is_some()
    }

    /// Lets the group make so many more chunks without asking.
    pub(super) fn set_allowance(&self, chunks: u32) {
        self.allowance.store(chunks, Ordering::Relaxed);
    }

    /// Notes that `before` comes right before `inode` on an unlinked list.
    pub(super) fn set_before(&self, inode: AgInode, before: AgInode) {
        self.before.lock().insert(inode, before);
    }

    /// Forgets what came before `inode`, and returns it.
    pub(super) fn take_before(&self, inode: AgInode) -> Option<AgInode> {
        self.before.lock().remove(&inode)
    }
}
