//! What is known of 64 neighbouring inodes without looking at one of them.
//!
//! # Invariants
//!
//! - **I1** A bit of `present` is set exactly while the index has an inode there. Both change under
//!   the chunk's lock.
//! - **I2** A tag is set on an inode that walks for it have to see; it may stand on others too. It goes
//!   with the inode.
//! - **I3** A chunk that has been without inodes leaves the index, and never gets one again.

use std::sync::Arc;

use xfs_sync::{AtomicU64, Mutex, MutexGuard, Object, Ordering};

/// Inodes of a chunk.
pub(crate) const CHUNK_INODES: u32 = 64;

/// Which inodes a walk has to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// All that are in the index.
    Present,
    /// Those that may be without a user.
    Idle,
    /// Those that have something to write, or blocks that they do not need.
    Unsettled,
}

/// What is known of 64 neighbouring inodes.
#[derive(Default)]
pub(crate) struct Chunk {
    /// Whether it has left the index (I3).
    gone: Mutex<bool, Object>,
    present: AtomicU64<Object>,
    idle: AtomicU64<Object>,
    unsettled: AtomicU64<Object>,
}

impl Chunk {
    /// The inodes that bear a tag: a bit for each.
    pub(super) fn tagged(&self, tag: Tag) -> u64 {
        match tag {
            Tag::Present => self.present.load(Ordering::Acquire),
            Tag::Idle => self.idle.load(Ordering::Acquire),
            Tag::Unsettled => self.unsettled.load(Ordering::Acquire),
        }
    }

    /// The lock under which inodes come and go; `None` once the chunk has left the index.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, bool>> {
        let gone = self.gone.lock();
        (!*gone).then_some(gone)
    }

    /// Notes an inode that has come. The caller holds the lock.
    pub(super) fn enter(&self, bit: u64) {
        self.present.fetch_or(bit, Ordering::AcqRel);
    }

    /// Notes that an inode has gone. The caller holds the lock. Whether it was the last one.
    pub(super) fn leave(&self, bit: u64) -> bool {
        self.idle.fetch_and(!bit, Ordering::AcqRel);
        self.unsettled.fetch_and(!bit, Ordering::AcqRel);
        self.present.fetch_and(!bit, Ordering::AcqRel) == bit
    }
}

/// Where the tags of an inode are.
pub(crate) struct Spot {
    pub(super) chunk: Arc<Chunk>,
    pub(super) bit: u64,
}

impl Spot {
    /// Tags the inode as without a user. Who does it holds the inode's state.
    pub(super) fn set_idle(&self) {
        if self.chunk.idle.load(Ordering::Relaxed) & self.bit == 0 {
            self.chunk.idle.fetch_or(self.bit, Ordering::Release);
        }
    }

    /// Tags the inode as having something to write, or not. Who does it holds the lock of its contents.
    pub(super) fn set_unsettled(&self, is_unsettled: bool) {
        if is_unsettled {
            self.chunk.unsettled.fetch_or(self.bit, Ordering::AcqRel);
        } else {
            self.chunk.unsettled.fetch_and(!self.bit, Ordering::AcqRel);
        }
    }

    /// Takes that away. Who does it holds the inode's state.
    pub(super) fn clear_idle(&self) {
        self.chunk.idle.fetch_and(!self.bit, Ordering::AcqRel);
    }
}
