//! The log item of a newly created inode chunk. It is small: it describes the chunk instead of
//! holding its bytes.
//!
//! Recovery initialises the inodes from this item before it replays the inode items of the same
//! transaction. The clusters themselves are logged as ordered buffers. So the tail does not pass
//! the item before the clusters are written to their home locations on disk.

use std::sync::Arc;

use xfs_format::log_item::{HostOrder, InodeCreate};
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionWriter};

/// The log item of a newly created inode chunk.
pub(crate) struct CreateItem {
    state: ItemState,
    region: Vec<u8>,
}

impl CreateItem {
    pub(crate) fn new(create: &InodeCreate) -> Self {
        Self { state: ItemState::new(), region: create.encode(HostOrder::NATIVE) }
    }
}

impl LogItem for CreateItem {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        regions.region(&self.region);
    }

    fn pin(&self) {}

    fn unpin(&self, _end: CheckpointEnd) {}

    /// Returns `None`: the item does not enter the AIL, because the ordered clusters hold the tail
    /// of the log until they are written.
    fn committed(
        &self,
        _start: xfs_format::Lsn,
        _leaving: &mut Vec<Arc<dyn LogItem>>,
    ) -> Option<xfs_format::Lsn> {
        None
    }

    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        Pushed::Done
    }
}
