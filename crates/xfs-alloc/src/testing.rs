//! Volumes in memory for the tests: made, opened, cut short, recovered.

use std::sync::Arc;

use xfs_buffer::BufferCache;
use xfs_device::{MemoryDevice, OverlayDevice, SharedDevice};
use xfs_format::timestamp::Timestamp;
use xfs_format::{DiskAddr, Place, Superblock};
use xfs_log::{Log, LogConfig, LogDevice, LogGeometry, find_head_and_tail, replay_all};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, Target};
use xfs_trans::{Journal, OpenIntent};

use crate::open_journal;

const CACHE_BYTES: usize = 32 << 20;
const OVERLAY_BYTES: u64 = 256 << 20;

/// A new volume of this size, with options as on a command line.
pub(crate) fn make(bytes: u64, options: &str) -> SharedDevice {
    let device = MemoryDevice::new(bytes);
    let mut parsed = Options::default();
    parsed.allow_small = true;
    let mut words = options.split_whitespace();
    while let (Some(letter), Some(argument)) = (words.next(), words.next()) {
        parsed.parse(letter.chars().nth(1).unwrap(), argument).unwrap();
    }
    let target = Target { data_bytes: bytes, sector_size: 512, log_bytes: None };
    let identity = Identity::reproducible(Timestamp::default(), b"space");
    let plan = Plan::new(&parsed, &target, &identity).unwrap();
    xfs_mkfs::write(&plan, Devices { data: &device, log: None }, Discard::No).unwrap();
    Arc::new(device)
}

/// The primary superblock.
pub(crate) fn superblock(device: &SharedDevice) -> Superblock {
    let mut sector = [0; 512];
    device.read_at(0, &mut sector).unwrap();
    Superblock::decode(&sector, Place::Disk(DiskAddr(0))).unwrap()
}

/// A cache that has read nothing yet.
pub(crate) fn cache(device: &SharedDevice) -> Arc<BufferCache> {
    let geometry = Arc::new(superblock(device).geometry);
    Arc::new(BufferCache::new(Arc::clone(device), geometry, CACHE_BYTES))
}

fn log_config(superblock: &Superblock, threads: usize) -> LogConfig {
    LogConfig { threads, slots: 4, ..LogConfig::new(&LogGeometry::new(superblock)) }
}

/// Opens a volume whose log is clean.
pub(crate) fn open(device: &SharedDevice, threads: usize) -> Arc<Journal> {
    let superblock = superblock(device);
    let log = LogDevice::new(Arc::clone(device), &superblock).unwrap();
    let state = find_head_and_tail(&log).unwrap();
    assert!(state.clean, "a clean log");
    let log = Log::open(log, None, &state, &log_config(&superblock, threads));
    open_journal(cache(device), log, &superblock).unwrap()
}

/// What a crash would leave: what has reached the device, to be written to without changing it.
pub(crate) fn crashed(device: &SharedDevice) -> SharedDevice {
    Arc::new(OverlayDevice::new(Arc::clone(device), OVERLAY_BYTES))
}

/// Recovers a volume and opens it, with the intents that were left open.
pub(crate) fn recover(device: &SharedDevice) -> (Arc<Journal>, Vec<OpenIntent>) {
    let superblock = superblock(device);
    let log = LogDevice::new(Arc::clone(device), &superblock).unwrap();
    let replayed = replay_all(Arc::clone(device), &log, &superblock).unwrap();
    replayed.write_in_place(&log).unwrap();
    let log = Log::open(log, None, replayed.log_state(), &log_config(&superblock, 0));
    let journal = open_journal(cache(device), log, replayed.superblock()).unwrap();
    let open = journal.adopt(&replayed).unwrap();
    (journal, open)
}
