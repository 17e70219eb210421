//! The buffers of a transaction.
//!
//! Owns: the set of buffers that a transaction holds, the states of these buffers, and when they
//! are released. Does **not** own: which chunks are dirty and how they are logged
//! ([`buffer_item`](crate::buffer_item)), or the order in which buffers are latched, which the
//! layers above decide (docs/internals/transactions.md).
//!
//! ```text
//!  read, claim ─→ joined, clean ── change, log, order, invalidate ─→ dirty ─→ committed
//!                     │  ▲                                                       │
//!       release, step ends └──────────────────── held ───────────────────────────┤
//!                     ▼                                                          ▼
//!                 released ◄───────────────────────────────────────────────── not held
//! ```

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Buffer, BufferExtent, Result};
use xfs_format::{BlockKind, Check, Corruption, DiskAddr, StructureAddress};
use xfs_log::LogItem;

use super::Transaction;
use crate::buffer_item::{BufferItem, JoinOutcome};

/// A buffer that a transaction holds latched, with its state in the transaction.
struct JoinedBuffer {
    buffer: Buffer,
    item: Arc<BufferItem>,
    /// Whether the buffer was changed in the current step of the chain.
    dirty: bool,
    /// Whether the buffer stays latched when the transaction rolls.
    held: bool,
    /// Whether the transaction has announced a change of the buffer by `claim`, and has not logged
    /// the change yet.
    claimed: bool,
    /// Whether this chain of transactions has freed the buffer's blocks, and has not allocated them
    /// again since.
    freed: bool,
}

impl JoinedBuffer {
    fn give_back(&self) {
        if self.dirty {
            // Never committed: the volume is shut down, and the change is only in memory.
            self.item.abandon();
        }
        if self.claimed {
            self.item.unclaim(&self.buffer);
        } else {
            self.item.leave(&self.buffer);
        }
        self.buffer.unlatch();
    }

    /// Releases the buffer, whose changes the log now has.
    fn release_committed(&self) {
        debug_assert!(!self.claimed, "a dirty buffer counts as claimed");
        self.item.leave_committed(&self.buffer);
        self.buffer.unlatch();
    }

    /// Records that the blocks of the buffer are freed, in this entry of the transaction's list.
    /// Calls `invalidate`, which records the same in the buffer's log item.
    fn end(&mut self, invalidate: impl FnOnce(&BufferItem, &Buffer)) {
        invalidate(&self.item, &self.buffer);
        (self.dirty, self.claimed, self.freed) = (true, false, true);
    }

    fn covers(&self, map: &[BufferExtent]) -> bool {
        self.buffer.extents().eq(map)
    }
}

/// The initial capacity of the list of buffers. Few operations join more buffers than this number.
const INITIAL_CAPACITY: usize = 8;

/// The buffers that a transaction holds latched, in the order in which they were joined.
#[derive(Default)]
pub(super) struct JoinedBuffers(Vec<JoinedBuffer>);

impl JoinedBuffers {
    /// Returns whether the current transaction of the chain has changed any of the buffers.
    pub(super) fn is_dirty(&self) -> bool {
        self.0.iter().any(|joined| joined.dirty)
    }

    /// Marks every held buffer that is in the log as dirty, so that the roll logs it again. Without
    /// this, a roll could wait for ever: a held buffer cannot be written to its home location, so
    /// the tail could not move.
    pub(super) fn relog(&mut self) {
        for joined in self.0.iter_mut().filter(|joined| joined.held && !joined.dirty) {
            joined.dirty = joined.item.can_be_relogged();
        }
    }

    /// Appends to `items` the log items of the buffers that the current transaction of the chain
    /// has changed.
    pub(super) fn collect(&self, items: &mut Vec<Arc<dyn LogItem>>) {
        // Not `extend`: the caller has reserved memory, and the number of dirty buffers is unknown.
        for joined in self.0.iter().filter(|joined| joined.dirty) {
            items.push(Arc::clone(&joined.item) as Arc<dyn LogItem>);
        }
    }

    /// Ends a committed transaction of the chain: releases the buffers that are not held for the
    /// next one, and marks the held buffers as clean.
    pub(super) fn end_step(&mut self) {
        self.0.retain_mut(|joined| {
            match (joined.held, std::mem::take(&mut joined.dirty)) {
                (true, true) => joined.item.note_committed(),
                (true, false) => {}
                (false, true) => joined.release_committed(),
                (false, false) => joined.give_back(),
            }
            joined.held
        });
    }

    /// Ends the last transaction of a chain, which is committed: releases all buffers.
    pub(super) fn end_chain(&mut self) {
        for joined in self.0.drain(..) {
            if joined.dirty {
                joined.release_committed();
            } else {
                joined.give_back();
            }
        }
    }

    /// Releases all buffers, when the chain ends without a commit.
    pub(super) fn release_all(&mut self) {
        while let Some(joined) = self.0.pop() {
            joined.give_back();
        }
    }

