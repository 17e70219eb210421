//! What a volume has that is open for writing.
//!
//! Owns: the journal, the inodes in memory, the clock, the threads that free what has neither a name
//! nor a user and write what is buffered, and the order in which all of that is taken down. Does **not** own any operation.
//!
//! Lock order: the gate of [`freeze`], the looks of [`Unsettled`], the rename lock, the contents lock of a file (two files: the lower number first), the
//! beginning of a transaction, latches of inodes in the order of their numbers, group headers.

mod access;
mod acting;
mod attributes;
mod changes;
mod clock;
mod create;
mod freeze;
mod label;
mod link;
mod links;
mod lists;
mod remove;
mod rename;
mod uuid;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::ParentPath;
use xfs_format::directory::name_is_sound;
use xfs_format::reservation::TransactionKind;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_icache::DentryCache;
use xfs_icache::{InodeWalk, WalkFilter, take_down};
use xfs_locks::{Breaker, LockError, Wait, Waiter};
use xfs_log::Shutdown;
use xfs_sync::{Mutex, Volume, yield_now};
use xfs_trans::{Journal, Transaction, Upkeep};

use crate::file::{Left, OpenContents, Patience, Unsettled};
use crate::kind::PerCpuRefs;
use crate::kind::{CachedInode, InodeCache};
use crate::statistics::ActivityCounts;
use crate::watch::Watches;
pub(crate) use access::{check_mutable, check_not_immutable, check_writable_from};
pub(crate) use acting::Acting;
pub use changes::Changes;
pub(crate) use clock::Clock;
pub use create::{Creation, NewKind};
use freeze::Freezer;
pub(crate) use freeze::Writer;
pub(crate) use remove::Removal;
pub(crate) use rename::Place;
pub use rename::RenameMode;

/// The longest name in a directory.
const MAX_NAME_BYTES: usize = 255;

/// The parts that operations work with.
pub(crate) struct Parts {
    pub(crate) journal: Arc<Journal>,
    pub(crate) inode_cache: InodeCache,
    pub(crate) clock: Clock,
    pub(crate) parents: ParentPath,
    /// Files that have something to write.
    pub(crate) unsettled: Unsettled,
    /// Small writes are joined to large ones.
    pub(crate) joins_writes: bool,
    pub(crate) refs: PerCpuRefs,
    pub(crate) dentries: DentryCache,
    /// How long the holder of a lease has to give it back.
    pub(crate) lease_grace: Duration,
    pub(crate) lock_check: LockCheck,
    pub(crate) watches: Watches,
    pub(crate) activity: ActivityCounts,
    freezer: Freezer,
    reserves: Reserves,
    /// Held while a directory moves to another one: nobody else may move one meanwhile, so that none
    /// comes to lie below itself.
    pub(crate) moving: Mutex<(), Volume>,
}

impl Parts {
    fn new(journal: Arc<Journal>, inode_cache: InodeCache, terms: Terms) -> Self {
        let Terms { clock, parents, joins_writes, lease_grace, lock_check, upkeep } = terms;
        Self {
            unsettled: Unsettled::new(upkeep.unwrap_or_default()),
            reserves: Reserves::of(journal.geometry()),
            journal,
            inode_cache,
            clock,
            parents,
            joins_writes,
            refs: PerCpuRefs::new(),
            watches: Watches::default(),
            activity: ActivityCounts::default(),
            freezer: Freezer::default(),
            dentries: DentryCache::new(),
            lease_grace,
            lock_check,
            moving: Mutex::new(()),
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.journal.geometry()
    }

    /// Whether each file names its directories.
    fn has_parents(&self) -> bool {
        self.geometry().has_incompat(IncompatFeatures::PARENT)
    }

    /// Blocks that files can have.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.journal.counts().free_blocks
    }

    /// The inode of this number, with one more user.
    pub(crate) fn take(&self, number: InodeNumber) -> Result<Arc<CachedInode>> {
        self.inode_cache.take(number)
    }

    /// Gives up a use of an entry.
    pub(crate) fn release(&self, entry: Arc<CachedInode>) {
        self.inode_cache.release(entry);
    }

    /// Runs one transaction. What the body refuses, it refuses before it changes anything: an error
    /// after a change shuts the volume down, as it must.
    fn transact<T>(
        &self,
        kind: TransactionKind,
        blocks: u64,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        end(self.begin(kind, blocks)?, body)
    }

