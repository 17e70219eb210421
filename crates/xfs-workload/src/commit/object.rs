//! The objects that the benchmark logs, with the sizes of an inode and of a part of a buffer in the
//! log.

use std::sync::Arc;

use ferroxfs::raw::log::{
    CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionUpdater, RegionWriter,
};
use xfs_sync::{AtomicU64, ExclusiveLatch, Latch, Object as OfObject, Ordering};

/// Lengths in bytes of the logged parts of an inode: the log format and the inode core.
const INODE: [usize; 2] = [56, 176];

/// Lengths in bytes of the logged parts of a buffer: the log format and one dirty chunk.
const BUFFER: [usize; 2] = [24, 128];

/// An object that transactions log, in place of an inode or a buffer.
pub(super) struct LoggedObject {
    state: ItemState,
    latch: Latch<OfObject>,
    pins: AtomicU64<OfObject>,
    regions: [Box<[u8]>; 2],
}

impl LoggedObject {
    pub(super) fn inode() -> Arc<Self> {
        Self::new(INODE)
    }

    pub(super) fn buffer() -> Arc<Self> {
        Self::new(BUFFER)
    }

    fn new(lengths: [usize; 2]) -> Arc<Self> {
        Arc::new(Self {
            state: ItemState::new(),
            latch: Latch::new(),
            pins: AtomicU64::default(),
            regions: lengths.map(|length| vec![7; length].into()),
        })
    }

    /// Locks the object as a transaction locks an inode or a buffer.
    pub(super) fn lock(&self) -> ExclusiveLatch<'_, OfObject> {
        self.latch.exclusive()
    }
}

impl LogItem for LoggedObject {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        for bytes in &self.regions {
            regions.region(bytes);
        }
    }

    fn is_updatable(&self) -> bool {
        true
    }

    fn update(&self, regions: &mut RegionUpdater<'_>) {
        let [format, bytes] = &self.regions;
        regions.next(format.len());
        regions.next(bytes.len()).copy_from_slice(bytes);
    }

    fn pin(&self) {
        self.pins.fetch_add(1, Ordering::AcqRel);
    }

    fn unpin(&self, _end: CheckpointEnd) {
        self.pins.fetch_sub(1, Ordering::AcqRel);
    }

    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        if self.pins.load(Ordering::Acquire) > 0 {
            return Pushed::Pinned;
        }
        Pushed::Done
    }
}