    /// Returns the number of buffers in the list.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of buffers that fit into the allocated memory of the list.
    pub(super) const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the address and the kind of each buffer. The address is that of its first block.
    pub(super) fn places(&self) -> impl Iterator<Item = (DiskAddr, BlockKind)> {
        self.0.iter().map(|joined| (joined.buffer.at(), joined.buffer.kind()))
    }

    fn add(&mut self, buffer: &Buffer, item: Arc<BufferItem>, claimed: bool) {
        if self.0.capacity() == 0 {
            self.0.reserve(INITIAL_CAPACITY);
        }
        let buffer = buffer.clone();
        self.0.push(JoinedBuffer {
            buffer,
            item,
            dirty: false,
            held: false,
            claimed,
            freed: false,
        });
    }

    /// Returns the joined buffer with exactly these extents, or `None` if there is none.
    fn find_at(&mut self, map: &[BufferExtent]) -> Option<&mut JoinedBuffer> {
        let at = map.first()?.at;
        self.0.iter_mut().find(|joined| joined.buffer.at() == at && joined.covers(map))
    }

    /// Returns the entry of a joined buffer.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    fn find(&mut self, buffer: &Buffer) -> &mut JoinedBuffer {
        // Most calls use the buffer that was joined last.
        let joined = self.0.iter_mut().rev().find(|joined| joined.buffer == *buffer);
        joined.unwrap_or_else(|| unreachable!("{buffer:?} used without being joined (I2)"))
    }
}

/// Whether a read waits for a buffer that another transaction has latched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LatchMode {
    Wait,
    Try,
}

