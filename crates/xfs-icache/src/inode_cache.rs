//! Inodes of a volume that is written to, as they are in memory.
//!
//! Owns: that there is one of an inode at a time, who uses it, how long it stays when nobody does, and
//! what waits to be freed because it has neither a name nor a user. Does **not** own what an inode is,
//! how it is read and freed ([`Store`]), or walks over all of them ([`superblock`](crate::superblock)).
//! The design stands in docs/internals/cache.md; the life of an inode in [`entry`].
//!
//! # Invariants
//!
//! - **I1** Who puts an inode in has its latch: shared to read it, alone to make it. So there is one in
//!   memory whenever the latch is free.
//! - **I2** A number may be older than the end of its chunk, and where that was may lie the inode as it
//!   was. So nothing is put in that was read while a chunk of its group was given back, and once one
//!   has been, the inode btree is asked first.
//! - **I3** Reclaiming waits for no I/O, since the log keeps what is dirty, and for no lock that is held
//!   over a wait. It is done by who has given up a use, or begins to change something, never inside a
//!   transaction.
//!
//! An entry is found without a lock; taking it writes that entry alone. What is shared by a group is
//! its index, by those who put in or take out, and nothing is shared by the volume.

mod bulk_visit;
mod reclaim;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_locks::WaitGraph;
use xfs_sync::{AtomicBool, CachePadded, Growing, Mutex, Ordering, Slot, Slots, Volume, yield_now};

use crate::cached_inode::{CachedInode, Keep, Phase, ReleaseOutcome, TakeOutcome};
use crate::clock_hands::ClockHands;
use crate::counts::{Count, InodeCounts};
use crate::filter::{Tag, WalkFilter};
use crate::group::{Group, HeldChunk, Occupancy};
use crate::inactivation::InactivationQueue;
use crate::inode_list::InodeList;
use crate::inode_walk::InodeWalk;
use crate::kind::Inode;
use crate::marks::Mark;
use crate::size::Size;
use crate::store::{InodeOf, Store};
use crate::walk_step::{WalkStep, WalkVisitor};

/// Inodes that stay in memory, unless said otherwise.
pub const DEFAULT_INODES: u64 = 1 << 16;

/// Whether there is a list of all inodes besides the indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InodeIndex {
    /// No: each group has an index of its own.
    #[default]
    ByGroup,
    /// Yes, under one lock, and walks go over it: to measure what that costs.
    OneList,
}

/// The inodes in memory.
pub struct InodeCache<S: Store> {
    store: S,
    groups: Growing<CachePadded<Group<S::Kind>>, Volume>,
    /// With [`InodeIndex::OneList`].
    list: Option<InodeList<S::Kind>>,
    /// Where each slot has read an inode last: the next one often lies beside it.
    near: Slots<Mutex<S::Near, Slot>>,
    size: Size,
    hands: ClockHands,
    inactivation: InactivationQueue<S::Kind>,
    /// Which process waits for which with a record lock, and how many of those there are.
    waits: WaitGraph,
    counts: InodeCounts,
    active: AtomicBool<Volume>,
}

impl<S: Store> InodeCache<S> {
    /// An empty table, in which about `most` inodes stay that nobody uses.
    pub fn new(store: S, most: u64, index: InodeIndex) -> Self {
        let groups = (0..store.groups()).map(|_| CachePadded::new(Group::new())).collect();
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

    /// The volume may have got more groups. Nobody has asked for an inode of theirs yet.
    pub fn extend_groups(&self) {
        let new = self.groups.len()..self.store.groups();
        self.groups.extend(new.map(|_| CachePadded::new(Group::new())));
    }

    fn place(&self, number: InodeNumber) -> Result<(&Group<S::Kind>, u32)> {
        let place = self.store.place(number).and_then(|(group, inode)| {
            let group = self.groups.get(group as usize)?;
            Some((&**group, inode))
        });
        place.ok_or(PosixError::NotFound.into())
    }

    /// The inode of this number, for one more user: from memory, or read.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for one that is free or has no name any more; what the volume holds
    /// may be corrupt.
    pub fn take(&self, number: InodeNumber) -> Result<Arc<CachedInode<S::Kind>>> {
        self.take_as(number, Keep::Cached)
    }

    /// As [`take`](Self::take). One that is read for somebody who looks at it once goes with its last
    /// user, unless others have asked for it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn take_as(&self, number: InodeNumber, keep: Keep) -> Result<Arc<CachedInode<S::Kind>>> {
        let (group, inode) = self.place(number)?;
        self.counts.note(Count::Attempt);
        loop {
            if let Some(entry) = group.find(inode) {
                match entry.take(keep) {
                    TakeOutcome::Here => self.counts.note(Count::Found),
                    TakeOutcome::Recycled => self.counts.note(Count::Recycled),
                    TakeOutcome::NeedsInactivation => return Err(PosixError::NotFound.into()),
                    TakeOutcome::Evicted => {
                        yield_now();
                        continue;
                    }
                }
                return Ok(entry);
            }
            let put = |live| self.put(group, inode, (live, Phase::Live, keep), |_| false);
            match self.load(number, put)? {
                Some((entry, Occupancy::Vacant | Occupancy::Replaced)) => {
                    self.counts.note(Count::Missed);
                    return Ok(entry);
                }
                Some((_, Occupancy::Occupied)) => self.counts.note(Count::Duplicate),
                None => {}
            }
        }
    }

