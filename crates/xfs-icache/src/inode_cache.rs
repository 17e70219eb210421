//! The inode cache of a volume that is mounted read-write.
//!
//! Owns: the rule that there is one copy of an inode at a time, the references to this copy, and
//! how long an inode stays cached without a reference. Also owns inodes that wait to be freed,
//! because they have neither a name nor a reference. Does **not** own the inode itself, reading and
//! freeing it ([`InodeStore`]), or walks over all inodes ([`InodeWalk`]). The design is in
//! docs/internals/cache.md, and the life of one inode in `cached_inode`.
//!
//! # Invariants
//!
//! - **I1** A thread that inserts an inode holds the latch of that inode: shared if it has read the
//!   inode, exclusive if it makes the inode. So there is at most one copy in memory whenever the
//!   latch is free.
//! - **I2** A caller may hold an inode number whose chunk has been freed since, and the old inode
//!   may still be on disk there. So an inode is not inserted if a chunk of its group was freed
//!   while the inode was read. Once a chunk of a group was freed, lookups in this group ask the
//!   inode btree first.
//! - Reclaim waits for no I/O, because a dirty inode is kept by the log, and for no lock that is
//!   held over a wait. A thread reclaims when it has released a reference or begins an operation,
//!   never inside a transaction.
//!
//! A lookup finds an inode without a lock, and taking a reference writes only to that inode. The
//! index is shared by the threads that insert into or remove from one group. Nothing is shared by
//! the whole volume.

mod bulk_visit;
mod reclaim;

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_locks::WaitGraph;
use xfs_sync::{
    AppendOnlyVec, AtomicBool, CachePadded, Mutex, Ordering, Slot, Slots, Volume, yield_now,
};

use crate::cache_ref::{CacheRef, MarkRef, StoredRef, TakenMarks};
use crate::cached_inode::{CachedInode, Keep, Phase, ReleaseOutcome, TakeOutcome};
use crate::clock_hands::ClockHands;
use crate::counts::{Count, InodeCounts};
use crate::filter::{Tag, WalkFilter};
use crate::group::{CachedGroup, HeldChunk, Occupancy};
use crate::inactivation::InactivationQueue;
use crate::inode_list::InodeList;
use crate::inode_walk::InodeWalk;
use crate::kind::CacheableInode;
use crate::marks::Mark;
use crate::size::Size;
use crate::store::{InodeOf, InodeStore};
use crate::walk_step::{WalkStep, WalkVisitor};

/// The number of inodes without a reference that stay cached by default.
pub const DEFAULT_INODES: u64 = 1 << 16;

/// Whether the cache has one list of all inodes in addition to the indexes of the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InodeIndex {
    /// The cache has only the indexes of the groups.
    #[default]
    ByGroup,
    /// The cache has a list of all inodes under one lock, and walks over the cache use that list.
    /// For benchmarks only.
    OneList,
}

/// The inode cache of a volume, over a [`InodeStore`] that reads and frees inodes.
pub struct InodeCache<S: InodeStore> {
    store: S,
    groups: AppendOnlyVec<CachePadded<CachedGroup<S::Kind>>, Volume>,
    /// The list of all inodes. `None` if the index is `InodeIndex::ByGroup`.
    list: Option<InodeList<S::Kind>>,
    /// For each processor slot, the place at which its threads last read an inode. The next inode
    /// to be read is often a neighbour.
    near: Slots<Mutex<S::Near, Slot>>,
    size: Size,
    hands: ClockHands,
    inactivation: InactivationQueue<S::Kind>,
    /// The processes that wait for each other's record locks, and the number of locks.
    waits: WaitGraph,
    counts: InodeCounts,
    active: AtomicBool<Volume>,
}

/// An inode to insert into the cache.
struct InsertedInode<S: InodeStore> {
    live: Arc<InodeOf<S>>,
    phase: Phase,
    keep: Keep,
}

impl<S: InodeStore> InodeCache<S> {
    /// Makes an empty cache in which about `most` inodes without a reference stay.
    pub fn new(store: S, most: u64, index: InodeIndex) -> Self {
        let groups = (0..store.groups()).map(|_| CachePadded::new(CachedGroup::new())).collect();
        Self {
            groups,
            list: (index == InodeIndex::OneList).then(InodeList::new),
            near: Slots::new(Mutex::default),
            size: Size::new(most),
            hands: ClockHands::new(store.groups()),
            inactivation: InactivationQueue::new(),
            waits: WaitGraph::new(),
            counts: InodeCounts::new(),
            active: AtomicBool::new(true),
            store,
        }
    }

