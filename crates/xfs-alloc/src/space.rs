//! The allocator's state in memory of a volume that is mounted read-write.
//!
//! Owns: for each group its busy extents, its reserves, and a summary that lets threads choose a
//! group without touching its header. Does **not** own free space itself: that is on disk, under
//! the latch of the group's AGF.
//!
//! # What is shared
//!
//! There is no state that all groups share. Each group has a state of its own, in scope [`Group`],
//! which only the holder of the latch of its AGF changes.
//!
//! # Lock order
//!
//! The latch of a group's AGF, then the lock of its state. The lock is held for a few lines, and
//! nothing is read, written or waited for under it.

pub(crate) mod busy;
pub(crate) mod reservation;

use std::sync::Arc;

use xfs_format::agf::Agf;
use xfs_format::reservation::BtreeHeights;
use xfs_format::{AgNumber, Geometry};
use xfs_sync::{AppendOnlyVec, AtomicBool, AtomicU64, Group, Mutex, MutexGuard, Ordering, Volume};
use xfs_trans::Journal;

use crate::owner::BlockPurpose;
use busy::BusyExtents;
use reservation::{Account, Reserves};

/// An estimate of the free space of a group, taken without the latch of its AGF. The space may have
/// changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSummary {
    /// Number of free blocks outside the reserves for the group's own btrees.
    pub free_blocks: u32,
    /// The length of the longest free extent in blocks.
    pub longest_free_blocks: u32,
}

/// The allocator's state of one volume.
#[doc(alias = "xfs_perag")]
#[derive(Debug)]
pub struct AllocatorState {
    groups: AppendOnlyVec<Arc<GroupState>, Volume>,
    /// Whether freed extents are discarded on the device. Set to `true` at most once, when the
    /// volume is opened.
    discards: AtomicBool<Volume>,
}

/// The allocator's state of one group.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// The maximum heights that the group's btrees can have.
    pub(crate) heights: BtreeHeights,
    /// The number of the group's free blocks in the high half, the length of the longest free
    /// extent in the low half.
    summary: AtomicU64<Group>,
    inner: Mutex<GroupInner, Group>,
}

/// The state that the lock of a group protects.
#[derive(Debug, Default)]
pub(crate) struct GroupInner {
    /// Extents that were freed or unshared, but not durably yet.
    pub(crate) busy: BusyExtents,
    /// The accounts of the blocks that the group reserves for its btrees.
    pub(crate) reserves: Reserves,
    /// The debt in blocks: blocks that a btree has taken although the volume's count of free blocks
    /// had none left.
    pub(crate) unpaid_blocks: u64,
    /// The blocks that a shrinking volume will lose.
    pub(crate) withheld: Withheld,
}

/// The blocks at the end of a group that the volume will lose when it shrinks. No file gets them.
///
/// In the group that becomes the last one, the group's own btrees do not get them either. In a
/// group that will be cut off as a whole, the btrees still need blocks of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// The first of these blocks; `u32::MAX` if there are none.
    pub(crate) from: u32,
    /// Number of these blocks that are free.
    pub(crate) free_blocks: u32,
}

impl Default for Withheld {
    fn default() -> Self {
        Self { from: u32::MAX, free_blocks: 0 }
    }
}

impl Withheld {
    /// Returns the first block that an allocation for this purpose may not take. `None` is the
    /// purpose of blocks for the free list.
    pub(crate) const fn limit_for(&self, purpose: Option<BlockPurpose>) -> u32 {
        match (self.from, purpose) {
            (0, None | Some(BlockPurpose::Metadata)) => u32::MAX,
            (from, _) => from,
        }
    }

    /// Returns the number of free blocks that an allocation for this purpose may not take.
    pub(crate) const fn free_for(&self, purpose: Option<BlockPurpose>) -> u32 {
        if self.limit_for(purpose) == u32::MAX { 0 } else { self.free_blocks }
    }
}

