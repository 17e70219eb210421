//! Volumes in memory for the tests: made, written to, cut short, recovered.

use std::sync::Arc;

use xfs_buffer::{Buffer, BufferCache};
use xfs_device::{MemoryDevice, OverlayDevice, SharedDevice};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{BlockKind, DiskAddr, InodeNumber, Place, Superblock};
use xfs_log::{Log, LogConfig, LogDevice, LogGeometry, find_head_and_tail, replay_all};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, Target};

use crate::{Counts, InodeRecord, Journal, OpenIntent, Transaction};

const VOLUME_BYTES: u64 = 300 << 20;
const CACHE_BYTES: usize = 8 << 20;
/// Nothing that a test writes is more than that.
const OVERLAY_BYTES: u64 = 64 << 20;
/// The log of a small volume: the least that such a volume may have is little more.
const SMALL_LOG: &str = "size=16m";

/// A new volume.
pub(crate) fn make() -> SharedDevice {
    make_with(SMALL_LOG)
}

/// A new volume with these options of its log.
pub(crate) fn make_with(log: &str) -> SharedDevice {
    let device = MemoryDevice::new(VOLUME_BYTES);
    let mut options = Options::default();
    options.allow_small = true;
    options.parse('l', log).unwrap();
    let target = Target { data_bytes: VOLUME_BYTES, sector_size: 512, log_bytes: None };
    let identity = Identity::reproducible(Timestamp::default(), b"transactions");
    let plan = Plan::new(&options, &target, &identity).unwrap();
    xfs_mkfs::write(&plan, Devices { data: &device, log: None }, Discard::No).unwrap();
    Arc::new(device)
}

/// The primary superblock.
pub(crate) fn superblock(device: &SharedDevice) -> Superblock {
    let mut sector = [0; 512];
    device.read_at(0, &mut sector).unwrap();
    Superblock::decode(&sector, Place::Disk(DiskAddr(0))).unwrap()
}

/// Whether the log says that nothing has to be replayed.
pub(crate) fn is_clean(device: &SharedDevice) -> bool {
    let superblock = superblock(device);
    find_head_and_tail(&LogDevice::new(Arc::clone(device), &superblock).unwrap()).unwrap().clean
}

/// A log without threads of its own: everything happens where it is asked for.
pub(crate) fn quiet(superblock: &Superblock) -> LogConfig {
    LogConfig { threads: 0, slots: 1, ..LogConfig::new(&LogGeometry::new(superblock)) }
}

/// Opens a volume whose log is clean.
pub(crate) fn open(device: &SharedDevice, threads: usize) -> Arc<Journal> {
    let superblock = superblock(device);
    let config = LogConfig { threads, ..quiet(&superblock) };
    let log = LogDevice::new(Arc::clone(device), &superblock).unwrap();
    let state = find_head_and_tail(&log).unwrap();
    assert!(state.clean, "a clean log");
    open_log(device, &superblock, Log::open(log, None, &state, &config))
}

fn open_log(device: &SharedDevice, superblock: &Superblock, log: Log) -> Arc<Journal> {
    let geometry = Arc::new(superblock.geometry.clone());
    let cache = Arc::new(BufferCache::new(Arc::clone(device), geometry, CACHE_BYTES));
    let counts = Counts {
        free_blocks: superblock.free_blocks,
        inodes: superblock.inode_count,
        free_inodes: superblock.free_inodes,
    };
    Journal::open(cache, log, superblock, counts)
}

/// What a crash would leave: what reached the device so far, to be written to without changing it.
pub(crate) fn crashed(device: &SharedDevice) -> SharedDevice {
    Arc::new(OverlayDevice::new(Arc::clone(device), OVERLAY_BYTES))
}

/// Recovers a volume and opens it, with the intents that were left open.
pub(crate) fn recover(device: &SharedDevice) -> (Arc<Journal>, Vec<OpenIntent>) {
    let superblock = superblock(device);
    let log = LogDevice::new(Arc::clone(device), &superblock).unwrap();
    let replayed = replay_all(Arc::clone(device), &log, &superblock).unwrap();
    replayed.write_in_place(&log).unwrap();
    let log = Log::open(log, None, replayed.log_state(), &quiet(&superblock));
    let journal = open_log(device, replayed.superblock(), log);
    let open = journal.adopt(&replayed).unwrap();
    (journal, open)
}

/// Begins a transaction that is large enough for a test.
pub(crate) fn begin(journal: &Arc<Journal>) -> Transaction<'_> {
    journal.begin(TransactionKind::Write, 0).unwrap()
}

/// The root directory's record: the only inode of an empty volume that means something to nobody.
pub(crate) fn root(journal: &Arc<Journal>) -> Arc<InodeRecord> {
    journal.inode(journal.superblock().root_inode).unwrap()
}

/// One of the unused inodes of the root directory's chunk.
pub(crate) fn spare(journal: &Arc<Journal>, index: u64) -> Arc<InodeRecord> {
    let InodeNumber(root) = journal.superblock().root_inode;
    journal.inode(InodeNumber(root + 8 + index)).unwrap()
}

/// A sector that holds no structure any more: the superblock's copy in group 1, as bytes to change.
pub(crate) fn copy_of_superblock(tx: &mut Transaction<'_>) -> Buffer {
    let geometry = tx.geometry();
    let at = geometry.header_disk_addr(xfs_format::AgNumber(1), 0);
    tx.read(at, geometry.sector_size, BlockKind::Superblock).unwrap()
}
