//! Volumes in memory, for the tests of this crate and of the crates above it: creating, opening,
//! crashing and recovering volumes.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::missing_panics_doc, reason = "what fails here fails the test")]

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use xfs_buffer::BufferCache;
use xfs_device::{BlockDevice, FileDevice, MemoryDevice, OverlayDevice, SharedDevice};
use xfs_format::inode::InodeCore;
use xfs_format::log_item::LoggedFields;
use xfs_format::timestamp::Timestamp;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_log::{Log, LogConfig, LogDevice, LogGeometry, Replayed, find_head_and_tail, replay_all};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};

use crate::{InodeRecord, Journal, OpenIntent, SpaceCounts, Transaction};

const VOLUME_BYTES: u64 = 300 << 20;
const CACHE_BYTES: usize = 8 << 20;
/// Limit on the bytes that may be written to a copy made by [`crashed`]. No test writes as much.
const OVERLAY_BYTES: u64 = 256 << 20;

/// Creates a volume of 300 MiB in four groups, with the defaults of mkfs and a log of 16 MiB.
#[must_use]
pub fn make() -> SharedDevice {
    make_with("-l size=16m")
}

/// Creates a volume of 300 MiB with the mkfs options in `text`, for example "-l size=16m".
#[must_use]
pub fn make_with(text: &str) -> SharedDevice {
    make_sized(VOLUME_BYTES, text)
}

/// Creates a volume of `data_bytes` bytes with the mkfs options in `text`.
#[must_use]
pub fn make_sized(data_bytes: u64, text: &str) -> SharedDevice {
    let device = MemoryDevice::new(data_bytes);
    format(&device, text);
    Arc::new(device)
}

/// Writes an empty volume, with the options of mkfs in `text`.
fn format(device: &dyn BlockDevice, text: &str) {
    let mut options = Options::default();
    options.allow_small = true;
    let mut words = text.split_whitespace();
    while let (Some(letter), Some(argument)) = (words.next(), words.next()) {
        options.parse(letter.chars().nth(1).unwrap(), argument).unwrap();
    }
    let data_bytes = device.length_bytes();
    let target =
        TargetDevice { data_bytes, sector_size: 512, log_bytes: None, realtime_bytes: None };
    let identity = Identity::reproducible(Timestamp::default(), b"transactions");
    let plan = Plan::new(&options, &target, &identity).unwrap();
    xfs_mkfs::write(&plan, Devices { data: device, log: None, realtime: None }, Discard::No)
        .unwrap();
}

/// Creates a volume of 300 MiB with the defaults of mkfs in an image file. Returns its folder,
/// which is removed on drop, and its path.
#[must_use]
pub fn make_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    File::create_new(&path).unwrap().set_len(VOLUME_BYTES).unwrap();
    let device = FileDevice::open(&path, xfs_device::FileOptions::read_write()).unwrap();
    format(&device, "");
    (folder, path)
}

/// Reads and decodes the primary superblock.
#[must_use]
pub fn superblock(device: &SharedDevice) -> Superblock {
    let mut sector = [0; 4096];
    device.read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

/// Returns the log of a volume that has its log on the data device.
#[must_use]
pub fn log_device(device: &SharedDevice) -> LogDevice {
    LogDevice::new(Arc::clone(device), &superblock(device)).unwrap()
}

/// Returns whether the log is clean, so that it needs no replay.
#[must_use]
pub fn is_clean(device: &SharedDevice) -> bool {
    find_head_and_tail(&log_device(device)).unwrap().clean
}

/// Everything that is needed to open a journal.
pub struct JournalParts {
    /// The buffer cache of the volume.
    pub cache: Arc<BufferCache>,
    /// The log, open for writing.
    pub log: Log,
    /// The superblock of the volume.
    pub superblock: Superblock,
}

impl JournalParts {
    fn new(device: &SharedDevice, superblock: Superblock, log: Log) -> Self {
        let geometry = Arc::new(superblock.geometry.clone());
        let cache = Arc::new(BufferCache::new(Arc::clone(device), geometry, CACHE_BYTES));
        Self { cache, log, superblock }
    }

    /// Opens a journal, with the counts that the superblock has.
    #[must_use]
    pub fn open(self) -> Arc<Journal> {
        let counts = SpaceCounts {
            free_blocks: self.superblock.free_blocks,
            inodes: self.superblock.inode_count,
            free_inodes: self.superblock.free_inodes,
        };
        Journal::open(self.cache, self.log, &self.superblock, counts)
    }
}

/// Returns the configuration of a log with `threads` threads that write checkpoints. If `threads`
/// is 0, the thread that calls the log writes them.
fn config(superblock: &Superblock, threads: usize) -> LogConfig {
    LogConfig { threads, ..LogConfig::new(&LogGeometry::new(superblock)) }
}

/// Reads everything that is needed to open a volume whose log is clean.
#[must_use]
pub fn parts(device: &SharedDevice, threads: usize) -> JournalParts {
    let superblock = superblock(device);
    let log = log_device(device);
    let state = find_head_and_tail(&log).unwrap();
    assert!(state.clean, "the log is clean");
    let log = Log::open(log, None, &state, &config(&superblock, threads));
    JournalParts::new(device, superblock, log)
}

/// Opens a volume whose log is clean.
#[must_use]
pub fn open(device: &SharedDevice, threads: usize) -> Arc<Journal> {
    parts(device, threads).open()
}

/// Returns a copy of the device as a crash would leave it now. Writes to the copy do not change the
/// original.
#[must_use]
pub fn crashed(device: &SharedDevice) -> SharedDevice {
    Arc::new(OverlayDevice::new(Arc::clone(device), OVERLAY_BYTES))
}

/// Replays the log of a volume after a crash. Returns everything that is needed to open the volume,
/// and the result of the replay. The journal still has to [adopt](Journal::adopt) the open intents.
#[must_use]
pub fn recovered_parts(device: &SharedDevice) -> (JournalParts, Replayed) {
    let log = log_device(device);
    let replayed = replay_all(Arc::clone(device), &log, &superblock(device)).unwrap();
    replayed.write_in_place(&log).unwrap();
    let superblock = replayed.superblock().clone();
    let log = Log::open(log, None, replayed.log_state(), &config(&superblock, 0));
    (JournalParts::new(device, superblock, log), replayed)
}

/// Recovers a volume and opens it. Returns the journal, and the intents that the crash left open.
#[must_use]
pub fn recover(device: &SharedDevice) -> (Arc<Journal>, Vec<OpenIntent>) {
    let (parts, replayed) = recovered_parts(device);
    let journal = parts.open();
    let open = journal.adopt(&replayed).unwrap();
    (journal, open)
}

/// Changes the core of an inode that `tx` has joined. `change` gets the core of the record's
/// current image.
pub fn change_core<R>(
    tx: &mut Transaction<'_>,
    record: &Arc<InodeRecord>,
    change: impl FnOnce(&mut InodeCore) -> R,
) -> R {
    let image = record.image().unwrap();
    tx.change_inode(record, LoggedFields::CORE, || image, |image| change(&mut image.core))
}
