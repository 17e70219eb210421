//! Inodes of a volume that is written to, as they are in memory.
//!
//! Owns: that there is one [`Live`] of an inode at a time, who holds it, how long it stays when
//! nobody does, and what waits to be freed because it has neither a name nor a user. Does **not**
//! own what an inode is, or how it is freed ([`Live::inactivate`]).
//!
//! ```text
//!           load, insert                 release: last user
//!  absent ───────────────► in use ◄────────────────────────► idle ──► absent   (sweep)
//!                            │              get
//!                            │ release: last user, no name
//!                            ▼
//!                         doomed ──► freed on disk ──► absent          (Table::free)
//! ```
//!
//! # Invariants
//!
//! - **I1** An entry that is doomed or evicted gets no users again: who meets one looks again, or is
//!   told that there is no such inode.
//! - **I2** The last user of an inode without a name dooms it, once.
//! - **I3** Who puts an inode in has its latch: shared to read it, alone to make it. So there is one in
//!   memory whenever the latch is free.
//! - **I4** A number may be older than the end of its chunk, and where that was may lie the inode as it
//!   was. So nothing is put in that was read while a chunk of its group was given back, and once one
//!   has been, the inode btree is asked first.
//!
//! An entry is found without a lock; taking it writes that entry alone. What is shared by a group
//! is the queue of its idle entries.

mod entry;
mod idle;

use std::sync::Arc;

use xfs_alloc::{InodeState, chunks_freed, latched_inode_state};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::agi::AgiCheck;
use xfs_format::{AgNumber, Corruption, Geometry, InodeNumber, Place, Structure};
use xfs_inode::Live;
use xfs_sync::{CachePadded, Condvar, Mutex, Volume};
use xfs_trans::Journal;

pub(crate) use entry::Entry;
use entry::{Release, Taken};
use idle::Idle;

/// Inodes that nobody uses and that stay in memory, in each group.
const IDLE_PER_GROUP: usize = 4096;

/// The inodes of one group.
struct Group {
    entries: papaya::HashMap<u64, Arc<Entry>>,
    idle: Idle,
}

impl Group {
    /// Reads an inode into the table. `None`: somebody else has, or a chunk was given back since there
    /// were `freed`, and it has to be looked for again.
    fn load(
        &self,
        journal: &Journal,
        number: InodeNumber,
        freed: u64,
    ) -> Result<Option<Arc<Entry>>> {
        // Shared until the entry is in the table: a transaction that makes a file of this number, or
        // frees it, comes before or after, and never meets a second inode in memory (I3).
        let record = journal.inode(number)?;
        let _latch = record.latch().shared();
        if !record.is_live() || chunks_freed(journal, number) != freed {
            return Ok(None);
        }
        let live = Live::of_record(Arc::clone(&record), journal.geometry())?;
        // Those without a name are in the table, or wait on their list for the next recovery.
        if live.inode().core().nlink == 0 {
            return Err(PosixError::NotFound.into());
        }
        let entry = Arc::new(Entry::new(Arc::new(live)));
        let inserted = self.entries.pin().try_insert(number.0, Arc::clone(&entry)).is_ok();
        Ok(inserted.then_some(entry))
    }
}

/// What waits to be freed.
#[derive(Default)]
struct Doomed {
    waiting: Vec<Arc<Entry>>,
    /// Entries that somebody is freeing just now.
    underway: usize,
    closed: bool,
    /// Why an inode could not be freed: the first time that this happened.
    failure: Option<Error>,
}

