//! The dquots that the threads of a slot used last.
//!
//! Owns: one dquot of each type for each slot. Does **not** own: the dquots, which their
//! [shard](super::shard) finds, or reading them.
//!
//! Files that one thread changes mostly have the same owners. This cache finds their dquots under
//! one lock of the slot. Without it, each dquot takes a lock of its shard and a search there.
//!
//! A dquot stays in its shard while this cache refers to it, so the cache has the only dquot of the
//! owner (Q4).

use std::sync::Arc;

use xfs_format::dquot::QuotaKind;
use xfs_sync::{Mutex, Slot, Slots};
use xfs_trans::{Dquot, OwnerDquots, QuotaOwners};

/// The dquots that the threads of each slot used last.
pub(super) struct RecentDquots(Slots<Mutex<OwnerDquots, Slot>>);

impl RecentDquots {
    pub(super) fn new() -> Self {
        Self(Slots::new(Mutex::default))
    }

    /// Returns those dquots of an inode's owners that the calling thread's slot has, for the types
    /// for which `is_counted` returns `true`. Also returns whether they are all dquots of these
    /// types.
    pub(super) fn find(
        &self,
        owners: QuotaOwners,
        is_counted: impl Fn(QuotaKind) -> bool,
    ) -> (OwnerDquots, bool) {
        let mut found = OwnerDquots::default();
        let mut is_whole = true;
        let recent = self.0.mine().lock();
        for ((kind, recent), found) in QuotaKind::ALL.into_iter().zip(&*recent).zip(&mut found) {
            if is_counted(kind) {
                let is_owner = |dquot: &&Arc<Dquot>| dquot.id() == owners.id(kind);
                *found = recent.as_ref().filter(is_owner).map(Arc::clone);
                is_whole &= found.is_some();
            }
        }
        (found, is_whole)
    }

    /// Keeps the dquots for the next call by a thread of this slot.
    pub(super) fn keep(&self, dquots: &OwnerDquots) {
        let mut replaced = OwnerDquots::default();
        let mut recent = self.0.mine().lock();
        for ((recent, dquot), replaced) in recent.iter_mut().zip(dquots).zip(&mut replaced) {
            if let Some(dquot) = dquot {
                *replaced = recent.replace(Arc::clone(dquot));
            }
        }
        // The last reference to a dquot is dropped after the lock.
        drop(recent);
    }
}
