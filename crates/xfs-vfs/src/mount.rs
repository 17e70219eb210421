//! State of a volume that is mounted read-write.
//!
//! Owns: the journal, the inode cache, the dentry cache, the clock, the flusher, and how a
//! transaction gets the space that it reserves. Does **not** own any operation
//! ([`OpContext`](crate::OpContext)), or the background threads
//! ([`MountThreads`](crate::MountThreads)).
//!
//! Lock order:
//!
//! 1. the gate of `freeze`
//! 2. the passes of the flusher
//! 3. the rename lock
//! 4. the contents lock of a file (two files: the lower inode number first)
//! 5. the beginning of a transaction
//! 6. latches of inodes in the order of their inode numbers
//! 7. group headers

use std::sync::Arc;
use std::time::Duration;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::ParentPath;
use xfs_format::directory::MAX_NAME;
use xfs_format::reservation::TransactionKind;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_icache::DentryCache;
use xfs_inode::{MapCounts, MapUse};
use xfs_sync::{Mutex, Volume};
use xfs_trans::{Journal, Transaction};

use crate::activity::{Activity, ActivityCounts};
use crate::clock::Clock;
use crate::flusher::Flusher;
use crate::freeze::Freezer;
use crate::inode_ref::InodeRef;
use crate::kind::{CachedInode, InodeCache, PerCpuRefs};
use crate::options::{LockCheck, MountOptions};
use crate::watch::Watches;

/// State of a volume that is mounted read-write. All operations use it.
pub struct Mount {
    /// Transactions and the log.
    pub journal: Arc<Journal>,
    /// The cache of the volume's inodes.
    pub inode_cache: InodeCache,
    /// The source of the timestamps that operations store in inodes.
    pub clock: Clock,
    /// How operations write parent pointers.
    pub(crate) parents: ParentPath,
    /// The schedule by which the flusher thread writes buffered bytes that no caller has asked to
    /// write.
    pub flusher: Flusher,
    /// Whether small writes are buffered and joined into large ones before they go to the device.
    pub joins_writes: bool,
    /// References to inodes, grouped by the processor on which the references were made. All
    /// handles that were made on one processor share one reference to an inode.
    pub refs: PerCpuRefs,
    /// Results of lookups: for a directory and a name, the inode to which the name leads.
    pub dentries: DentryCache,
    /// The time within which the holder of a broken lease must return the lease.
    pub lease_grace: Duration,
    /// The function with which an open finds out whether a file has locks.
    pub lock_check: LockCheck,
    /// Number of watches on inodes of the volume.
    pub watches: Watches,
    pub(crate) activity: ActivityCounts,
    pub(crate) freezer: Freezer,
    pub(crate) reserves: OperationBlocks,
    /// Rename lock, held while a directory moves to another directory. Only one directory moves at
    /// a time, so that no directory can become its own descendant.
    pub(crate) moving: Mutex<(), Volume>,
}

impl Mount {
    pub(crate) fn new(
        journal: Arc<Journal>,
        inode_cache: InodeCache,
        options: MountOptions,
    ) -> Self {
        let MountOptions { clock, parents, joins_writes, lease_grace, lock_check, upkeep } =
            options;
        Self {
            flusher: Flusher::new(upkeep.unwrap_or_default()),
            reserves: OperationBlocks::of(journal.geometry()),
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

    /// Returns the geometry of the volume.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        self.journal.geometry()
    }

    /// Returns whether the files of the volume have parent pointers.
    pub(crate) fn has_parents(&self) -> bool {
        self.geometry().has_incompat(IncompatFeatures::PARENT)
    }

    /// Returns the number of free blocks that files can get.
    pub fn free_blocks(&self) -> u64 {
        self.journal.counts().free_blocks
    }

    /// Returns a reference to inode `number`. Reads the inode if it is not cached.
    ///
    /// # Errors
    ///
    /// Returns ENOENT if the inode is free or has no name any more, or EUCLEAN for a corrupt
    /// volume.
    #[inline]
    pub fn take(&self, number: InodeNumber) -> Result<InodeRef<&Self>> {
        self.inode_cache.take(number).map(|inode| InodeRef::new(self, inode))
    }

    /// Runs `body` in one transaction, and commits the transaction. An error that `body` returns
    /// after its first change shuts the volume down, so `body` must make all checks before its
    /// first change.
    pub(crate) fn transact<T>(
        &self,
        kind: TransactionKind,
        blocks: u64,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.begin(kind, blocks)?.commit_or_cancel(body)
    }

    /// Begins a transaction that may use `blocks` new blocks. If too little space is free, first
    /// frees the inodes that wait for inactivation and the preallocated blocks of files.
    pub fn begin(&self, kind: TransactionKind, blocks: u64) -> Result<Transaction<'_>> {
        self.make_room();
        self.with_room(|| self.journal.begin(kind, blocks))
    }