    /// Begins a transaction. Where there is no room, what waits to be freed is freed first.
    pub(crate) fn begin(&self, kind: TransactionKind, blocks: u64) -> Result<Transaction<'_>> {
        self.make_room();
        self.with_room(|| self.journal.begin(kind, blocks))
    }

    /// Frees and evicts inodes that wait for it, before something is changed: some of them if there are many. With a
    /// fixed time no thread frees the others, so all of them are freed here.
    fn make_room(&self) {
        match self.clock.is_fixed() {
            true => self.inode_cache.make_room_alone(),
            false => self.inode_cache.throttle(),
        }
    }

    /// The contents of a file.
    pub(crate) fn contents<'a>(&'a self, entry: &'a Arc<CachedInode>) -> OpenContents<'a> {
        OpenContents::new(self, entry)
    }

    /// Writes what is buffered of every file to the device.
    ///
    /// # Errors
    ///
    /// The first error of one of them; the others have been written.
    pub(crate) fn write_back_all(&self) -> Result<()> {
        let mut written = self.unsettled.take_failure();
        self.for_unsettled(|entry| {
            let result = self.contents(entry).write_back();
            if written.is_ok() {
                written = result;
            }
        });
        written
    }

    /// Does something with each file that has something to write.
    fn for_unsettled(&self, mut f: impl FnMut(&Arc<CachedInode>)) {
        let _ = self.inode_cache.iter_inodes(WalkFilter::Unsettled, |entry| {
            f(entry);
            ControlFlow::Continue(())
        });
    }

    /// Looks for what has to be written though nobody asks for it, and forces the log if some of it may have
    /// been. `before` is what the look before this one has left, and it returns what this one leaves.
    pub(crate) fn look(&self, before: Left) -> Left {
        let _looking = self.unsettled.hold_looks();
        let look = self.unsettled.look();
        let left = self.look_at_all(look.number, Patience::None);
        if look.after_begin || before >= Left::Bytes {
            self.force();
        }
        if left < Left::Overdue {
            return left;
        }
        // Only now that everything else is durable: it may take long.
        let left = self.look_at_all(look.number, Patience::Waits);
        self.force();
        left
    }

    fn look_at_all(&self, look: u64, patience: Patience) -> Left {
        let mut left = Left::Nothing;
        self.for_unsettled(|entry| left = left.max(self.contents(entry).look(look, patience)));
        left
    }

    /// Forces the log for nobody. A failure shuts the volume down, and who uses it next is told.
    fn force(&self) {
        let _ = self.journal.force_all();
    }

    /// Does what can be done again after it has failed for want of space: then what waits to be freed
    /// is freed first, and what was set aside for files is given back.
    pub(crate) fn with_room<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        match act() {
            Err(Error::Posix(PosixError::NoSpace)) if !self.journal.is_shut_down() => {
                self.inode_cache.drain();
                self.for_unsettled(|entry| self.contents(entry).give_back());
                act()
            }
            done => done,
        }
    }

    /// Gives up a use of an entry at the end of an operation, which frees what it has doomed.
    pub(crate) fn finish_with(&self, entry: Arc<CachedInode>) {
        self.collapse_refs(&entry);
        self.inode_cache.finish_with(entry);
    }

    /// Has the last user of an inode seen that has lost its last name.
    fn collapse_refs(&self, entry: &CachedInode) {
        if entry.live().inode().core().nlink == 0 {
            self.refs.collapse(entry, &self.inode_cache);
        }
    }
}

/// Blocks that changes of names reserve. They follow from the sizes of blocks alone, which stay as they are.
#[derive(Clone, Copy, Debug)]
struct Reserves {
    /// For an entry that is added.
    add: u64,
    /// For one that is removed.
    remove: u64,
    /// For a change of one parent pointer, of whichever name; 0 where there are none.
    parent: u64,
}

impl Reserves {
    fn of(geometry: &Geometry) -> Self {
        let parent = match geometry.has_incompat(IncompatFeatures::PARENT) {
            true => xfs_dir::parent_blocks(geometry, MAX_NAME_BYTES),
            false => 0,
        };
        let (add, remove) = (xfs_dir::blocks_to_add(geometry), xfs_dir::blocks_to_remove(geometry));
        Self { add, remove, parent }
    }
}

/// How a volume is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) clock: Clock,
    pub(crate) parents: ParentPath,
    pub(crate) joins_writes: bool,
    /// How long the holder of a lease has to give it back.
    pub(crate) lease_grace: Duration,
    pub(crate) lock_check: LockCheck,
    /// What somebody wants to be done unasked.
    pub(crate) upkeep: Option<Upkeep>,
}

impl Terms {
    /// What is done unasked, if anything.
    pub(crate) fn chosen_upkeep(&self) -> Option<Upkeep> {
        self.upkeep.or_else(|| (!self.clock.is_fixed()).then(Upkeep::default))
    }
}

/// How an open and a close learn whether a file has locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockCheck {
    /// By a flag, in a word that hardly anybody writes.
    #[default]
    Flag,
    /// By the pointer to the locks as well, which lies beside what opens write: as it would be
    /// without the flag.
    Pointer,
}

/// A volume that is written to.
pub(crate) struct Writing {
    parts: Arc<Parts>,
    workers: Vec<JoinHandle<()>>,
}

impl Writing {
    /// Starts the threads that free inodes and write what is buffered.
    ///
    /// # Errors
    ///
    /// The system does not give the threads. Those that have started end again, and nothing was
    /// written.
    pub(crate) fn start(
        journal: Arc<Journal>,
        inode_cache: InodeCache,
        terms: Terms,
    ) -> io::Result<Self> {
        let parts = Arc::new(Parts::new(journal, inode_cache, terms));
        let mut writing = Self { parts, workers: Vec::new() };
        // Two runs must give the same bytes, also if one takes longer: no thread works beside the operations.
        if terms.clock.is_fixed() {
            return Ok(writing);
        }
        writing.start_worker("free inodes", |parts| parts.inode_cache.serve())?;
        writing.start_worker("write back", |parts| {
            let mut left = Left::Nothing;
            while parts.unsettled.wait(left > Left::Nothing) {
                left = parts.look(left);
            }
        })?;
        Ok(writing)
    }

