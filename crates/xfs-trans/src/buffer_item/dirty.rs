//! The changes of a buffer that are not on disk at its home location.
//!
//! Owns: the dirty chunks of each extent, and the state of the blocks. Does **not** own the lock
//! that protects both, or the invariants of the item ([`buffer_item`](super)).

use std::ops::Range;

use xfs_buffer::Buffer;
use xfs_format::log_item::{BufferFormat, CHUNK_BYTES};

use super::BlockState;

/// The changes of a buffer that are not on disk at its home location, and the state of its blocks.
pub(super) struct DirtyState {
    /// The buffer. `None` while it has no bytes to log or to write (I2).
    pub(super) buffer: Option<Buffer>,
    /// For each extent of the buffer, a bitmap of its dirty chunks in the form in which it is
    /// logged.
    pub(super) pieces: Box<[BufferFormat]>,
    /// Whether the buffer is an ordered one: tracked without being logged (I5).
    pub(super) ordered: bool,
    pub(super) blocks: BlockState,
    /// Whether the buffer was freed together with its inodes. If so, a new use of the blocks may
    /// have to wait: see [`ends_inodes`](super::BufferItem::ends_inodes).
    pub(super) ends_inodes: bool,
    /// Whether a transaction holds the buffer.
    pub(super) joined: bool,
    /// Number of checkpoints that hold changes of the buffer and are not durable or lost yet.
    pub(super) pins: u32,
    /// Whether a checkpoint that held the buffer was lost, so that the buffer must never be written
    /// to disk.
    pub(super) lost: bool,
}

impl DirtyState {
    /// Marks the chunks that a range of the buffer touches as dirty, in each extent.
    pub(super) fn mark(&mut self, range: &Range<usize>) {
        // Nearly all buffers have one extent, which the caller has checked to hold the range.
        if let [piece] = &mut *self.pieces {
            return mark(&mut piece.bitmap, range.clone());
        }
        let mut start = 0;
        for piece in &mut self.pieces {
            let length = usize::from(piece.blocks) * xfs_format::BASIC_BLOCK_BYTES as usize;
            let inside = range.start.max(start)..range.end.min(start + length);
            if inside.start < inside.end {
                mark(&mut piece.bitmap, inside.start - start..inside.end - start);
            }
            start += length;
        }
    }

    /// Marks the blocks as used, because a change is about to be logged. If the blocks were freed
    /// before, they have been allocated again while the cache still had this buffer.
    pub(super) fn revive(&mut self, buffer: &Buffer) {
        (self.blocks, self.ends_inodes) = (BlockState::Used, false);
        if self.buffer.is_none() {
            self.buffer = Some(buffer.clone());
        }
    }

    /// Records that the log now has the changes that the buffer's transaction has made since its
    /// last roll. If the transaction has freed the blocks, the log now holds the cancellation.
    pub(super) fn note_committed(&mut self) {
        if self.blocks == BlockState::Freed {
            self.blocks = BlockState::FreedInLog;
        }
    }

    /// Clears all changes: the buffer has nothing to log or to write.
    pub(super) fn clean(&mut self) {
        self.forget_chunks();
        self.ordered = false;
    }

    /// Marks all chunks as clean, so that they are not logged.
    pub(super) fn forget_chunks(&mut self) {
        for piece in &mut self.pieces {
            piece.bitmap.fill(0);
        }
    }
}

/// Sets the bits in `bitmap` of the chunks that the range `bytes` touches. The range must not be
/// empty.
#[inline]
pub(super) fn mark(bitmap: &mut [u32], bytes: Range<usize>) {
    let (first, last) = (bytes.start / CHUNK_BYTES, (bytes.end - 1) / CHUNK_BYTES);
    let (from_first, to_last) = (u32::MAX << (first % 32), u32::MAX >> (31 - last % 32));
    match bitmap.get_mut(first / 32..=last / 32) {
        Some([word]) => *word |= from_first & to_last,
        Some([first, between @ .., last]) => {
            *first |= from_first;
            between.fill(u32::MAX);
            *last |= to_last;
        }
        Some([]) | None => unreachable!("a buffer has a bit for each of its chunks (I1)"),
    }
}
