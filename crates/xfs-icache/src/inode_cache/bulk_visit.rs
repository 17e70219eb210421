//! Inodes of a chunk that come into memory together, are looked at, and go together.
//!
//! Owns: that what is done for each inode that is looked up is done once for all of a chunk here: the look at the
//! index, the lock of the chunk, the guard, the counters. Does **not** own which inodes there are, or those that
//! somebody else has in memory or at work: they are left to who asks for each ([`InodeCache::take_as`]).
//!
//! ```text
//!   hold the chunk ─► share the latches of what is not there, by trying ─► lock: all enter ─► show each
//!        ─► give the latches back ─► each loses its user ─► lock: those that nobody took leave
//! ```
//!
//! # Invariants
//!
//! - **I1** The latches are shared from before an inode is read until it is in, as the [table](super)'s I1 says, and
//!   while it is shown: so what is shown of it is as it came.
//! - **I2** Nobody waits with a latch here but for the lock of a chunk, which is held over no wait.
//! - **I3** What has got another user meanwhile stays, or is freed, as it would by [`InodeCache::release`].

use std::sync::Arc;

use super::InodeCache;
use crate::cached_inode::{CachedInode, Keep, Phase, ReleaseOutcome};
use crate::counts::Count;
use crate::inode_walk::InodeWalk;
use crate::kind::Inode;
use crate::store::{BulkRequest, InodeOf, Store};

impl<S: Store> InodeCache<S> {
    /// Brings those of the inodes into memory that are not there and that nobody holds, shows each, in the order of
    /// their numbers, and lets go of them. Returns the others: a bit for each.
    ///
    /// `show` must not wait: the latches are shared.
    pub fn bulk_visit(&self, wanted: BulkRequest, mut show: impl FnMut(&InodeOf<S>)) -> u64 {
        // A list has no chunks.
        if self.list.is_some() || wanted.inodes == 0 {
            return wanted.inodes;
        }
        let Some(held) = self.hold(wanted.first) else { return wanted.inodes };
        let absent = BulkRequest { inodes: wanted.inodes & !held.present(), ..wanted };
        let came = self.store.load_together(absent, |loaded: &[Arc<InodeOf<S>>]| {
            let place = |inode: &InodeOf<S>| (inode.number().0 - wanted.first.0) as u32;
            let entries =
                held.enter(loaded.iter().map(|inode| (place(inode), inode)), |inode, slot| {
                    let inode = Arc::clone(inode);
                    Arc::new(CachedInode::new(inode, Phase::Live, Keep::Once, Some(slot)))
                });
            entries.iter().for_each(|entry| show(entry.live()));
            entries
        });
        let entries = came.unwrap_or_default();
        if entries.is_empty() {
            return wanted.inodes;
        }
        let bit = |entry: &Arc<CachedInode<S::Kind>>| 1_u64 << (entry.number().0 - wanted.first.0);
        let passed = entries.iter().map(bit).fold(0, |all, bit| all | bit);
        let count = entries.len() as u64;
        self.counts.note_many(Count::Attempt, count);
        self.counts.note_many(Count::Missed, count);
        self.size.add_many(count);
        let going = self.release_all(entries);
        let gone = u64::from(held.remove(&going));
        self.size.subtract_many(gone);
        self.counts.note_many(Count::Evicted, gone);
        wanted.inodes & !passed
    }

    /// Gives up a use of each. Returns those that the caller has to take out.
    fn release_all(
        &self,
        mut entries: Vec<Arc<CachedInode<S::Kind>>>,
    ) -> Vec<Arc<CachedInode<S::Kind>>> {
        let is_active = self.is_active();
        self.counts.note_many(Count::Released, entries.len() as u64);
        entries.retain(|entry| {
            let release = entry.release(is_active);
            if release == ReleaseOutcome::Evicted {
                return true;
            }
            if self.settle(Arc::clone(entry), release) == ReleaseOutcome::NeedsInactivation {
                self.inactivation.wake();
            }
            false
        });
        entries
    }
}

#[cfg(test)]
mod tests;
