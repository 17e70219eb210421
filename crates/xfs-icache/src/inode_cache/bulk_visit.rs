//! Bulk visit: reads the inodes of a chunk together, shows each to a visitor, and evicts them
//! together.
//!
//! Owns: doing the work of a lookup once for a whole chunk, not for each inode: the search in the
//! index, the lock of the chunk, the guard, the counters. Does **not** own which inodes exist.
//! Inodes that are cached or latched already are left to the caller, which takes each of them
//! ([`InodeCache::take_as`]).
//!
//! ```text
//!   hold the chunk ─► try to share the latches of absent inodes ─► lock: insert all ─► show each
//!        ─► unlock the latches ─► release each ─► lock: remove those that no other thread took
//! ```
//!
//! # Invariants
//!
//! - **I1** The latch of an inode is held in shared mode from before the inode is read until it is
//!   inserted, as I1 of the [cache](super) requires, and while it is shown. So no thread changes an
//!   inode between reading and showing it.
//! - While a thread holds a latch, this module waits only for the lock of a chunk, which is never
//!   held over a wait.
//! - **I3** An inode that another thread has taken meanwhile is not evicted. The visit releases its
//!   reference as [`InodeCache::release`] does.

use std::sync::Arc;

use super::InodeCache;
use crate::cached_inode::{CachedInode, Keep, Phase, ReleaseOutcome};
use crate::counts::Count;
use crate::group::HeldChunk;
use crate::inode_walk::InodeWalk;
use crate::kind::CacheableInode;
use crate::store::{BulkRequest, InodeOf, InodeStore};

impl<S: InodeStore> InodeCache<S> {
    /// Reads those `wanted` inodes that are neither cached nor latched, passes each to `show` in
    /// the order of their numbers, and evicts them. Returns the wanted inodes that were not shown,
    /// one bit each.
    ///
    /// `show` must not wait, because the latches are held.
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
            let visited = VisitRefs { cache: self, held: &held, entries };
            // The store still shares the latches (I1).
            visited.entries.iter().for_each(|entry| show(entry.live()));
            visited
        });
        let bit = |entry: &Arc<CachedInode<S::Kind>>| 1_u64 << (entry.number().0 - wanted.first.0);
        let passed = came.iter().flat_map(|visited| &visited.entries).map(bit);
        wanted.inodes & !passed.fold(0, |all, bit| all | bit)
    }

    /// Releases one reference to each inode. Returns those inodes that the caller must remove from
    /// the index.
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

/// The references of a bulk visit to the inodes that it has inserted. Dropping this value releases
/// them, and evicts the inodes that no other thread has taken.
struct VisitRefs<'a, S: InodeStore> {
    cache: &'a InodeCache<S>,
    held: &'a HeldChunk<'a, S::Kind>,
    entries: Vec<Arc<CachedInode<S::Kind>>>,
}

impl<S: InodeStore> Drop for VisitRefs<'_, S> {
    fn drop(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let (cache, count) = (self.cache, self.entries.len() as u64);
        cache.counts.note_many(Count::Attempt, count);
        cache.counts.note_many(Count::Missed, count);
        cache.size.add_many(count);
        let going = cache.release_all(std::mem::take(&mut self.entries));
        let gone = u64::from(self.held.remove(&going));
        cache.size.subtract_many(gone);
        cache.counts.note_many(Count::Evicted, gone);
    }
}

#[cfg(test)]
mod tests;
