//! Log items for the tests: small buffers that contain numbers, logged as buffer items.

use std::sync::Arc;

use xfs_device::{Durability, SharedDevice};
use xfs_format::log_item::{BufferFlags, BufferFormat, HostOrder};
use xfs_format::{DiskAddr, Lsn};
use xfs_sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Object, Ordering};

use crate::ail::InPlace;
use crate::item::{CheckpointEnd, ItemState, LogItem, Pushed};
use crate::vector::{RegionUpdater, RegionWriter};

/// A log item for tests: a buffer of 512 bytes or a multiple of that.
pub(crate) struct TestItem {
    state: ItemState,
    at: DiskAddr,
    /// The device that holds the item's home location. If it is `None`, a push writes nothing and
    /// reports the item as written.
    device: Option<SharedDevice>,
    /// The lock that a transaction holds while it changes the item.
    lock: Mutex<(), Object>,
    bytes: Mutex<Vec<u8>, Object>,
    pins: AtomicU64<Object>,
    durable: AtomicU64<Object>,
    cancelled: AtomicBool<Object>,
    aborted: AtomicBool<Object>,
    intent: Option<Arc<TestItem>>,
    ordered: bool,
    /// Whether the item is like an open intent: a push never writes it, and reports it as pinned.
    open: bool,
}

impl TestItem {
    pub(crate) fn new(at: u64) -> Arc<Self> {
        Arc::new(Self::plain(at, 512))
    }

    pub(crate) fn with_length(at: u64, length: usize) -> Arc<Self> {
        Arc::new(Self::plain(at, length))
    }

    pub(crate) fn in_place(at: u64, device: SharedDevice) -> Arc<Self> {
        Arc::new(Self { device: Some(device), ..Self::plain(at, 512) })
    }

    pub(crate) fn large_in_place(at: u64, length: usize, device: SharedDevice) -> Arc<Self> {
        Arc::new(Self { device: Some(device), ..Self::plain(at, length) })
    }

    pub(crate) fn finishing(at: u64, intent: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { intent: Some(Arc::clone(intent)), ..Self::plain(at, 512) })
    }

    /// Creates an item that pushes never write, like an intent.
    pub(crate) fn open(at: u64) -> Arc<Self> {
        Arc::new(Self { open: true, ..Self::plain(at, 512) })
    }

    pub(crate) fn ordered(at: u64) -> Arc<Self> {
        Arc::new(Self { ordered: true, ..Self::plain(at, 512) })
    }

    fn plain(at: u64, length: usize) -> Self {
        Self {
            state: ItemState::new(),
            at: DiskAddr(at),
            device: None,
            lock: Mutex::new(()),
            bytes: Mutex::new(vec![0; length]),
            pins: AtomicU64::default(),
            durable: AtomicU64::default(),
            cancelled: AtomicBool::default(),
            aborted: AtomicBool::default(),
            intent: None,
            ordered: false,
            open: false,
        }
    }

    /// Locks the item, as a transaction does.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Sets the number at `index` in the item. Returns the old number.
    pub(crate) fn set(&self, index: usize, number: u64) -> u64 {
        let mut bytes = self.bytes.lock();
        let before = number_at(&bytes, index);
        bytes[8 * index..][..8].copy_from_slice(&number.to_be_bytes());
        before
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        number_at(&self.bytes.lock(), index)
    }

    pub(crate) fn pins(&self) -> u64 {
        self.pins.load(Ordering::SeqCst)
    }

    pub(crate) fn lsn(&self) -> Option<Lsn> {
        self.state.lsn()
    }

    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(crate) fn was_aborted(&self) -> bool {
        self.aborted.load(Ordering::SeqCst)
    }

    fn format_header(&self, length: usize) -> BufferFormat {
        let chunks = length / 128;
        let bitmap = (0..chunks.div_ceil(32))
            .map(|word| if chunks >= 32 * (word + 1) { u32::MAX } else { (1 << (chunks % 32)) - 1 })
            .collect();
        let blocks = (length / 512) as u16;
        BufferFormat { regions: 2, flags: BufferFlags::empty(), at: self.at, blocks, bitmap }
    }
}

impl LogItem for TestItem {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        if self.ordered {
            return;
        }
        let bytes = self.bytes.lock();
        regions.region(&self.format_header(bytes.len()).encode(HostOrder::NATIVE));
        regions.region(&bytes);
    }

    fn is_updatable(&self) -> bool {
        true
    }

    fn update(&self, regions: &mut RegionUpdater<'_>) {
        if self.ordered {
            return;
        }
        let bytes = self.bytes.lock();
        regions.next(self.format_header(bytes.len()).encoded_bytes());
        regions.next(bytes.len()).copy_from_slice(&bytes);
    }

    fn finishes(&self) -> Option<&dyn LogItem> {
        self.intent.as_deref().map(|intent| intent as &dyn LogItem)
    }

    fn pin(&self) {
        self.pins.fetch_add(1, Ordering::SeqCst);
    }

    fn unpin(&self, end: CheckpointEnd) {
        assert!(self.pins.fetch_sub(1, Ordering::SeqCst) > 0, "unpinned without a pin");
        match end {
            CheckpointEnd::Durable => drop(self.durable.fetch_add(1, Ordering::SeqCst)),
            CheckpointEnd::Cancelled => self.cancelled.store(true, Ordering::SeqCst),
            CheckpointEnd::Aborted => self.aborted.store(true, Ordering::SeqCst),
        }
    }

    fn committed(&self, start: Lsn, leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        let Some(intent) = &self.intent else { return Some(start) };
        leaving.push(Arc::clone(intent) as Arc<dyn LogItem>);
        None
    }

    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        let Some(_lock) = self.lock.try_lock() else { return Pushed::Locked };
        if self.open || self.pins() > 0 {
            return Pushed::Pinned;
        }
        if let Some(device) = &self.device {
            let bytes = self.bytes.lock();
            device.write_at(&bytes, self.at.0 * 512, Durability::Cached).unwrap();
        }
        Pushed::Done
    }
}

/// Returns the number at `index` in the bytes of an item.
pub(crate) fn number_at(bytes: &[u8], index: usize) -> u64 {
    u64::from_be_bytes(bytes[8 * index..][..8].try_into().unwrap())
}