/// The inodes in memory.
pub(crate) struct Table {
    groups: Box<[CachePadded<Group>]>,
    doomed: Mutex<Doomed, Volume>,
    /// `doomed` has changed.
    changed: Condvar<Volume>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self::with_idle(geometry, IDLE_PER_GROUP)
    }

    /// One in which so many inodes of a group stay that nobody uses.
    fn with_idle(geometry: &Geometry, most: usize) -> Self {
        let group = |_| {
            let (entries, idle) = (papaya::HashMap::new(), Idle::new(most));
            CachePadded::new(Group { entries, idle })
        };
        let groups = geometry.groups().map(group).collect();
        Self { groups, doomed: Mutex::default(), changed: Condvar::new() }
    }

    fn group(&self, geometry: &Geometry, number: InodeNumber) -> Result<&Group> {
        let (AgNumber(group), _) = geometry.split_inode(number).ok_or(PosixError::NotFound)?;
        self.groups.get(group as usize).map(|group| &**group).ok_or(PosixError::NotFound.into())
    }

    /// The inode of this number, for one more user: from memory, or read.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for one that is free or has no name any more; what the volume holds
    /// may be corrupt.
    pub(crate) fn take(&self, journal: &Journal, number: InodeNumber) -> Result<Arc<Entry>> {
        let group = self.group(journal.geometry(), number)?;
        loop {
            let found = group.entries.pin().get(&number.0).map(Arc::clone);
            if let Some(entry) = found {
                match entry.take() {
                    Taken::Here => return Ok(entry),
                    Taken::Doomed => return Err(PosixError::NotFound.into()),
                    // It leaves the table next.
                    Taken::Evicted => std::thread::yield_now(),
                }
                continue;
            }
            let freed = chunks_freed(journal, number);
            if freed > 0 && latched_inode_state(journal, number)? != InodeState::Allocated {
                return Err(PosixError::NotFound.into());
            }
            match group.load(journal, number, freed) {
                Ok(Some(entry)) => return Ok(entry),
                Ok(None) => {}
                // What was read may have been no inode any more (I4).
                Err(_) if chunks_freed(journal, number) != freed => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts in an inode that has just been made, with one user. What stands there of an earlier file
    /// of that number has been freed, and is replaced.
    ///
    /// # Errors
    ///
    /// An earlier one that is still there: the inode btree has called free what a name led to.
    pub(crate) fn insert(&self, geometry: &Geometry, live: Arc<Live>) -> Result<Arc<Entry>> {
        let number = live.number();
        let group = self.group(geometry, number)?;
        let entry = Arc::new(Entry::new(live));
        let pinned = group.entries.pin();
        if pinned.insert(number.0, Arc::clone(&entry)).is_some_and(|before| !before.is_gone()) {
            return Err(in_use(geometry, number).into());
        }
        Ok(entry)
    }

    /// Gives up one use. The last one of an inode without a name leaves it to be freed by
    /// [`free_one`](Self::free_one), the last one of another leaves it idle.
    pub(crate) fn release(&self, geometry: &Geometry, entry: Arc<Entry>) {
        match entry.release() {
            Release::InUse => {}
            Release::Doomed => {
                self.doomed.lock().waiting.push(entry);
                self.changed.notify_all();
            }
            Release::Idle => {
                let Ok(group) = self.group(geometry, entry.number()) else { return };
                for evicted in group.idle.add(entry) {
                    self.remove(group, &evicted);
                }
            }
        }
    }

    /// Frees one inode that waits for it; `false` if none does. What cannot be freed stays on its
    /// unlinked list, and is no failure of who happens to meet it: [`failure`](Self::take_failure)
    /// keeps why.
    pub(crate) fn free_one(&self, journal: &Arc<Journal>) -> bool {
        let mut doomed = self.doomed.lock();
        let Some(entry) = doomed.waiting.pop() else { return false };
        doomed.underway += 1;
        drop(doomed);
        let freed = entry.live().inactivate(journal);
        if let Ok(group) = self.group(journal.geometry(), entry.number()) {
            self.remove(group, &entry);
        }
        let mut doomed = self.doomed.lock();
        doomed.underway -= 1;
        if let Err(error) = freed {
            doomed.failure.get_or_insert(error);
        }
        drop(doomed);
        self.changed.notify_all();
        true
    }

    /// Why an inode could not be freed, if there was one.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.doomed.lock().failure.take()
    }

    /// Frees everything that waits for it, and waits for what others are freeing.
    pub(crate) fn drain(&self, journal: &Arc<Journal>) {
        while self.free_one(journal) {}
        let mut doomed = self.doomed.lock();
        while doomed.underway > 0 {
            self.changed.wait(&mut doomed);
        }
    }

    /// Waits until something is to be freed; `false` once the table is closed.
    pub(crate) fn await_doomed(&self) -> bool {
        let mut doomed = self.doomed.lock();
        while doomed.waiting.is_empty() && !doomed.closed {
            self.changed.wait(&mut doomed);
        }
        !doomed.closed
    }

    /// Lets [`await_doomed`](Self::await_doomed) return.
    pub(crate) fn close(&self) {
        self.doomed.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes an entry out, unless another has its place already.
    fn remove(&self, group: &Group, entry: &Arc<Entry>) {
        let is_it = |_: &u64, found: &Arc<Entry>| Arc::ptr_eq(found, entry);
        let _ = group.entries.pin().remove_if(&entry.number().0, is_it);
    }
}

/// The finding that an inode was given away which a file has.
#[cold]
fn in_use(geometry: &Geometry, number: InodeNumber) -> Corruption {
    let inode = geometry.split_inode(number).map_or(0, |(_, inode)| inode.0);
    Corruption::new(Structure::Inode, Place::Inode(number), AgiCheck::InUse { inode })
}

#[cfg(test)]
mod tests;
