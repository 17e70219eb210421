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

mod chunk;
mod counts;
mod doomed;
mod entry;
mod group;
mod hints;
mod passage;
mod reclaim;
mod rights;
mod size;
mod store;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_locks::WaitGraph;
use xfs_sync::{
    AppendOnlyVec, AtomicBool, CachePadded, Mutex, Ordering, Slot, Slots, Volume, yield_now,
};
use xfs_trans::Journal;

pub(crate) use chunk::Tag;
pub(crate) use counts::{Count, InodeCounts};
use doomed::Doomed;
use entry::Taken;
pub(crate) use entry::{Entry, Inode, Keep, Phase, Release, Sweep};
pub(crate) use group::HeldChunk;
use group::{Before, Group};
use reclaim::Rotors;
use size::Size;
pub(crate) use store::{Store, Wanted};

use crate::superblock::{Filesystem, InodeList, Mark, Step, Visit, Which};

/// Inodes that stay in memory, unless said otherwise.
pub(crate) const DEFAULT_INODES: u64 = 1 << 16;

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
pub(crate) struct Table<S: Store = Arc<Journal>> {
    store: S,
    groups: AppendOnlyVec<CachePadded<Group<S::Inode>>, Volume>,
    /// With [`InodeIndex::OneList`].
    list: Option<InodeList<S::Inode>>,
    /// Where each slot has read an inode last: the next one often lies beside it.
    near: Slots<Mutex<S::Near, Slot>>,
    size: Size,
    rotors: Rotors,
    doomed: Doomed<S::Inode>,
    /// Which process waits for which with a record lock, and how many of those there are.
    waits: WaitGraph,
    counts: InodeCounts,
    active: AtomicBool<Volume>,
}

impl<S: Store> Table<S> {
    /// An empty table, in which about `most` inodes stay that nobody uses.
    pub(crate) fn new(store: S, most: u64, index: InodeIndex) -> Self {
        let groups = (0..store.groups()).map(|_| CachePadded::new(Group::new())).collect();
        Self {
            groups,
            list: (index == InodeIndex::OneList).then(InodeList::new),
            near: Slots::new(Mutex::default),
            size: Size::new(most),
            rotors: Rotors::new(store.groups()),
            doomed: Doomed::new(),
            waits: WaitGraph::new(),
            counts: InodeCounts::new(),
            active: AtomicBool::new(true),
            store,
        }
    }

    /// The volume may have got more groups. Nobody has asked for an inode of theirs yet.
    pub(crate) fn extend_groups(&self) {
        let new = self.groups.len()..self.store.groups();
        self.groups.extend(new.map(|_| CachePadded::new(Group::new())));
    }

    fn place(&self, number: InodeNumber) -> Result<(&Group<S::Inode>, u32)> {
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
    pub(crate) fn take(&self, number: InodeNumber) -> Result<Arc<Entry<S::Inode>>> {
        self.take_as(number, Keep::Cached)
    }

    /// As [`take`](Self::take). One that is read for somebody who looks at it once goes with its last
    /// user, unless others have asked for it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub(crate) fn take_as(&self, number: InodeNumber, keep: Keep) -> Result<Arc<Entry<S::Inode>>> {
        let (group, inode) = self.place(number)?;
        self.counts.note(Count::Attempt);
        loop {
            if let Some(entry) = group.find(inode) {
                match entry.take(keep) {
                    Taken::Here => self.counts.note(Count::Found),
                    Taken::Recycled => self.counts.note(Count::Recycled),
                    Taken::Doomed => return Err(PosixError::NotFound.into()),
                    Taken::Evicted => {
                        yield_now();
                        continue;
                    }
                }
                return Ok(entry);
            }
            let put = |live| self.put(group, inode, (live, Phase::Live, keep), |_| false);
            match self.load(number, put)? {
                Some((entry, Before::Nothing | Before::Replaced)) => {
                    self.counts.note(Count::Missed);
                    return Ok(entry);
                }
                Some((_, Before::Stays)) => self.counts.note(Count::Duplicate),
                None => {}
            }
        }
    }

