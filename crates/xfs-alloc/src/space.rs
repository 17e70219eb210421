//! What the allocator keeps in memory of a volume that is open for writing.
//!
//! Owns: for each group its busy extents, its reserves, and a summary by which others choose a
//! group without touching its header. Does **not** own free space itself: that is on disk, under
//! the latch of the group's AGF.
//!
//! # What is shared
//!
//! Nothing of the whole volume. Each group has a state of its own, in scope
//! [`Group`], which is changed only by who holds the latch of its AGF.
//!
//! # Lock order
//!
//! The latch of a group's AGF, then the lock of its state, which is held for a few lines and under
//! which nothing is read, written or waited for.

pub(crate) mod busy;
pub(crate) mod reservation;

use std::sync::Arc;

use xfs_format::agf::Agf;
use xfs_format::reservation::BtreeHeights;
use xfs_format::{AgNumber, Geometry};
use xfs_sync::{AtomicBool, AtomicU64, Group, Growing, Mutex, MutexGuard, Ordering, Volume};
use xfs_trans::Journal;

use busy::BusyExtents;
use reservation::{Account, Reserves};

/// Free space of a group, roughly: taken without its latch, so it may have changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSummary {
    /// Free blocks that are not kept back for the group's own btrees.
    pub free_blocks: u32,
    /// The longest free extent.
    pub longest_free_blocks: u32,
}

/// The allocator's state of one volume.
#[doc(alias = "xfs_perag")]
#[derive(Debug)]
pub struct Space {
    groups: Growing<Arc<GroupState>, Volume>,
    /// What is freed is discarded on the device. Set when the volume is opened, if at all.
    discards: AtomicBool<Volume>,
}

/// The allocator's state of one group.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// How high the btrees can grow.
    pub(crate) heights: BtreeHeights,
    /// Free blocks in the high half, the longest extent in the low one.
    summary: AtomicU64<Group>,
    inner: Mutex<Inner, Group>,
}

/// What the lock of a group's state protects.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// Freed, and not durable yet.
    pub(crate) busy: BusyExtents,
    /// Kept back for btrees.
    pub(crate) reserves: Reserves,
    /// Blocks by which a btree has grown although the volume's count had none left to give.
    pub(crate) unpaid_blocks: u64,
}

impl Space {
    /// The state of a volume with these groups.
    pub(crate) fn new(
        geometry: &Geometry,
        groups: impl IntoIterator<Item = (Agf, Reserves)>,
    ) -> Self {
        let heights = BtreeHeights::new(geometry);
        let state = |(agf, reserves)| {
            let inner = Mutex::new(Inner { reserves, ..Inner::default() });
            let state = GroupState { heights, summary: AtomicU64::new(0), inner };
            state.publish(&agf);
            Arc::new(state)
        };
        let groups = groups.into_iter().map(state).collect();
        Self { groups, discards: AtomicBool::new(false) }
    }

    /// The state of the volume that this journal is of.
    ///
    /// # Panics
    ///
    /// If the journal was not opened by [`open_journal`](crate::open_journal).
    #[must_use]
    pub fn of(journal: &Journal) -> &Arc<Self> {
        journal.extension(|| unreachable!("the journal was opened without its allocator"))
    }

    /// How many groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// How much free space a group has, without waiting for anybody.
    #[must_use]
    pub fn summary(&self, group: AgNumber) -> GroupSummary {
        self.group(group).map(|state| state.summary()).unwrap_or_default()
    }

    /// The volume has grown and was counted anew, with nothing under way: its groups keep back what
    /// `fresh` says, and those that they had not are added.
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

    /// The state of a group, if there is such a group.
    pub(crate) fn group(&self, group: AgNumber) -> Option<&Arc<GroupState>> {
        self.groups.get(group.0 as usize)
    }
}

impl GroupState {
    /// Locks what only the holder of the AGF changes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn refresh(&self, fresh: &Self) {
        let reserves = fresh.lock().reserves;
        let mut inner = self.lock();
        inner.reserves = reserves;
        // The volume's count is new, and owes nothing.
        inner.unpaid_blocks = 0;
        self.summary.store(fresh.summary.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Makes the numbers of a header visible to those who choose a group.
    pub(crate) fn publish(&self, agf: &Agf) {
        let kept = self.lock().reserves.kept_from(None);
        let free = u64::from(agf.free_blocks.saturating_sub(kept));
        self.summary.store(free << 32 | u64::from(agf.longest_free_blocks), Ordering::Relaxed);
    }

    fn summary(&self) -> GroupSummary {
        let packed = self.summary.load(Ordering::Relaxed);
        GroupSummary { free_blocks: (packed >> 32) as u32, longest_free_blocks: packed as u32 }
    }

    /// Takes blocks out of an account, or puts them back; returns how many the account did not
    /// have, or never had.
    pub(crate) fn draw(&self, account: Account, blocks: u32) -> u32 {
        self.lock().reserves.account(account).draw(blocks)
    }

    pub(crate) fn refill(&self, account: Account, blocks: u32) -> u32 {
        self.lock().reserves.account(account).refill(blocks)
    }
}
