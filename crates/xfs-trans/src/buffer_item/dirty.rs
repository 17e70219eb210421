//! The changes of a buffer that are not on disk at its home location.
//!
//! Owns: the dirty chunks of each extent, and the state of the blocks. Does **not** own the lock
//! that protects both, or the invariants of the item ([`buffer_item`](super)).

use std::ops::Range;

use xfs_buffer::Buffer;
use xfs_format::log_item::{BufferFlags, BufferFormat, CHUNK_BYTES, HostOrder};
use xfs_log::{REGION_HEADER_BYTES, RegionUpdater};

use super::BlockState;

/// The changes of a buffer that are not on disk at its home location, and the state of its blocks.
pub(super) struct DirtyState {
    /// The buffer. `None` while it has no bytes to log or to write (I2).
    pub(super) buffer: Option<Buffer>,
    /// For each extent of the buffer, a bitmap of its dirty chunks in the form in which it is
    /// logged.
    pub(super) pieces: Box<[BufferFormat]>,
    /// The chunks that were changed since the buffer was last formatted or updated.
    recent: RecentChunks,
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

/// The number of words in the logged bitmap of a buffer of 8 KiB. A longer buffer has no bitmap of
/// recently changed chunks, which is one word of 64 bits.
const RECENT_WORDS: usize = 2;

/// The chunks that were changed since a buffer was last formatted or updated.
#[derive(Default)]
struct RecentChunks {
    bitmap: u64,
    /// Whether the next log entry of the buffer has the regions of the last one.
    keeps_regions: bool,
}

impl DirtyState {
    /// Creates the state of a buffer that is in place, with these extents.
    pub(super) fn new(pieces: Box<[BufferFormat]>) -> Self {
        Self {
            buffer: None,
            pieces,
            recent: RecentChunks::default(),
            ordered: false,
            blocks: BlockState::Used,
            ends_inodes: false,
            joined: false,
            pins: 0,
            lost: false,
        }
    }

    /// Returns whether the next log entry of the buffer has the regions of the last one.
    pub(super) fn keeps_regions(&self) -> bool {
        self.recent.keeps_regions && self.blocks == BlockState::Used
    }

    /// Records that the buffer was formatted for the log.
    pub(super) fn note_formatted(&mut self) {
        self.recent.bitmap = 0;
        let is_covered = |piece: &BufferFormat| matches!(piece.bitmap.len(), 1..=RECENT_WORDS);
        self.recent.keeps_regions = matches!(&*self.pieces, [piece] if is_covered(piece));
    }

    /// Overwrites the regions of the buffer's log entry with the chunks that were changed since the
    /// entry was last formatted or updated. `flags` returns the flags with which the buffer is
    /// logged; they change only if the first chunk of the buffer does.
    pub(super) fn update(
        &mut self,
        regions: &mut RegionUpdater<'_>,
        flags: impl FnOnce(&Buffer, &[u8]) -> BufferFlags,
    ) {
        let (Some(buffer), [piece]) = (&self.buffer, &mut *self.pieces) else {
            unreachable!("a buffer is updated that is not held or has several extents (I2, I6)")
        };
        let mut recent = std::mem::take(&mut self.recent.bitmap);
        if recent == 0 {
            return;
        }
        let bytes = buffer.bytes();
        let format_bytes = piece.encoded_bytes();
        if recent & 1 != 0 {
            let flags = flags(buffer, &bytes);
            if piece.flags != flags {
                piece.flags = flags;
                let format = regions.bytes_at(REGION_HEADER_BYTES, format_bytes);
                format.copy_from_slice(&piece.encode(HostOrder::NATIVE));
            }
        }
        // The entry has a header and the format, and then a header and the chunks of each run.
        let dirty = as_word(&piece.bitmap);
        let starts = dirty & !(dirty << 1);
        while recent != 0 {
            let first = recent.trailing_zeros();
            let count = (recent >> first).trailing_ones() as usize;
            let before = (1 << first) - 1;
            let (runs, chunks) = if dirty & before == before {
                // One run from the start of the buffer on: most buffers have no other.
                (1, first as usize)
            } else {
                let runs = (starts & (before << 1 | 1)).count_ones();
                (runs as usize, (dirty & before).count_ones() as usize)
            };
            let at = (1 + runs) * REGION_HEADER_BYTES + format_bytes + chunks * CHUNK_BYTES;
            let from = first as usize * CHUNK_BYTES;
            let changed = bytes.get(from..from + count * CHUNK_BYTES);
            let changed = changed.expect("dirty chunks lie inside the buffer");
            regions.bytes_at(at, changed.len()).copy_from_slice(changed);
            // Adding 1 at the first bit of a run carries to the first bit after the run.
            recent &= recent.wrapping_add(1 << first);
        }
    }