impl AllocatorState {
    /// Creates the state of a volume from the header of each group and the blocks that it reserves
    /// for its btrees.
    pub(crate) fn new(
        geometry: &Geometry,
        groups: impl IntoIterator<Item = (Agf, Reserves)>,
    ) -> Self {
        let heights = BtreeHeights::new(geometry);
        let state = |(agf, reserves)| {
            let inner = Mutex::new(GroupInner { reserves, ..GroupInner::default() });
            let state = GroupState { heights, summary: AtomicU64::new(0), inner };
            state.publish(&agf);
            Arc::new(state)
        };
        let groups = groups.into_iter().map(state).collect();
        Self { groups, discards: AtomicBool::new(false) }
    }

    /// Returns the allocator's state of this journal's volume.
    ///
    /// # Panics
    ///
    /// Panics if the journal was not opened by [`open_journal`](crate::open_journal).
    #[must_use]
    pub fn of(journal: &Journal) -> &Arc<Self> {
        journal.extension(|| unreachable!("the journal was opened without its allocator"))
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns an estimate of a group's free space. Does not wait for the group. A group by which
    /// the volume is just growing appears full: the geometry has it before the allocator does.
    #[must_use]
    pub fn summary(&self, group: AgNumber) -> GroupSummary {
        self.group(group).map_or(GroupSummary::default(), |state| state.summary())
    }

    /// Adopts `fresh`, the state of a volume that has grown. `fresh` was counted while no
    /// operation was in progress. Each existing group gets its reserves from `fresh`, and the new
    /// groups of `fresh` are added.
    pub(crate) fn refresh(&self, fresh: Self) {
        let known = self.groups.len();
        for (state, fresh) in self.groups.iter().zip(fresh.groups.iter()) {
            state.refresh(fresh);
        }
        self.groups.extend(fresh.groups.iter().skip(known).map(Arc::clone));
    }

    pub(crate) fn set_discards(&self) {
        self.discards.store(true, Ordering::Release);
    }

    pub(crate) fn discards(&self) -> bool {
        self.discards.load(Ordering::Acquire)
    }

    /// Returns the state of a group; `None` if the group does not exist.
    pub(crate) fn group(&self, group: AgNumber) -> Option<&Arc<GroupState>> {
        self.groups.get(group.0 as usize)
    }
}

impl GroupState {
    /// Locks the state of the group. Only the holder of the AGF's latch may change that state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, GroupInner> {
        self.inner.lock()
    }

    fn refresh(&self, fresh: &Self) {
        let reserves = fresh.lock().reserves;
        let mut inner = self.lock();
        inner.reserves = reserves;
        // The volume's count is new, and has no debt.
        inner.unpaid_blocks = 0;
        self.summary.store(fresh.summary.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Updates the summary of the group's free space, which threads that choose a group read
    /// without the latch of the AGF.
    pub(crate) fn publish(&self, agf: &Agf) {
        let kept = {
            let inner = self.lock();
            inner.reserves.kept_from(None) + inner.withheld.free_blocks
        };
        let free = u64::from(agf.free_blocks.saturating_sub(kept));
        self.summary.store(free << 32 | u64::from(agf.longest_free_blocks), Ordering::Relaxed);
    }

    fn summary(&self) -> GroupSummary {
        let packed = self.summary.load(Ordering::Relaxed);
        GroupSummary { free_blocks: (packed >> 32) as u32, longest_free_blocks: packed as u32 }
    }

    /// Takes blocks from an account of the group. Returns the number of requested blocks that the
    /// account lacked.
    pub(crate) fn draw(&self, account: Account, blocks: u32) -> u32 {
        self.lock().reserves.account(account).draw(blocks)
    }

    /// Puts blocks back into an account of the group, at most as many as were drawn from it.
    /// Returns the number of excess blocks, which the account does not take.
    pub(crate) fn refill(&self, account: Account, blocks: u32) -> u32 {
        self.lock().reserves.account(account).refill(blocks)
    }
}
