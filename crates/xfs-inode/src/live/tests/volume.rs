//! Test helper: a volume in memory with files that have no names.

use std::ops::Range;
use std::sync::Arc;

use xfs_alloc::{InodePurpose, add_unlinked, allocate_inode, inode_blocks, open_journal};
use xfs_buffer::BufferCache;
use xfs_device::SharedDevice;
use xfs_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_trans::{Journal, testing};

use crate::check::check_volume;
use crate::live::with_transaction::with_transaction;
use crate::live::{InitialInode, LiveInode, resume};

pub(super) struct Volume {
    pub(super) device: SharedDevice,
    pub(super) journal: Arc<Journal>,
}

/// Returns the seeds of random tests, from `first` on: one seed, or 100 seeds if `FERROXFS_LONG` is
/// set.
pub(super) fn seeds(first: u64) -> Range<u64> {
    let count = if std::env::var_os("FERROXFS_LONG").is_some() { 100 } else { 1 };
    first..first + count
}

pub(super) fn now() -> Timestamp {
    Timestamp::new(1_000_000_000, 0).unwrap()
}

impl Volume {
    pub(super) fn new(options: &str) -> Self {
        Self::of(testing::make_with(options))
    }

    pub(super) fn of(device: SharedDevice) -> Self {
        Self::of_threads(device, 1)
    }

    /// Opens the journal of a volume with `threads` threads that write checkpoints.
    pub(super) fn of_threads(device: SharedDevice, threads: usize) -> Self {
        let testing::JournalParts { cache, log, superblock } = testing::parts(&device, threads);
        let journal = open_journal(cache, log, &superblock).unwrap();
        Self { device, journal }
    }

    /// Recovers a volume after a crash, and finishes its open intents.
    pub(super) fn recover(device: SharedDevice) -> Self {
        let (parts, replayed) = testing::recovered_parts(&device);
        let testing::JournalParts { cache, log, superblock } = parts;
        let journal = open_journal(cache, log, &superblock).unwrap();
        let mut captured = Vec::new();
        for open in journal.adopt(&replayed).unwrap() {
            let works = open.payloads().iter().map(|promise| {
                let of_file = resume(&journal, promise).unwrap();
                of_file.unwrap_or_else(|| {
                    xfs_alloc::resume(journal.geometry(), promise).unwrap().unwrap()
                })
            });
            let (kind, works) = (TransactionKind::Truncate, works.collect());
            captured.push(journal.resume(&open, works, kind, 200).unwrap());
        }
        for captured in captured {
            captured.finish(&journal).unwrap();
        }
        xfs_alloc::recover_leftovers(&journal).unwrap();
        Self { device, journal }
    }

    /// Creates a new file that has no name and is on an unlinked list. With `attr_room`, the file
    /// gets an attribute fork at once.
    pub(super) fn create(&self, mode: u16, attr_room: bool) -> Arc<LiveInode> {
        let blocks = inode_blocks(self.journal.geometry());
        let parent = testing::superblock(&self.device).root_inode;
        with_transaction(&self.journal, TransactionKind::CreateUnnamed, blocks, |tx| {
            let allocated = allocate_inode(tx, parent, InodePurpose::File)?;
            let made = InitialInode {
                inode: allocated,
                mode,
                uid: 0,
                gid: 0,
                project_id: 0,
                nlink: 0,
                now: now(),
                flags: InodeFlags::empty(),
                flags2: InodeFlags2::empty(),
                extent_size_hint_blocks: 0,
                cow_extent_size_hint_blocks: 0,
                rdev: None,
                attr_room,
                attributes: None,
            };
            let live = LiveInode::create(tx, made)?;
            add_unlinked(tx, live.log_item())?;
            Ok(Arc::new(live))
        })
        .unwrap()
    }

    pub(super) fn file(&self) -> Arc<LiveInode> {
        self.create(FileType::Regular.mode_bits() | 0o644, false)
    }

    /// Unmounts the volume: forces the log and writes everything to its home location on disk.
    /// Checks the volume, and returns the device and a cache with which it can be read.
    pub(super) fn unmount(self) -> (SharedDevice, BufferCache) {
        self.journal.unmount().unwrap();
        assert!(testing::is_clean(&self.device));
        let cache = fresh_cache(&self.device);
        check_volume(&cache);
        (self.device, cache)
    }
}

/// Creates an empty buffer cache for a volume whose log is clean.
pub(super) fn fresh_cache(device: &SharedDevice) -> BufferCache {
    let geometry = Arc::new(testing::superblock(device).geometry);
    BufferCache::new(Arc::clone(device), geometry, 1 << 24)
}