impl Transaction<'_> {
    /// Reads a buffer, and latches it until it is released or the current transaction of the chain
    /// ends.
    ///
    /// # Errors
    ///
    /// Returns the errors of the read, and a corruption if the blocks are freed.
    pub fn read(&mut self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.read_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// Reads a buffer over several extents, as [`read`](Self::read) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read).
    pub fn read_mapped(&mut self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let read = self.join_read(map, kind, LatchMode::Wait)?;
        Ok(read.expect("a read that waits for the latch returns a buffer"))
    }

    /// Reads a buffer as [`read`](Self::read) does, but returns `None` if another transaction has
    /// latched the buffer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read).
    pub fn try_read(
        &mut self,
        at: DiskAddr,
        length_bytes: u32,
        kind: BlockKind,
    ) -> Result<Option<Buffer>> {
        self.join_read(&[BufferExtent { at, length_bytes }], kind, LatchMode::Try)
    }

    fn join_read(
        &mut self,
        map: &[BufferExtent],
        kind: BlockKind,
        latch_mode: LatchMode,
    ) -> Result<Option<Buffer>> {
        if let Some(joined) = self.buffers.find_at(map) {
            if joined.freed {
                return Err(freed(&joined.buffer));
            }
            if joined.buffer.kind() == kind {
                return Ok(Some(joined.buffer.clone()));
            }
        }
        // A round fails only when the blocks were freed, or the buffer became another kind, between
        // the lookup and the latch.
        loop {
            let buffer = self.cache().read_mapped(map, kind)?;
            match latch_mode {
                LatchMode::Wait => buffer.latch(),
                LatchMode::Try if buffer.try_latch() => {}
                LatchMode::Try => return Ok(None),
            }
            let item = BufferItem::of(self.journal.context(), &buffer);
            let outcome = if buffer.kind() == kind { item.join() } else { JoinOutcome::Gone };
            match outcome {
                JoinOutcome::Used => {
                    self.buffers.add(&buffer, item, false);
                    return Ok(Some(buffer));
                }
                JoinOutcome::Freed => {
                    item.leave(&buffer);
                    buffer.unlatch();
                    return Err(freed(&buffer));
                }
                JoinOutcome::Gone => buffer.unlatch(),
            }
        }
    }

    /// Returns whether the transaction has joined a buffer whose first extent starts at `at`.
    #[must_use]
    pub fn holds(&self, at: DiskAddr) -> bool {
        self.buffers.places().any(|(place, _)| place == at)
    }

    /// Latches and joins a buffer that the caller already has, without a lookup. The caller ensures
    /// that the buffer's blocks have not been freed since it got the buffer.
    ///
    /// # Errors
    ///
    /// Returns a corruption if the blocks are freed nevertheless.
    pub fn join_buffer(&mut self, buffer: &Buffer) -> Result<()> {
        if let Some(joined) = self.buffers.0.iter().find(|joined| joined.buffer == *buffer) {
            return if joined.freed { Err(freed(buffer)) } else { Ok(()) };
        }
        buffer.latch();
        let item = BufferItem::of(self.journal.context(), buffer);
        match item.join() {
            JoinOutcome::Used => {
                self.buffers.add(buffer, item, false);
                return Ok(());
            }
            JoinOutcome::Freed => item.leave(buffer),
            JoinOutcome::Gone => {}
        }
        buffer.unlatch();
        Err(freed(buffer))
    }

    /// Returns a latched buffer of zeros over newly allocated blocks, without reading them. If the
    /// blocks held inodes whose removal is not durable yet, this function waits for the log.
    ///
    /// # Errors
    ///
    /// Returns the errors of the cache, or the error that stopped the log.
    pub fn claim(&mut self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.claim_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// Claims a buffer over several extents, as [`claim`](Self::claim) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`claim`](Self::claim).
    pub fn claim_mapped(&mut self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let cache = self.cache();
        if let Some(joined) = self.buffers.find_at(map) {
            // This transaction freed the blocks before.
            cache.renew(&joined.buffer, kind);
            (joined.claimed, joined.freed) = (!joined.dirty, false);
            return Ok(joined.buffer.clone());
        }
        loop {
            let buffer = cache.claim(map, kind)?;
            let item = BufferItem::of(self.journal.context(), &buffer);
            if let Some(sequence) = item.ends_inodes() {
                // The free list may hold blocks that are still busy. The buffer leaves the cache
                // meanwhile.
                let forced = self.journal.force(sequence);
                buffer.unlatch();
                forced?;
                continue;
            }
            if item.join() != JoinOutcome::Gone {
                // A caller with an outdated inode number may have read the old inodes here.
                item.records().set_freed();
                self.buffers.add(&buffer, item, true);
                return Ok(buffer);
            }
            // The buffer left the cache after the lookup.
            buffer.unlatch();
        }
    }

    /// Changes a range of bytes of a joined buffer, and logs that range. `change` must not access
    /// the bytes of this buffer in any other way.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined, or ends before the range does.
    pub fn change<R>(
        &mut self,
        buffer: &Buffer,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let result = {
            let mut bytes = buffer.bytes_mut();
            change(bytes.get_mut(range.clone()).expect("the changed range lies in the buffer"))
        };
        self.log(buffer, range);
        result
    }

    /// Marks a range of bytes of a joined buffer as changed, so that the current transaction of the
    /// chain logs these bytes.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined, or ends before the range does.
    pub fn log(&mut self, buffer: &Buffer, range: Range<usize>) {
        let joined = self.buffers.find(buffer);
        if range.is_empty() {
            return;
        }
        joined.item.log(buffer, range);
        (joined.dirty, joined.claimed) = (true, false);
    }

    /// Marks several ranges of bytes of a joined buffer as changed, so that the current transaction
    /// of the chain logs these bytes.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined, or ends before one of the ranges does.
    pub fn log_all(&mut self, buffer: &Buffer, ranges: impl Iterator<Item = Range<usize>>) {
        let joined = self.buffers.find(buffer);
        if joined.item.log_all(buffer, ranges) {
            (joined.dirty, joined.claimed) = (true, false);
        }
    }

    /// Unlatches a buffer at once. Does nothing if the current transaction of the chain has changed
    /// the buffer, or if [`hold`](Self::hold) keeps the buffer.
    pub fn release(&mut self, buffer: &Buffer) {
        self.buffers.0.retain(|joined| {
            let leaves = joined.buffer == *buffer && !joined.dirty && !joined.held;
            if leaves {
                joined.give_back();
            }
            !leaves
        });
    }

    /// Keeps a joined buffer latched when the chain rolls to its next transaction.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    pub fn hold(&mut self, buffer: &Buffer) {
        self.buffers.find(buffer).held = true;
    }

    /// Undoes [`hold`](Self::hold): the buffer is released at the end of the current transaction of
    /// the chain.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    pub fn unhold(&mut self, buffer: &Buffer) {
        self.buffers.find(buffer).held = false;
    }

    /// Records that the blocks of a buffer are freed. Recovery then does not replay the buffer's
    /// changes, and the buffer is not written to disk.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    #[doc(alias = "xfs_trans_binval")]
    pub fn invalidate(&mut self, buffer: &Buffer) {
        self.buffers.find(buffer).end(BufferItem::invalidate);
    }

    /// Records that the blocks of an inode cluster are freed, so that no inode of the cluster
    /// exists any more.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    pub fn stale_cluster(&mut self, buffer: &Buffer) {
        self.buffers.find(buffer).end(BufferItem::invalidate_cluster);
    }

    /// Makes a buffer an ordered one: the log tracks it without logging its bytes. Another item of
    /// this transaction, such as an inode creation, must make recovery create the bytes. The tail
    /// of the log does not pass that item before the buffer is written to disk.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is not joined.
    #[doc(alias = "xfs_trans_ordered_buf")]
    pub fn order(&mut self, buffer: &Buffer) {
        let joined = self.buffers.find(buffer);
        joined.item.order(buffer);
        (joined.dirty, joined.claimed) = (true, false);
    }
}

#[cold]
fn freed(buffer: &Buffer) -> xfs_buffer::Error {
    let place = StructureAddress::Disk(buffer.at());
    Corruption::new(buffer.kind().structure(), place, Check::BufferFreed).into()
}

#[cfg(test)]
mod tests;