    /// Before an operation, frees and evicts some inodes if many wait to be freed or evicted. If
    /// the clock is fixed, no background thread frees inodes, so all waiting inodes are freed here.
    pub(crate) fn make_room(&self) {
        match self.clock.is_fixed() {
            true => self.inode_cache.make_room_alone(),
            false => self.inode_cache.throttle(),
        }
    }

    /// Runs `act`. If `act` fails for lack of space or quota, frees the inodes that wait for
    /// inactivation and the preallocated blocks of files, and runs `act` again.
    pub fn with_room<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        match act() {
            Err(Error::Posix(PosixError::NoSpace | PosixError::QuotaExceeded))
                if !self.journal.is_shut_down() =>
            {
                self.inode_cache.drain();
                self.for_each_unflushed(|entry| self.contents(entry).give_back());
                act()
            }
            done => done,
        }
    }

    /// Makes all processor slots release their references to the inode if it has lost its last
    /// name, because these references would keep the inode from being freed.
    pub(crate) fn collapse_refs(&self, entry: &CachedInode) {
        if entry.live().inode().core().nlink == 0 {
            self.refs.collapse(entry, &self.inode_cache);
        }
    }

    /// Returns the counters of operations such as lookups.
    pub fn activity(&self) -> &ActivityCounts {
        &self.activity
    }

    /// Counts one operation of the kind `activity`.
    pub fn note(&self, activity: Activity) {
        self.activity.note(activity);
    }

    /// Counts a lookup in the extent map of a file's contents.
    pub fn note_map_read(&self) {
        MapCounts::of(&self.journal).note(MapUse::Read);
    }
}

/// Numbers of blocks that changes of names reserve. The numbers depend only on the block sizes of
/// the volume, which never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationBlocks {
    /// Number of blocks that allocating an inode reserves.
    pub(crate) inode: u64,
    /// Number of blocks that adding a directory entry reserves.
    pub(crate) add: u64,
    /// Number of blocks that removing a directory entry reserves.
    pub(crate) remove: u64,
    /// Number of blocks that a change of one parent pointer with a name of any length reserves; 0
    /// on a volume without parent pointers.
    pub(crate) parent: u64,
    /// Number of blocks that the quota of an inode's owner must still permit for a change of one
    /// parent pointer; 0 on a volume without parent pointers.
    pub(crate) parent_quota: u64,
}

impl OperationBlocks {
    fn of(geometry: &Geometry) -> Self {
        let (parent, parent_quota) = match geometry.has_incompat(IncompatFeatures::PARENT) {
            true => {
                (xfs_dir::parent_blocks(geometry, MAX_NAME), xfs_dir::parent_quota_blocks(geometry))
            }
            false => (0, 0),
        };
        let (add, remove) = (xfs_dir::blocks_to_add(geometry), xfs_dir::blocks_to_remove(geometry));
        Self { inode: xfs_alloc::inode_blocks(geometry), add, remove, parent, parent_quota }
    }
}

/// Latches the inodes for a transaction, each once, in the order of their inode numbers.
pub(crate) fn join_all<const N: usize>(tx: &mut Transaction<'_>, mut entries: [&CachedInode; N]) {
    entries.sort_by_key(|entry| entry.number());
    for entry in entries {
        tx.join(entry.live().log_item());
    }
}
