//! The state that a cached inode keeps of its contents.

use xfs_buffer::Error;
use xfs_format::Geometry;
use xfs_format::timestamp::Timestamp;
use xfs_sync::{AtomicU32, Mutex, Object, Ordering, RwLock};

use super::buffered::Buffered;
use crate::metadata::Metadata;

/// Bytes are buffered.
pub(crate) const BUFFERED: u32 = 1;
/// Blocks may be preallocated past the end of the file.
pub(crate) const AHEAD: u32 = 2;
/// A flush has failed, and no caller that could return the error was told yet.
pub(crate) const FAILED: u32 = 4;
/// The volume knows of that failure, from a handle that was dropped.
pub(crate) const LEFT: u32 = 8;

/// The state of a file's contents in memory.
#[derive(Default)]
pub struct Contents {
    /// Held shared to read contents, and exclusively to change them or their place. It is taken
    /// before any transaction begins.
    pub(crate) state: RwLock<State, Object>,
    pub(crate) marks: AtomicU32<Object>,
    pub(crate) notes: Mutex<Notes, Object>,
}

/// The state that the contents lock protects.
#[derive(Default)]
pub struct State {
    pub(crate) buffered: Option<Box<Buffered>>,
    /// The end of the last write: the next one is expected there.
    pub(crate) next: Option<u64>,
    /// Passes of the flusher before that write.
    pub(crate) written: u64,
}

/// State that is read without waiting for a write.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) shown: Shown,
    pub(crate) failure: Option<Box<Error>>,
}

/// Buffered bytes, as metadata shows them.
#[derive(Clone, Copy, Default)]
pub struct Shown {
    pub(crate) end: u64,
    pub(crate) blocks: u64,
    pub(crate) now: Timestamp,
    /// Passes of the flusher before the buffer began.
    pub(crate) begun: u64,
}

impl Contents {
    pub(crate) fn has(&self, marks: u32) -> bool {
        self.marks.load(Ordering::Acquire) & marks != 0
    }

    pub(crate) fn mark(&self, marks: u32, is_set: bool) {
        if is_set {
            self.marks.fetch_or(marks, Ordering::Release);
        } else {
            self.marks.fetch_and(!marks, Ordering::Release);
        }
    }

    /// Returns the buffered bytes, if there are any. The caller asks before it looks at the inode
    /// (I4).
    pub fn shown(&self) -> Option<Shown> {
        self.has(BUFFERED).then(|| self.notes.lock().shown)
    }
}

impl Shown {
    /// Adds the buffered bytes to the metadata of the inode.
    pub fn add_to(self, metadata: &mut Metadata, geometry: &Geometry) {
        metadata.size = metadata.size.max(self.end);
        metadata.blocks += self.blocks * u64::from(geometry.block_basic_blocks());
        metadata.modified = self.now;
        metadata.changed = metadata.changed.max(self.now);
    }
}