    fn start_worker(&mut self, name: &str, work: fn(&Parts)) -> io::Result<()> {
        let parts = Arc::clone(&self.parts);
        let worker = thread::Builder::new().name(name.to_owned()).spawn(move || work(&parts))?;
        self.workers.push(worker);
        Ok(())
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(crate) fn weak_parts(&self) -> Weak<Parts> {
        Arc::downgrade(&self.parts)
    }

    fn stop(&mut self) {
        self.parts.journal.stop_upkeep();
        self.parts.inode_cache.close();
        self.parts.unsettled.close();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }

    /// Frees what waits for it, writes everything in place and marks the log clean. Nobody uses the
    /// volume any more. Where an inode could not be freed since the volume was opened, this fails, and
    /// the log stays dirty: only a recovery looks for inodes without a name. Bytes of a file that were
    /// lost are told after the log is clean: no recovery brings them back.
    ///
    /// A volume that is frozen is thawed: who closes it is the last to use it.
    pub(crate) fn close(mut self) -> Result<()> {
        if self.parts.freezer.is_frozen() {
            self.parts.thaw()?;
        }
        self.stop();
        // Handles have given back what they left, but for one whose end has failed.
        self.parts.for_unsettled(|entry| self.parts.contents(entry).give_back());
        self.parts.inode_cache.deactivate();
        self.parts.refs.clear(&self.parts.inode_cache);
        self.parts.inode_cache.drain();
        take_down(&self.parts.inode_cache);
        self.parts.inode_cache.release_locks();
        let shared = Arc::clone(&self.parts);
        drop(self);
        let parts = take_alone(shared);
        parts.inode_cache.drain();
        let unfreed = parts.inode_cache.take_failure();
        let lost = parts.unsettled.take_failure();
        let journal = Arc::clone(&parts.journal);
        let discarded = xfs_alloc::discard_the_rest(&journal);
        drop(parts);
        let ended = match unfreed {
            None => journal.unmount(),
            Some(error) => journal.shut_down(Shutdown::Flush).and(Err(error)),
        };
        lost.and(ended).and(discarded)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.parts.freezer.is_frozen() {
            // Its threads may wait to be thawed, and nothing may be written any more. The error would be
            // that of a flush, which is not asked for.
            let _ = self.parts.journal.shut_down(Shutdown::Now);
        }
        self.stop();
    }
}

/// Waits until nobody else has it: a watch that just ends takes what it needs of a volume for as long as
/// that.
fn take_alone<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(alone) => return alone,
            Err(still_shared) => shared = still_shared,
        }
        yield_now();
    }
}

/// Breaks leases, and waits until their holders have given them back or have had their time.
pub(crate) fn break_and_wait(file: &CachedInode, breaker: Breaker, grace: Duration) -> Result<()> {
    let broken = file.locks().break_leases(breaker, Wait::For(&Waiter::new()), grace);
    broken.map_err(lock_error)
}

/// Whether a file that is about to change has no delegations. They are not broken here, as their holders
/// may call back: see [`Acting::undelegated`].
fn check_undelegated(file: &CachedInode) -> Result<()> {
    match file.locks().is_leased_against(Breaker::Change) {
        true => Err(PosixError::WouldBlock.into()),
        false => Ok(()),
    }
}

/// The case of POSIX for a lock that was not taken.
pub(crate) fn lock_error(error: LockError) -> Error {
    let posix = match error {
        LockError::WouldBlock => PosixError::WouldBlock,
        LockError::Deadlock => PosixError::Deadlock,
        LockError::Interrupted => PosixError::Interrupted,
        LockError::TimedOut => PosixError::TimedOut,
    };
    posix.into()
}

/// Commits a transaction if its body succeeds: see [`Parts::transact`].
fn end<'journal, T>(
    mut tx: Transaction<'journal>,
    body: impl FnOnce(&mut Transaction<'journal>) -> Result<T>,
) -> Result<T> {
    match body(&mut tx) {
        Ok(value) => tx.commit().map(|_| value),
        Err(error) => {
            tx.cancel();
            Err(error)
        }
    }
}

/// Latches the inodes for a transaction, each once, the lower number first.
fn join_all<const N: usize>(tx: &mut Transaction<'_>, mut entries: [&CachedInode; N]) {
    entries.sort_by_key(|entry| entry.number());
    for entry in entries {
        tx.join(entry.live().record());
    }
}

/// Checks a name that is to be made.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(PosixError::NotFound.into()),
        b"." | b".." => Err(PosixError::Exists.into()),
        _ if name.len() > MAX_NAME_BYTES => Err(PosixError::NameTooLong.into()),
        _ if name_is_sound(name) => Ok(()),
        _ => Err(PosixError::InvalidArgument.into()),
    }
}

#[cfg(test)]
mod tests;