    /// Marks the chunks that a range of the buffer touches as dirty, in each extent.
    pub(super) fn mark(&mut self, range: &Range<usize>) {
        // Nearly all buffers have one extent, which the caller has checked to hold the range.
        if let [piece] = &mut *self.pieces {
            let has_new = match &mut *piece.bitmap {
                words @ [_, _, _, ..] => {
                    mark(words, range.clone());
                    true
                }
                words => {
                    let chunks = chunks_of(range);
                    self.recent.bitmap |= chunks;
                    mark_word(words, chunks)
                }
            };
            if has_new {
                self.recent.keeps_regions = false;
            }
            return;
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
        self.recent.keeps_regions = false;
        for piece in &mut self.pieces {
            piece.bitmap.fill(0);
        }
    }
}

/// Sets the bits in `bitmap` of the chunks that the range `bytes` touches. The range must not be
/// empty. Returns whether one of these bits was clear.
#[inline]
pub(super) fn mark(bitmap: &mut [u32], bytes: Range<usize>) -> bool {
    let (first, last) = (bytes.start / CHUNK_BYTES, (bytes.end - 1) / CHUNK_BYTES);
    let (from_first, to_last) = (u32::MAX << (first % 32), u32::MAX >> (31 - last % 32));
    match bitmap.get_mut(first / 32..=last / 32) {
        Some([word]) => set(word, from_first & to_last),
        Some([first, between @ .., last]) => {
            let between = between.iter_mut().fold(false, |new, word| set(word, u32::MAX) | new);
            set(first, from_first) | between | set(last, to_last)
        }
        Some([]) | None => unreachable!("a buffer has a bit for each of its chunks (I1)"),
    }
}

/// Returns the chunks that a range of a buffer of at most 8 KiB touches, one bit each. The range
/// must not be empty.
#[inline]
pub(super) const fn chunks_of(bytes: &Range<usize>) -> u64 {
    let (first, last) = (bytes.start / CHUNK_BYTES, (bytes.end - 1) / CHUNK_BYTES);
    u64::MAX << (first % 64) & u64::MAX >> (63 - last % 64)
}

/// Sets the bits of `chunks` in a bitmap of at most two words. Returns whether one of them was
/// clear.
#[inline]
pub(super) fn mark_word(bitmap: &mut [u32], chunks: u64) -> bool {
    let (low, high) = (chunks as u32, (chunks >> u32::BITS) as u32);
    match bitmap {
        [word] if high == 0 => set(word, low),
        [first, second] => set(first, low) | set(second, high),
        _ => unreachable!("a buffer has a bit for each of its chunks (I1)"),
    }
}

/// Returns a bitmap of at most two words as one word.
#[inline]
fn as_word(bitmap: &[u32]) -> u64 {
    match bitmap {
        [low] => u64::from(*low),
        [low, high] => u64::from(*high) << u32::BITS | u64::from(*low),
        _ => unreachable!("a buffer of another length is formatted, not updated (I6)"),
    }
}

/// Sets the bits of `mask` in a word. Returns whether one of them was clear.
#[inline]
const fn set(word: &mut u32, mask: u32) -> bool {
    let has_new = *word & mask != mask;
    *word |= mask;
    has_new
}