    /// Reads an inode, as [`Store::load`] does, by way of what this thread has kept of the last one.
    fn load<R>(
        &self,
        number: InodeNumber,
        put: impl FnOnce(Arc<InodeOf<S>>) -> R,
    ) -> Result<Option<R>> {
        // Another thread of this slot may be reading: nobody waits for that.
        let Some(mut near) = self.near.mine().try_lock() else {
            return self.store.load(number, &mut S::Near::default(), put);
        };
        let loaded = self.store.load(number, &mut near, put);
        if !matches!(loaded, Ok(Some(_))) {
            *near = S::Near::default();
        }
        loaded
    }

    /// Lets go of what is kept of where inodes were read last.
    pub fn forget_near(&self) {
        self.near.iter().for_each(|near| *near.lock() = S::Near::default());
    }

    /// Which of 64 inodes are in memory: a bit for each, from this number on.
    pub fn present(&self, first: InodeNumber) -> u64 {
        self.place(first).map_or(0, |(group, inode)| group.present(inode))
    }

    /// Keeps room in the index for the 64 inodes of this one's chunk, for who has many of them come and go.
    pub fn hold(&self, number: InodeNumber) -> Option<HeldChunk<'_, S::Kind>> {
        self.place(number).ok().map(|(group, inode)| group.hold(inode))
    }

    /// Shows the inode of this number to `look`, if it is in memory: nobody keeps it from going.
    pub fn peek<R>(
        &self,
        number: InodeNumber,
        look: impl FnOnce(&Arc<CachedInode<S::Kind>>) -> R,
    ) -> Option<R> {
        let (group, inode) = self.place(number).ok()?;
        group.peek(inode, look)
    }

    /// Puts in an inode that has just been made, with one user. What stands there of an earlier file
    /// of that number has been freed, and is replaced. Walks pass over it until it is
    /// [ready](Entry::set_ready).
    ///
    /// # Errors
    ///
    /// An earlier one that is still there: the inode btree has called free what a name led to.
    pub fn insert(&self, live: Arc<InodeOf<S>>) -> Result<Arc<CachedInode<S::Kind>>> {
        let number = live.number();
        let (group, inode) = self.place(number)?;
        let new = (live, Phase::New, Keep::Cached);
        match self.put(group, inode, new, CachedInode::is_gone) {
            (_, Occupancy::Occupied) => Err(self.store.in_use(number)),
            (entry, _) => {
                self.counts.note(Count::Made);
                Ok(entry)
            }
        }
    }

    fn put(
        &self,
        group: &Group<S::Kind>,
        inode: u32,
        (live, phase, keep): (Arc<InodeOf<S>>, Phase, Keep),
        replaces: impl FnOnce(&CachedInode<S::Kind>) -> bool,
    ) -> (Arc<CachedInode<S::Kind>>, Occupancy) {
        let make = |slot| Arc::new(CachedInode::new(live, phase, keep, Some(slot)));
        let (entry, before) = group.insert(inode, make, replaces);
        if let (Some(list), Occupancy::Vacant | Occupancy::Replaced) = (&self.list, &before) {
            list.insert(entry.number().0, Arc::clone(&entry));
        }
        match before {
            Occupancy::Vacant => self.size.add(),
            // Whoever frees it finds that it is out.
            Occupancy::Replaced => self.counts.note(Count::Freed),
            Occupancy::Occupied => {}
        }
        (entry, before)
    }

    /// Gives up a use, and leaves what is doomed by it in the queue of this thread, for who calls
    /// [`free_mine`](Self::free_mine) next.
    fn release_to_queue(&self, entry: Arc<CachedInode<S::Kind>>) -> ReleaseOutcome {
        let release = entry.release(self.is_active());
        self.counts.note(Count::Released);
        self.settle(entry, release)
    }

    /// Does what a use that was given up leaves to do. Returns what is left then.
    fn settle(&self, entry: Arc<CachedInode<S::Kind>>, release: ReleaseOutcome) -> ReleaseOutcome {
        match release {
            ReleaseOutcome::InUse => {}
            ReleaseOutcome::Abandoned => return self.abandon(&entry),
            ReleaseOutcome::NeedsInactivation => self.inactivation.push(entry),
            ReleaseOutcome::Evicted => self.remove(&entry),
            ReleaseOutcome::Idle => self.reclaim_due(),
        }
        release
    }

    /// Takes away the marks of an inode to which nobody can come any more: it has no name, and no other user.
    fn abandon(&self, entry: &Arc<CachedInode<S::Kind>>) -> ReleaseOutcome {
        let watches = entry.take_marks(Mark::is_watch);
        watches.iter().for_each(|watch| watch.end_with(entry.number()));
        let has_locks = entry.locks().release_processes(&self.waits);
        if has_locks {
            entry.unmark();
        }
        let release = |_| self.release_to_queue(Arc::clone(entry));
        let uses = watches.len() + usize::from(has_locks);
        (0..uses).map(release).last().unwrap_or(ReleaseOutcome::InUse)
    }

    /// Takes the locks of processes away that nobody has given up, of a table that is taken down.
    pub fn release_locks(&self) {
        let _ = self.iter_inodes(WalkFilter::Referenced, |entry| {
            if entry.locks().release_processes(&self.waits) {
                entry.unmark();
                self.release(Arc::clone(entry));
            }
            ControlFlow::Continue(())
        });
    }

    /// Which process waits for which with a record lock.
    pub fn waits(&self) -> &WaitGraph {
        &self.waits
    }

    /// Gives up a use. What is doomed by it is freed by the thread that [serves](Self::serve).
    pub fn release(&self, entry: Arc<CachedInode<S::Kind>>) {
        if self.release_to_queue(entry) == ReleaseOutcome::NeedsInactivation {
            self.inactivation.wake();
        }
    }

    /// Gives up a use at the end of an operation. What is doomed by it is freed at once.
    pub fn finish_with(&self, entry: Arc<CachedInode<S::Kind>>) {
        if self.release_to_queue(entry) == ReleaseOutcome::NeedsInactivation {
            self.free_mine();
        }
    }

    /// Frees one inode that this thread has doomed; `false` if none waits. What cannot be freed stays
    /// on its unlinked list, and is no failure of who happens to meet it:
    /// [`take_failure`](Self::take_failure) says why.
    fn free_mine(&self) -> bool {
        self.inactivation.free_mine(|entry| self.free(entry))
    }

    fn free(&self, entry: &Arc<CachedInode<S::Kind>>) -> Result<()> {
        let freed = self.store.inactivate(entry.live());
        self.take_out_freed(entry);
        freed
    }

    /// Takes out an inode that was freed.
    pub fn take_out_freed(&self, entry: &Arc<CachedInode<S::Kind>>) {
        self.take_out(entry, Count::Freed);
    }

    /// Makes room before something is changed: frees and evicts some, if much waits for that.
    pub fn throttle(&self) {
        self.inactivation.shorten_mine(|entry| self.free(entry));
        self.reclaim_due();
    }

    /// As [`throttle`](Self::throttle), where no thread [serves](Self::serve): frees all inodes that this thread has
    /// doomed.
    pub fn make_room_alone(&self) {
        while self.free_mine() {}
        self.reclaim_due();
    }

    /// Why an inode could not be freed, if there was one.
    pub fn take_failure(&self) -> Option<Error> {
        self.inactivation.take_failure()
    }

    /// Frees everything that waits for it, and waits for what others are freeing.
    pub fn drain(&self) {
        self.inactivation.drain(|entry| self.free(entry));
    }

    /// Frees what users leave behind, until the table is [closed](Self::close): the work of a thread.
    pub fn serve(&self) {
        self.inactivation.serve(|entry| self.free(entry));
    }

    /// Lets [`serve`](Self::serve) return.
    pub fn close(&self) {
        self.inactivation.close();
    }

    /// From now on inodes go with their last user, and walks give no uses of those without one.
    pub fn deactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
        self.forget_near();
    }

    /// What happened to inodes.
    pub fn counts(&self) -> &InodeCounts {
        &self.counts
    }

    fn take_out(&self, entry: &Arc<CachedInode<S::Kind>>, count: Count) {
        let Ok((group, inode)) = self.place(entry.number()) else { return };
        if group.remove(inode, entry) {
            if let Some(list) = &self.list {
                list.remove(entry.number().0, entry);
            }
            self.size.subtract();
            self.counts.note(count);
        }
    }
}

impl<S: Store> InodeWalk for InodeCache<S> {
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
                self.groups.get(part).map_or(WalkStep::End, |group| group.visit(cursor, tag, visit))
            }
        }
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    fn release(&self, entry: Arc<CachedInode<S::Kind>>) {
        self.release(entry);
    }

    fn remove(&self, entry: &Arc<CachedInode<S::Kind>>) {
        self.take_out(entry, Count::Evicted);
    }
}

#[cfg(test)]
mod tests;
