//! A buffer as the log sees it.

use std::sync::Arc;

use xfs_buffer::Buffer;
use xfs_format::Lsn;
use xfs_log::Ail;

use crate::cluster::Records;
use crate::context::Context;

/// A buffer as the log sees it.
#[derive(Default)]
pub(crate) struct BufferItem {
    records: Records,
}

impl BufferItem {
    /// The item of a buffer.
    pub(crate) fn of(_context: &Arc<Context>, _buffer: &Buffer) -> Arc<Self> {
        Arc::default()
    }

    /// The records of inodes in this buffer.
    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    /// Whether a checkpoint that is not durable holds a change of the buffer itself.
    pub(crate) fn is_pinned(&self) -> bool {
        false
    }

    /// Whether the buffer's blocks are freed.
    pub(crate) fn is_stale(&self) -> bool {
        false
    }

    /// Where the buffer itself stands in the AIL.
    pub(crate) fn state_lsn(&self) -> Option<Lsn> {
        None
    }

    /// The buffer was written in place, its latch held all the time: it is clean and leaves the AIL.
    pub(crate) fn written(&self, _ail: &Ail) {}
}