    /// Reads an inode, as [`Store::load`] does, by way of what this thread has kept of the last one.
    fn load<R>(
        &self,
        number: InodeNumber,
        put: impl FnOnce(Arc<S::Inode>) -> R,
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
    pub(crate) fn forget_near(&self) {
        self.near.iter().for_each(|near| *near.lock() = S::Near::default());
    }

    /// Which of 64 inodes are in memory: a bit for each, from this number on.
    pub(crate) fn present(&self, first: InodeNumber) -> u64 {
        self.place(first).map_or(0, |(group, inode)| group.present(inode))
    }

    /// Keeps room in the index for the 64 inodes of this one's chunk, for who has many of them come and go.
    pub(crate) fn hold(&self, number: InodeNumber) -> Option<HeldChunk<'_, S::Inode>> {
        self.place(number).ok().map(|(group, inode)| group.hold(inode))
    }

    /// Shows the inode of this number to `look`, if it is in memory: nobody keeps it from going.
    pub(crate) fn peek<R>(
        &self,
        number: InodeNumber,
        look: impl FnOnce(&Arc<Entry<S::Inode>>) -> R,
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
    pub(crate) fn insert(&self, live: Arc<S::Inode>) -> Result<Arc<Entry<S::Inode>>> {
        let number = live.number();
        let (group, inode) = self.place(number)?;
        let new = (live, Phase::New, Keep::Cached);
        match self.put(group, inode, new, Entry::is_gone) {
            (_, Before::Stays) => Err(self.store.in_use(number)),
            (entry, _) => {
                self.counts.note(Count::Made);
                Ok(entry)
            }
        }
    }

    fn put(
        &self,
        group: &Group<S::Inode>,
        inode: u32,
        (live, phase, keep): (Arc<S::Inode>, Phase, Keep),
        replaces: impl FnOnce(&Entry<S::Inode>) -> bool,
    ) -> (Arc<Entry<S::Inode>>, Before) {
        let make = |spot| Arc::new(Entry::new(live, phase, keep, Some(spot)));
        let (entry, before) = group.insert(inode, make, replaces);
        if let (Some(list), Before::Nothing | Before::Replaced) = (&self.list, &before) {
            list.insert(entry.number().0, Arc::clone(&entry));
        }
        match before {
            Before::Nothing => self.size.add(),
            // Whoever frees it finds that it is out.
            Before::Replaced => self.counts.note(Count::Freed),
            Before::Stays => {}
        }
        (entry, before)
    }

    /// Gives up a use, and leaves what is doomed by it in the queue of this thread, for who calls
    /// [`free_mine`](Self::free_mine) next.
    fn release_to_queue(&self, entry: Arc<Entry<S::Inode>>) -> Release {
        let release = entry.release(self.is_active());
        self.counts.note(Count::Released);
        self.settle(entry, release)
    }

    /// Does what a use that was given up leaves to do. Returns what is left then.
    fn settle(&self, entry: Arc<Entry<S::Inode>>, release: Release) -> Release {
        match release {
            Release::InUse => {}
            Release::Abandoned => return self.abandon(&entry),
            Release::Doomed => self.doomed.push(entry),
            Release::Evicted => self.remove(&entry),
            Release::Idle => self.reclaim_due(),
        }
        release
    }

    /// Takes away the marks of an inode to which nobody can come any more: it has no name, and no other user.
    fn abandon(&self, entry: &Arc<Entry<S::Inode>>) -> Release {
        let watches = entry.take_marks(Mark::is_watch);
        watches.iter().for_each(|watch| watch.end_with(entry.number()));
        let has_locks = entry.locks().release_processes(&self.waits);
        if has_locks {
            entry.unmark();
        }
        let release = |_| self.release_to_queue(Arc::clone(entry));
        let uses = watches.len() + usize::from(has_locks);
        (0..uses).map(release).last().unwrap_or(Release::InUse)
    }

    /// Takes the locks of processes away that nobody has given up, of a table that is taken down.
    pub(crate) fn release_locks(&self) {
        let _ = self.iter_inodes(Which::Referenced, |entry| {
            if entry.locks().release_processes(&self.waits) {
                entry.unmark();
                self.release(Arc::clone(entry));
            }
            ControlFlow::Continue(())
        });
    }

    /// Which process waits for which with a record lock.
    pub(crate) fn waits(&self) -> &WaitGraph {
        &self.waits
    }

    /// Gives up a use. What is doomed by it is freed by the thread that [serves](Self::serve).
    pub(crate) fn release(&self, entry: Arc<Entry<S::Inode>>) {
        if self.release_to_queue(entry) == Release::Doomed {
            self.doomed.wake();
        }
    }

    /// Gives up a use at the end of an operation. What is doomed by it is freed at once.
    pub(crate) fn finish_with(&self, entry: Arc<Entry<S::Inode>>) {
        if self.release_to_queue(entry) == Release::Doomed {
            self.free_mine();
        }
    }

    /// Frees one inode that this thread has doomed; `false` if none waits. What cannot be freed stays
    /// on its unlinked list, and is no failure of who happens to meet it:
    /// [`take_failure`](Self::take_failure) says why.
    fn free_mine(&self) -> bool {
        self.doomed.free_mine(|entry| self.free(entry))
    }

    fn free(&self, entry: &Arc<Entry<S::Inode>>) -> Result<()> {
        let freed = self.store.inactivate(entry.live());
        self.take_out_freed(entry);
        freed
    }

    /// Takes out an inode that was freed.
    pub(crate) fn take_out_freed(&self, entry: &Arc<Entry<S::Inode>>) {
        self.take_out(entry, Count::Freed);
    }

    /// Makes room before something is changed: frees and evicts some, if much waits for that.
    pub(crate) fn throttle(&self) {
        self.doomed.shorten_mine(|entry| self.free(entry));
        self.reclaim_due();
    }

    /// As [`throttle`](Self::throttle), where no thread [serves](Self::serve): frees all inodes that this thread has
    /// doomed.
    pub(crate) fn make_room_alone(&self) {
        while self.free_mine() {}
        self.reclaim_due();
    }

    /// Why an inode could not be freed, if there was one.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.doomed.take_failure()
    }

