//! A log in memory for tests, and functions that commit to it.

use std::sync::Arc;
use xfs_format::log_record::{LogVersion, RecordChecksums};

use xfs_buffer::Result;
use xfs_device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
use xfs_format::DiskAddr;

use crate::cil::Committed;
use crate::device::{LogDevice, LogGeometry};
use crate::item::LogItem;
use crate::log::{Log, LogConfig};
use crate::mutant::ActiveMutant;
use crate::state::{LogState, find_head_and_tail};
use crate::testing::decode::{self, Transaction};
use crate::testing::item::TestItem;
use crate::testing::{LogImage, UUID};

/// Length in bytes of the part of the device that follows the log and holds the home locations of
/// items.
const PLACE_BYTES: u64 = 1 << 20;

/// A device in memory that holds a log as mkfs writes it.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) device: SharedDevice,
    pub(crate) geometry: LogGeometry,
}

impl Rig {
    pub(crate) fn new(length_blocks: u32) -> Self {
        Self::with_stripe_unit(length_blocks, 1)
    }

    pub(crate) fn with_stripe_unit(length_blocks: u32, stripe_unit_bytes: u32) -> Self {
        let mut image = LogImage::new(length_blocks);
        image.size = stripe_unit_bytes.max(32 << 10);
        let header_blocks = image.size.div_ceil(32 << 10);
        image.append_padded_unmount((stripe_unit_bytes / 512).max(2) - header_blocks);
        let device = Arc::new(MemoryDevice::new(u64::from(length_blocks) * 512 + PLACE_BYTES));
        device.write_at(&image.bytes, 0, Durability::Cached).unwrap();
        let geometry = LogGeometry {
            start: DiskAddr(0),
            length_blocks,
            sector_bytes: 512,
            stripe_unit_bytes,
            uuid: UUID,
            version: LogVersion::V2,
            checksums: RecordChecksums::Required,
        };
        Self { device, geometry }
    }

    /// Returns a rig whose log is on another device, at the same address.
    pub(crate) fn on(&self, device: SharedDevice) -> Self {
        Self { device, geometry: self.geometry }
    }

    /// Returns a copy of the log as it is now, while other threads write to it. The copy may have
    /// holes, as after a crash.
    #[cfg(shuttle)]
    pub(crate) fn snapshot(&self) -> Self {
        let mut bytes = vec![0; self.geometry.length_blocks as usize * 512];
        self.device.read_at(&mut bytes, 0).unwrap();
        let device = Arc::new(MemoryDevice::new(bytes.len() as u64));
        device.write_at(&bytes, 0, Durability::Cached).unwrap();
        self.on(device)
    }

    pub(crate) fn log_device(&self) -> LogDevice {
        LogDevice::with_geometry(Arc::clone(&self.device), self.geometry).unwrap()
    }

    /// Returns a configuration without threads: all work of the log is done in calls of the test,
    /// in their order.
    pub(crate) fn config(&self) -> LogConfig {
        LogConfig { threads: 0, slots: 4, largest_bytes: 8 << 10, ..LogConfig::new(&self.geometry) }
    }

    pub(crate) fn state(&self) -> LogState {
        find_head_and_tail(&self.log_device()).unwrap()
    }

    pub(crate) fn open(&self, config: &LogConfig) -> Log {
        Log::open(self.log_device(), None, &self.state(), config)
    }

    pub(crate) fn open_with(&self, config: &LogConfig, mutant: ActiveMutant) -> Log {
        Log::open_with(self.log_device(), None, &self.state(), config, mutant)
    }

    /// Checks that no record names a tail that would exclude a transaction that must be replayed.
    /// Returns the transactions that recovery would replay.
    pub(crate) fn transactions(&self) -> Vec<Transaction> {
        decode::check_tails(&self.log_device());
        decode::transactions(&self.log_device())
    }
}

/// Number of bytes that `commit` reserves for a transaction.
pub(crate) const UNIT_BYTES: u64 = 4 << 10;

/// Commits these items, whose locks the caller holds, in a transaction of their own.
pub(crate) fn commit(log: &Log, items: &[&Arc<TestItem>]) -> Result<Committed> {
    let items: Vec<_> = items.iter().map(|item| Arc::clone(item) as Arc<dyn LogItem>).collect();
    let mut ticket = log.reserve(UNIT_BYTES, 1)?;
    let committed = log.commit(&mut ticket, &items);
    log.release(ticket);
    let committed = committed?;
    log.settle(committed)?;
    Ok(committed)
}

/// Sets the first of the numbers in a test item, and commits this item alone.
pub(crate) fn commit_number(log: &Log, item: &Arc<TestItem>, number: u64) -> Result<Committed> {
    let lock = item.lock();
    item.set(0, number);
    let committed = commit(log, &[item]);
    drop(lock);
    committed
}

/// Writes all items to their home locations, and checks that no log space is granted then.
pub(crate) fn check_settled(log: &Log) {
    log.quiesce().unwrap();
    log.drain_caches();
    assert_eq!(log.space().granted, 0, "{:?}", log.space());
}