    /// Adds the groups by which the volume has grown. No caller has asked for an inode in these
    /// groups yet.
    pub fn extend_groups(&self) {
        let new = self.groups.len()..self.store.groups();
        self.groups.extend(new.map(|_| CachePadded::new(CachedGroup::new())));
    }

    fn place(&self, number: InodeNumber) -> Result<(&CachedGroup<S::Kind>, u32)> {
        let place = self.store.place(number).and_then(|(group, inode)| {
            let group = self.groups.get(group as usize)?;
            Some((&**group, inode))
        });
        place.ok_or(PosixError::NotFound.into())
    }

    /// Takes a reference to inode `number`. Reads the inode if it is not cached.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NotFound`] if the inode is free or has no name any more, or a
    /// corruption or an I/O error if the inode cannot be read.
    pub fn take(&self, number: InodeNumber) -> Result<CacheRef<'_, Self>> {
        self.take_as(number, Keep::Cached)
    }

    /// Takes a reference as [`take`](Self::take) does. With [`Keep::Once`], an inode that was not
    /// cached is evicted when its last reference is released, unless another caller takes a
    /// reference with [`Keep::Cached`] meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](Self::take).
    pub fn take_as(&self, number: InodeNumber, keep: Keep) -> Result<CacheRef<'_, Self>> {
        let (group, inode) = self.place(number)?;
        self.counts.note(Count::Attempt);
        loop {
            if let Some(entry) = group.find(inode) {
                match entry.take(keep) {
                    TakeOutcome::Here => self.counts.note(Count::Found),
                    TakeOutcome::Recycled => self.counts.note(Count::Recycled),
                    TakeOutcome::NeedsInactivation => return Err(PosixError::NotFound.into()),
                    TakeOutcome::Evicted => {
                        // The evicting thread removes the inode next, without waiting for I/O or
                        // for a lock that is held over a wait.
                        yield_now();
                        continue;
                    }
                }
                return Ok(CacheRef::new(self, entry));
            }
            let put = |live| {
                self.put(group, inode, InsertedInode { live, phase: Phase::Live, keep }, |_| false)
            };
            match self.load(number, put)? {
                Some((entry, Occupancy::Vacant | Occupancy::Replaced)) => {
                    self.counts.note(Count::Missed);
                    return Ok(CacheRef::new(self, entry));
                }
                Some((_, Occupancy::Occupied)) => self.counts.note(Count::Duplicate),
                // The inode may have been freed while it was read, and was not inserted (I2).
                None => {}
            }
        }
    }

    /// Reads an inode by [`InodeStore::load`]. The search starts where the thread's processor slot
    /// last read an inode. The store holds the latch of the inode while `put` inserts the inode
    /// (I1). Returns `None` if the inode may have been freed after it was read.
    fn load<R>(
        &self,
        number: InodeNumber,
        put: impl FnOnce(Arc<InodeOf<S>>) -> R,
    ) -> Result<Option<R>> {
        // Another thread of this slot may be reading. Do not wait for it.
        let Some(mut near) = self.near.mine().try_lock() else {
            return self.store.load(number, &mut S::Near::default(), put);
        };
        let loaded = self.store.load(number, &mut near, put);
        if !matches!(loaded, Ok(Some(_))) {
            *near = S::Near::default();
        }
        loaded
    }

    /// Makes all processor slots forget the place at which they last read an inode, and all groups
    /// the chunk that they emptied last.
    pub fn forget_near(&self) {
        self.near.iter().for_each(|near| *near.lock() = S::Near::default());
        self.groups.iter().for_each(|group| group.forget_emptied());
    }

    /// Returns which of the 64 inodes from `first` on are cached: bit n is set if inode `first` + n
    /// is cached.
    ///
    /// # Panics
    ///
    /// Panics if the volume has no group for inode `first`.
    pub fn present(&self, first: InodeNumber) -> u64 {
        let place = self.store.place(first);
        let (group, inode) = place.expect("the group of the inodes exists");
        // The cache does not have a group yet by which the volume has just grown.
        self.groups.get(group as usize).map_or(0, |group| group.present(inode))
    }

    /// Keeps the chunk of an inode in the index of its group, even while the chunk is empty. Called
    /// before many inodes of the chunk are inserted and removed. Returns `None` if the volume
    /// cannot have an inode of this number.
    pub fn hold(&self, number: InodeNumber) -> Option<HeldChunk<'_, S::Kind>> {
        self.place(number).ok().map(|(group, inode)| group.hold(inode))
    }

    /// Calls `look` with an inode if the inode is cached, and returns the result of `look`. Returns
    /// `None` if the inode is not cached. Another thread may evict the inode meanwhile.
    pub fn peek<R>(
        &self,
        number: InodeNumber,
        look: impl FnOnce(&Arc<CachedInode<S::Kind>>) -> R,
    ) -> Option<R> {
        let (group, inode) = self.place(number).ok()?;
        group.peek(inode, look)
    }

    /// Inserts an inode that was just made, and returns it with one reference. If the cache still
    /// has a freed file of the same inode number, the new inode replaces it. Walks skip the inode
    /// until it is [ready](CachedInode::set_ready).
    ///
    /// # Errors
    ///
    /// Returns a corruption if an older inode of this number is still in use: a name leads to that
    /// inode, but the inode btree calls it free.
    pub fn insert(&self, live: Arc<InodeOf<S>>) -> Result<CacheRef<'_, Self>> {
        let number = live.number();
        let (group, inode) = self.place(number)?;
        let new = InsertedInode { live, phase: Phase::New, keep: Keep::Cached };
        match self.put(group, inode, new, CachedInode::is_gone) {
            (_, Occupancy::Occupied) => Err(self.store.in_use(number)),
            (entry, _) => {
                self.counts.note(Count::Made);
                Ok(CacheRef::new(self, entry))
            }
        }
    }

    fn put(
        &self,
        group: &CachedGroup<S::Kind>,
        inode: u32,
        InsertedInode { live, phase, keep }: InsertedInode<S>,
        replaces: impl FnOnce(&CachedInode<S::Kind>) -> bool,
    ) -> (Arc<CachedInode<S::Kind>>, Occupancy) {
        let make = |slot| Arc::new(CachedInode::new(live, phase, keep, Some(slot)));
        let (entry, before) = group.insert(inode, make, replaces);
        if let (Some(list), Occupancy::Vacant | Occupancy::Replaced) = (&self.list, &before) {
            list.insert(entry.number().0, Arc::clone(&entry));
        }
        match before {
            Occupancy::Vacant => self.size.add(),
            // The thread that frees the old inode finds that it has left the cache.
            Occupancy::Replaced => self.counts.note(Count::Freed),
            Occupancy::Occupied => {}
        }
        (entry, before)
    }

    /// Releases a reference. An inode that must then be freed is put into the queue of this thread,
    /// for the next call of [`free_mine`](Self::free_mine).
    fn release_to_queue(&self, entry: Arc<CachedInode<S::Kind>>) -> ReleaseOutcome {
        let release = entry.release(self.is_active());
        self.counts.note(Count::Released);
        self.settle(entry, release)
    }

    /// Does the work that remains after a reference was released with the outcome `release`.
    /// Returns `release`. If `release` is `Abandoned`, removes the marks of the inode and returns
    /// the outcome of that removal instead.
    fn settle(&self, entry: Arc<CachedInode<S::Kind>>, release: ReleaseOutcome) -> ReleaseOutcome {
        match release {
            ReleaseOutcome::InUse => {}
            ReleaseOutcome::Abandoned => return self.abandon(&entry),
            ReleaseOutcome::NeedsInactivation => self.inactivation.push(entry),
            ReleaseOutcome::Evicted => self.remove(&entry),
            // A thread that has released a reference reclaims.
            ReleaseOutcome::Idle => self.reclaim_due(),
        }
        release
    }

    /// Removes the marks of an inode that has no name, and no references except those of marks.
    /// Returns the outcome of releasing the last reference of these marks.
    fn abandon(&self, entry: &Arc<CachedInode<S::Kind>>) -> ReleaseOutcome {
        let mut watches = TakenMarks::take(self, entry, Mark::is_watch);
        watches.marks().iter().for_each(|watch| watch.end_with(entry.number()));
        let has_locks = entry.locks().release_processes(&self.waits);
        let of_locks = has_locks.then(|| MarkRef::resume(self, entry).into_reference());
        let of_watches = std::iter::from_fn(|| watches.pop_reference());
        let release = |held: CacheRef<'_, Self>| self.release_to_queue(held.store().into_counted());
        of_locks.into_iter().chain(of_watches).map(release).last().unwrap_or(ReleaseOutcome::InUse)
    }

    /// Releases the record locks that processes still hold when the volume is taken down.
    pub fn release_locks(&self) {
        self.for_each_inode(WalkFilter::Referenced, |entry| {
            if entry.locks().release_processes(&self.waits) {
                drop(MarkRef::resume(self, entry));
            }
        });
    }

    /// Returns the wait graph: the processes that wait for each other's record locks.
    pub fn waits(&self) -> &WaitGraph {
        &self.waits
    }

    /// Releases a reference at the end of an operation. If the inode must then be freed, this
    /// function frees it before it returns.
    pub fn finish_with(&self, held: StoredRef<S::Kind>) {
        if self.release_to_queue(held.into_counted()) == ReleaseOutcome::NeedsInactivation {
            self.free_mine();
        }
    }

    /// Frees one inode of the queue of this thread's processor slot. Returns `false` if the queue
    /// is empty. An inode that cannot be freed stays on its unlinked list. The error is kept, and
    /// [`take_failure`](Self::take_failure) returns it.
    fn free_mine(&self) -> bool {
        self.inactivation.free_mine(|entry| self.free(entry))
    }

    fn free(&self, entry: &Arc<CachedInode<S::Kind>>) -> Result<()> {
        let freed = self.store.inactivate(entry.live());
        self.take_out_freed(entry);
        freed
    }

    /// Removes from the cache an inode that was [claimed](StoredRef::claim) and freed on disk. The
    /// claim has given up the reference.
    pub fn take_out_claimed(&self, claimed: StoredRef<S::Kind>) {
        self.take_out_freed(&claimed.into_counted());
    }

    /// Removes from the cache an inode that was freed on disk.
    fn take_out_freed(&self, entry: &Arc<CachedInode<S::Kind>>) {
        self.take_out(entry, Count::Freed);
    }

    /// Makes room before an operation: if many inodes wait to be freed or evicted, frees and evicts
    /// some.
    pub fn throttle(&self) {
        self.inactivation.shorten_mine(|entry| self.free(entry));
        self.reclaim_due();
    }

    /// Makes room as [`throttle`](Self::throttle) does, for a volume on which no background thread
    /// frees inodes: frees all inodes that this thread has queued.
    pub fn make_room_alone(&self) {
        while self.free_mine() {}
        self.reclaim_due();
    }

    /// Returns the first error of an inode that could not be freed, and forgets this error. Returns
    /// `None` if there was no error since the last call.
    pub fn take_failure(&self) -> Option<Error> {
        self.inactivation.take_failure()
    }

    /// Frees the inodes of all queues on disk, and waits until other threads have freed the inodes
    /// that they took from the queues.
    pub fn drain(&self) {
        self.inactivation.drain(|entry| self.free(entry));
    }

    /// The body of a background thread: frees queued inodes until the cache is
    /// [closed](Self::close).
    pub fn serve(&self) {
        self.inactivation.serve(|entry| self.free(entry));
    }

    /// Makes [`serve`](Self::serve) return.
    pub fn close(&self) {
        self.inactivation.close();
    }

    /// Begins to take the volume down. From now on an inode is evicted when its last reference is
    /// released, and walks skip inodes without a reference.
    pub fn deactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
        self.forget_near();
    }

    /// Returns the counters of cache events.
    pub fn counts(&self) -> &InodeCounts {
        &self.counts
    }

    fn take_out(&self, entry: &Arc<CachedInode<S::Kind>>, count: Count) {
        let place = self.place(entry.number());
        let (group, inode) = place.expect("the group of a cached inode exists");
        if group.remove(inode, entry) {
            if let Some(list) = &self.list {
                list.remove(entry.number().0, entry);
            }
            self.size.subtract();
            self.counts.note(count);
        }
    }
}

impl<S: InodeStore> InodeWalk for InodeCache<S> {
    type Kind = S::Kind;

    fn parts(&self) -> usize {
        if self.list.is_some() { 1 } else { self.groups.len() }
    }

    fn list(&self) -> Option<&InodeList<S::Kind>> {
        self.list.as_ref()
    }

    fn visit(
        &self,
        part: usize,
        cursor: u64,
        tag: Tag,
        visit: &mut WalkVisitor<'_, S::Kind>,
    ) -> WalkStep {
        match &self.list {
            Some(list) => list.visit(cursor, visit),
            None => {
                let group = self.groups.get(part).expect("a walk visits the groups of the cache");
                group.visit(cursor, tag, visit)
            }
        }
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Releases a reference. If the inode must then be freed, the background thread
    /// ([`serve`](InodeCache::serve)) frees it.
    fn release(&self, held: StoredRef<S::Kind>) {
        if self.release_to_queue(held.into_counted()) == ReleaseOutcome::NeedsInactivation {
            self.inactivation.wake();
        }
    }

    fn remove(&self, entry: &Arc<CachedInode<S::Kind>>) {
        self.take_out(entry, Count::Evicted);
    }
}

#[cfg(test)]
mod tests;