    /// Frees everything that waits for it, and waits for what others are freeing.
    pub(crate) fn drain(&self) {
        self.doomed.drain(|entry| self.free(entry));
    }

    /// Frees what users leave behind, until the table is [closed](Self::close): the work of a thread.
    pub(crate) fn serve(&self) {
        self.doomed.serve(|entry| self.free(entry));
    }

    /// Lets [`serve`](Self::serve) return.
    pub(crate) fn close(&self) {
        self.doomed.close();
    }

    /// From now on inodes go with their last user, and walks give no uses of those without one.
    pub(crate) fn deactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
        self.forget_near();
    }

    /// What happened to inodes.
    pub(crate) fn counts(&self) -> &InodeCounts {
        &self.counts
    }

    fn take_out(&self, entry: &Arc<Entry<S::Inode>>, count: Count) {
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

impl<S: Store> Filesystem for Table<S> {
    type Inode = S::Inode;

    fn parts(&self) -> usize {
        if self.list.is_some() { 1 } else { self.groups.len() }
    }

    fn list(&self) -> Option<&InodeList<S::Inode>> {
        self.list.as_ref()
    }

    fn visit(&self, part: usize, cursor: u64, tag: Tag, visit: &mut Visit<'_, S::Inode>) -> Step {
        match &self.list {
            Some(list) => list.visit(cursor, visit),
            None => {
                self.groups.get(part).map_or(Step::End, |group| group.visit(cursor, tag, visit))
            }
        }
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    fn release(&self, entry: Arc<Entry<S::Inode>>) {
        self.release(entry);
    }

    fn remove(&self, entry: &Arc<Entry<S::Inode>>) {
        self.take_out(entry, Count::Evicted);
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
