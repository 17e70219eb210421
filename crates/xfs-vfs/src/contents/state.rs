//! The state that a cached inode keeps of its file contents: the buffer, the size and blocks that
//! buffered bytes add to the metadata, and failures of flushes.

use xfs_buffer::Error;
use xfs_format::Geometry;
use xfs_format::timestamp::Timestamp;
use xfs_sync::{AtomicU32, Mutex, Object, Ordering, RwLock};

use super::buffered::Buffered;
use crate::metadata::Metadata;

/// Flag of a file: it has buffered bytes.
pub(crate) const BUFFERED: u32 = 1;
/// Flag of a file: it may have preallocated blocks past its end.
pub(crate) const AHEAD: u32 = 2;
/// Flag of a file: a flush has failed, and its error has not been returned to any caller yet.
pub(crate) const FAILED: u32 = 4;
/// Flag of a file: the error of the failed flush (`FAILED`) is also kept by the volume, because a
/// dropped handle made that flush and could not return its error.
pub(crate) const LEFT: u32 = 8;

/// The state of a file's contents in memory.
#[derive(Default)]
pub struct Contents {
    /// Contents lock. A reader of the contents holds it shared. A change of the contents or of
    /// their blocks holds it exclusively. The lock is taken before any transaction begins.
    pub(crate) state: RwLock<ContentsState, Object>,
    pub(crate) marks: AtomicU32<Object>,
    pub(crate) notes: Mutex<Notes, Object>,
}

/// The state that the contents lock protects.
#[derive(Default)]
pub struct ContentsState {
    pub(crate) buffered: Option<Box<Buffered>>,
    /// The byte offset at which the last write ended. A write that begins at this offset continues
    /// the last write. `None` before the first write.
    pub(crate) next: Option<u64>,
    /// Number of flusher passes that had begun at the time of the last write.
    pub(crate) written: u64,
}

/// State that can be read without the contents lock, so that a reader need not wait for a write.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) shown: Shown,
    pub(crate) failure: Option<Box<Error>>,
}

/// The size, blocks and time that buffered bytes add to the metadata of their file.
#[derive(Clone, Copy, Default)]
pub struct Shown {
    pub(crate) end: u64,
    pub(crate) blocks: u64,
    pub(crate) now: Timestamp,
    /// Number of flusher passes that had begun when the first byte was buffered.
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

    /// Returns how buffered bytes change the metadata, or `None` if no bytes are buffered. The
    /// caller must call this before it reads the inode (I4).
    pub fn shown(&self) -> Option<Shown> {
        // I4: the buffered bytes come first.
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
