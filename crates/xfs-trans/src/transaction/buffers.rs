//! The buffers of a transaction.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Buffer, BufferExtent, Result};
use xfs_format::{BlockKind, DiskAddr};
use xfs_log::LogItem;

use super::Transaction;

/// The buffers that a transaction holds latched.
#[derive(Default)]
pub(super) struct JoinedBuffers {}

impl JoinedBuffers {
    /// Whether one was changed in this step.
    pub(super) fn is_dirty(&self) -> bool {
        todo!()
    }

    /// Before a roll: what is held and stands in the log is logged again.
    pub(super) fn relog(&mut self) {
        todo!()
    }

    /// The items of what was changed in this step.
    pub(super) fn collect(&self, _items: &mut Vec<Arc<dyn LogItem>>) {
        todo!()
    }

    /// The step is committed: what is not held is unlatched, and what is held is clean.
    pub(super) fn end_step(&mut self) {
        todo!()
    }

    /// The chain has ended, or was cancelled.
    pub(super) fn release_all(&mut self) {
        todo!()
    }
}

impl Transaction<'_> {
    /// Reads a buffer and latches it until it is released or the step ends.
    ///
    /// # Errors
    ///
    /// What reading meets.
    pub fn read(&mut self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.read_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// As [`read`](Self::read), of a buffer in several pieces.
    ///
    /// # Errors
    ///
    /// What reading meets.
    pub fn read_mapped(&mut self, _map: &[BufferExtent], _kind: BlockKind) -> Result<Buffer> {
        todo!()
    }

    /// As [`read`](Self::read); `None` if somebody else holds the buffer.
    ///
    /// # Errors
    ///
    /// What reading meets.
    pub fn try_read(
        &mut self,
        _at: DiskAddr,
        _length_bytes: u32,
        _kind: BlockKind,
    ) -> Result<Option<Buffer>> {
        todo!()
    }

    /// A buffer over space just allocated: not read, zeroed, latched.
    ///
    /// # Errors
    ///
    /// What the cache refuses.
    pub fn claim(&mut self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.claim_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// As [`claim`](Self::claim), of a buffer in several pieces.
    ///
    /// # Errors
    ///
    /// What the cache refuses.
    pub fn claim_mapped(&mut self, _map: &[BufferExtent], _kind: BlockKind) -> Result<Buffer> {
        todo!()
    }

    /// Changes a range of a buffer that is joined, and logs it.
    pub fn change<R>(
        &mut self,
        _buffer: &Buffer,
        _range: Range<usize>,
        _change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        todo!()
    }

    /// Logs a range of a buffer that is joined.
    pub fn log(&mut self, _buffer: &Buffer, _range: Range<usize>) {
        todo!()
    }

    /// Gives a buffer back at once if it is clean in this transaction and not held.
    pub fn release(&mut self, _buffer: &Buffer) {
        todo!()
    }

    /// Keeps a buffer latched over rolls.
    pub fn hold(&mut self, _buffer: &Buffer) {
        todo!()
    }

    /// Ends [`hold`](Self::hold).
    pub fn unhold(&mut self, _buffer: &Buffer) {
        todo!()
    }

    /// The blocks of a buffer are freed: its changes are not replayed, and it is not written.
    pub fn invalidate(&mut self, _buffer: &Buffer) {
        todo!()
    }

    /// The blocks of an inode cluster are freed, with all inodes in it.
    pub fn stale_cluster(&mut self, _buffer: &Buffer) {
        todo!()
    }

    /// Tracks a buffer without logging its bytes.
    pub fn order(&mut self, _buffer: &Buffer) {
        todo!()
    }
}
