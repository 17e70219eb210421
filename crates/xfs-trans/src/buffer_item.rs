//! The log item of a buffer.
//!
//! Owns: which chunks of a buffer differ from the block on disk, how they are logged, the states of
//! a buffer whose blocks are freed, and writing a buffer in place. Does **not** own: the right to
//! change the buffer (its latch), the set of buffers that a transaction holds
//! ([`buffers`](crate::transaction)), or the inodes in a cluster ([`cluster`]).
//!
//! ```text
//!              log, order               commit               checkpoint durable
//!   in place ─────────────► dirty ─────────────────► pinned ──────────────────────► in the AIL
//!      ▲                      ▲  ▲                                                    │
//!      │ written              │  └─────────── changed again ──────────────────────────┤
//!      └──────────────────────┼───────────────────────────────────────────────────────┘ push
//!                             │ log, after the blocks were claimed again
//!             invalidate      │                     unpin, or released after that
//!   any ──────────────────► freed ──── commit ────► freed, logged ──────────────────► gone
//! ```
//!
//! # Invariants
//!
//! - **I1** The dirty chunks are those changed since the buffer was last written in place (to its
//!   home location on disk), in whatever checkpoints these changes are. So the newest log entry of
//!   a buffer brings the block on disk up to date.
//! - **I2** While the buffer is dirty, logged or in the AIL, the item holds the buffer, so that it
//!   stays in memory. At other times the item does not hold the buffer, because the buffer owns its
//!   item.
//! - **I3** A buffer is written in place unpinned and with its latch held. So nothing in it is
//!   newer than the durable log, and nothing changes while it is written.
//! - **I4** A freed buffer leaves the cache only when its cancellation is durable and no
//!   transaction has joined it. Until then a claim finds this buffer, and the log has one item for
//!   the address.
//! - **I5** An ordered buffer that is not in place keeps its first position in the AIL. Later log
//!   entries hold only the bytes logged since, and the tail must not pass the item that creates the
//!   rest.
//! - **I6** A log entry is updated in place only if its buffer has one extent of at most 8 KiB, and
//!   if no clean chunk has become dirty since the buffer was last formatted. So the entry has kept
//!   its regions.
//!
//! # Crash argument
//!
//! Until a change is durable in the log, the block on disk is unchanged (I3). From then until the
//! buffer is in place, the tail stays at or before the checkpoint that holds all changes (I1, I5),
//! so recovery finds them. A cancellation keeps recovery from replaying older entries into blocks
//! that are used for something else. For this reason the cancellation is the only entry of its
//! checkpoint for this address (I4).
//!
//! Lock order: the latch of the buffer, then `changes`, then the bytes of the buffer. `changes` is
//! a leaf lock, except for reading bytes and for the shards of the cache. The AIL is not called
//! under `changes`.

mod dirty;

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::Buffer;
use xfs_format::log_item::{BufferFlags, BufferFormat, BufferType, CHUNK_BYTES, HostOrder};
use xfs_format::{BlockKind, Lsn};
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionUpdater, RegionWriter};
use xfs_sync::{Mutex, Object};

use crate::cluster::{self, ClusterRecords};
use crate::context::VolumeContext;
use dirty::DirtyState;

/// Whether the blocks of a buffer are in use, or how far freeing them has proceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// The blocks are in use: they hold metadata.
    Used,
    /// A transaction that is not committed yet has freed the blocks.
    Freed,
    /// The transaction that freed the blocks is committed: the cancellation of the buffer is in the
    /// log.
    FreedInLog,
    /// The buffer has left the cache: its cancellation is durable, or it was created for newly
    /// allocated blocks (claimed) and never changed.
    Gone,
}

/// The result of joining a latched buffer to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinOutcome {
    /// The buffer is joined, and its blocks are in use.
    Used,
    /// The buffer is joined, but a transaction has freed its blocks.
    Freed,
    /// The buffer is not joined: it has left the cache, so the caller must look up the address
    /// again.
    Gone,
}

/// The log item of a buffer.
#[doc(alias = "xfs_buf_log_item")]
pub(crate) struct BufferItem {
    context: Arc<VolumeContext>,
    state: ItemState,
    records: ClusterRecords,
    changes: Mutex<DirtyState, Object>,
}

impl BufferItem {
    /// Returns the log item of a buffer. Creates it if the buffer has none yet.
    pub(crate) fn of(context: &Arc<VolumeContext>, buffer: &Buffer) -> Arc<Self> {
        buffer.attach_with(|| Self::new(context, buffer))
    }

    pub(crate) fn context(&self) -> &VolumeContext {
        &self.context
    }

    fn new(context: &Arc<VolumeContext>, buffer: &Buffer) -> Self {
        let clean =
            |extent: &xfs_buffer::BufferExtent| BufferFormat::clean(extent.at, extent.length_bytes);
        let changes = DirtyState::new(buffer.extents().map(clean).collect());
        Self {
            context: Arc::clone(context),
            state: ItemState::new(),
            records: ClusterRecords::default(),
            changes: Mutex::new(changes),
        }
    }

    /// Returns the in-memory records of the inodes in this buffer. The list is empty unless the
    /// buffer is an inode cluster.
    pub(crate) const fn records(&self) -> &ClusterRecords {
        &self.records
    }

    /// Returns whether a change of the buffer's own bytes is in a checkpoint that is not durable
    /// yet, or was lost. Logged changes of inodes in the buffer do not count.
    pub(crate) fn is_pinned(&self) -> bool {
        let changes = self.changes.lock();
        changes.pins > 0 || changes.lost
    }

    /// Returns whether the blocks of the buffer are freed.
    pub(crate) fn is_stale(&self) -> bool {
        self.changes.lock().blocks != BlockState::Used
    }

    /// Returns the LSN of this item in the AIL, or `None` if it is not in the AIL. Inodes in the
    /// buffer have items of their own.
    pub(crate) fn state_lsn(&self) -> Option<Lsn> {
        self.state.lsn()
    }

    /// Joins the buffer to the transaction that has latched it. Panics if the buffer is joined
    /// already.
    pub(crate) fn join(&self) -> JoinOutcome {
        let mut changes = self.changes.lock();
        assert!(!changes.joined, "a latched buffer is joined twice");
        changes.joined = changes.blocks != BlockState::Gone;
        match changes.blocks {
            BlockState::Used => JoinOutcome::Used,
            BlockState::Freed | BlockState::FreedInLog => JoinOutcome::Freed,
            BlockState::Gone => JoinOutcome::Gone,
        }
    }

    /// Removes the buffer from its transaction. After this call, the caller unlatches the buffer.
    pub(crate) fn leave(&self, buffer: &Buffer) {
        self.leave_with(buffer, |_| {});
    }

    /// Removes the buffer from its transaction as [`leave`](Self::leave) does, after a commit or a
    /// roll has put the transaction's changes into the log.
    pub(crate) fn leave_committed(&self, buffer: &Buffer) {
        self.leave_with(buffer, DirtyState::note_committed);
    }

    fn leave_with(&self, buffer: &Buffer, change: impl FnOnce(&mut DirtyState)) {
        let mut changes = self.changes.lock();
        change(&mut changes);
        changes.joined = false;
        let released = self.settle(&mut changes, Some(buffer));
        drop(changes);
        drop(released);
    }

    /// Undoes the claim of a buffer (its creation for newly allocated blocks, which are not read),
    /// if the buffer has not been changed. Removes the buffer from the transaction and the cache.
    /// Its bytes were never read from the disk, so no lookup may find it.
    pub(crate) fn unclaim(&self, buffer: &Buffer) {
        let mut changes = self.changes.lock();
        if changes.blocks == BlockState::Used {
            changes.clean();
            changes.blocks = BlockState::Gone;
            if let Some(cache) = self.context.cache() {
                cache.forget(buffer);
            }
        }
        drop(changes);
        self.leave(buffer);
    }

    /// Marks a range of bytes as changed. The caller holds the latch.
    pub(crate) fn log(&self, buffer: &Buffer, range: Range<usize>) {
        self.log_all(buffer, std::iter::once(range));
    }

    /// Marks several ranges of bytes as changed. Returns `false`, and marks nothing, if all ranges
    /// are empty.
    pub(crate) fn log_all(
        &self,
        buffer: &Buffer,
        ranges: impl Iterator<Item = Range<usize>>,
    ) -> bool {
        let mut changes = self.changes.lock();
        let mut is_changed = false;
        let length_bytes = buffer.length_bytes() as usize;
        // Not `for`: the ranges may be a chain of lists, whose `next` has to find the list.
        ranges.filter(|range| !range.is_empty()).for_each(|range| {
            assert!(range.end <= length_bytes, "{range:?} of {buffer:?}");
            if !is_changed {
                changes.revive(buffer);
            }
            changes.mark(&range);
            is_changed = true;
        });
        is_changed
    }

    /// Makes the buffer an ordered one: the log tracks it without logging its bytes. The caller
    /// holds the latch.
    pub(crate) fn order(&self, buffer: &Buffer) {
        let mut changes = self.changes.lock();
        changes.revive(buffer);
        changes.ordered = true;
    }

    /// Records that the blocks of the buffer are freed. The caller holds the latch of the buffer.
    /// An ordered buffer stays ordered until the cancellation is durable: a checkpoint in progress
    /// may hold other changes of the buffer, and must not move the buffer's LSN in the AIL (I5).
    pub(crate) fn invalidate(&self, buffer: &Buffer) {
        let mut changes = self.changes.lock();
        changes.forget_chunks();
        changes.blocks = BlockState::Freed;
        changes.buffer = Some(buffer.clone());
    }

    /// Records that the blocks of an inode cluster are freed, so that no inode of the cluster
    /// exists any more. The caller holds the latch of the buffer.
    pub(crate) fn invalidate_cluster(&self, buffer: &Buffer) {
        self.invalidate(buffer);
        self.changes.lock().ends_inodes = true;
        self.records.set_freed();
    }

    /// Returns the sequence number of the checkpoint that must be durable before the blocks can be
    /// used again, or `None` if no such wait is needed. A wait is needed only for blocks that
    /// contained inodes: the checkpoint holds their cancellation, without which recovery would
    /// replay the inodes. Logging the buffer again would replace the cancellation (I4).
    pub(crate) fn ends_inodes(&self) -> Option<u64> {
        let changes = self.changes.lock();
        let is_cancelled = changes.blocks == BlockState::FreedInLog && changes.ends_inodes;
        is_cancelled.then(|| self.state.sequence())
    }

    /// Records that the log now has the changes that the buffer's transaction has made since its
    /// last roll.
    pub(crate) fn note_committed(&self) {
        self.changes.lock().note_committed();
    }

    /// Returns whether the log holds changes of the buffer that are not at the buffer's home
    /// location on disk yet, and that the buffer's next log entry would repeat.
    pub(crate) fn can_be_relogged(&self) -> bool {
        let changes = self.changes.lock();
        // A buffer that its item does not hold was just written, and is about to leave the AIL.
        let is_in_log = changes.pins > 0 || self.state.lsn().is_some();
        is_in_log
            && changes.buffer.is_some()
            && !changes.ordered
            && changes.blocks == BlockState::Used
    }

    /// Marks the buffer as clean after it was written to its home location. The caller has held the
    /// latch during the whole write. Returns the buffer's LSN in the AIL, from which the caller
    /// must remove it, or `None` if it is not in the AIL.
    pub(crate) fn note_written(&self) -> Option<Lsn> {
        let lsn = self.state.lsn();
        let mut changes = self.changes.lock();
        assert!(changes.pins == 0, "a pinned buffer was written in place (I3)");
        changes.clean();
        let released = changes.buffer.take();
        drop(changes);
        drop(released);
        lsn
    }

    /// Releases a buffer that needs no more writes, unless it is pinned or joined. Two kinds of
    /// buffers need no more writes: a freed buffer whose cancellation is durable (I4), and any
    /// buffer once the log is shut down. Returns the reference to the buffer that the item held, if
    /// it held one.
    fn settle(&self, changes: &mut DirtyState, buffer: Option<&Buffer>) -> Option<Buffer> {
        if changes.pins > 0 || changes.joined {
            return None;
        }
        match changes.blocks {
            BlockState::FreedInLog => changes.blocks = BlockState::Gone,
            BlockState::Gone => {}
            BlockState::Used | BlockState::Freed if changes.lost => return changes.buffer.take(),
            BlockState::Used | BlockState::Freed => return None,
        }
        let held = changes.buffer.take();
        if let (Some(cache), Some(buffer)) = (self.context.cache(), buffer.or(held.as_ref())) {
            cache.forget(buffer);
        }
        held
    }

    /// Writes the buffer to its home location on disk. The caller holds the latch.
    fn write(&self, buffer: &Buffer, in_place: &mut InPlace) -> Pushed {
        if self.is_pinned() {
            return Pushed::Pinned;
        }
        // While the log pushes, the volume and the position of the item are missing only for a
        // moment: another thread has just written the buffer, or is closing the volume.
        let (Some(cache), Some(lsn)) = (self.context.cache(), self.state.lsn()) else {
            return Pushed::Locked;
        };
        match cache.write(buffer, lsn) {
            Ok(()) => {
                if let Some(lsn) = self.note_written() {
                    in_place.note(&self.state, lsn);
                }
                Pushed::Done
            }
            Err(_) => Pushed::Failed,
        }
    }
}

/// Returns the flags with which the buffer is logged: its type, and whether it holds inodes or is
/// cancelled.
fn flags(buffer: &Buffer, bytes: &[u8], blocks: BlockState) -> BufferFlags {
    let kind = buffer.kind();
    let what = BufferType::of_block(kind, bytes).flags();
    match (blocks, kind) {
        (BlockState::Used, BlockKind::InodeCluster) => what | BufferFlags::INODES,
        (BlockState::Used, _) => what,
        _ => what | BufferFlags::CANCEL,
    }
}

impl LogItem for BufferItem {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        let mut changes = self.changes.lock();
        let DirtyState { buffer: Some(buffer), pieces, blocks, .. } = &mut *changes else {
            unreachable!("a buffer is logged that its item does not hold (I2)")
        };
        let bytes = buffer.bytes();
        let flags = flags(buffer, &bytes, *blocks);
        let mut start = 0;
        for piece in pieces {
            let length = usize::from(piece.blocks) * xfs_format::BASIC_BLOCK_BYTES as usize;
            let runs = piece.run_count();
            if runs > 0 || *blocks != BlockState::Used {
                (piece.flags, piece.regions) = (flags, 1 + runs as u16);
                let length = piece.encoded_bytes();
                regions.encoded(length, |bytes| piece.encode_into(HostOrder::NATIVE, bytes));
            }
            for (first, count) in piece.runs() {
                let from = start + first * CHUNK_BYTES;
                let run = bytes.get(from..from + count * CHUNK_BYTES);
                regions.region(run.expect("dirty chunks lie inside the buffer"));
            }
            start += length;
        }
        drop(bytes);
        changes.note_formatted();
    }

    fn is_updatable(&self) -> bool {
        self.changes.lock().keeps_regions()
    }

    fn update(&self, regions: &mut RegionUpdater<'_>) {
        let flags = |buffer: &Buffer, bytes: &[u8]| flags(buffer, bytes, BlockState::Used);
        self.changes.lock().update(regions, flags);
    }

    fn pin(&self) {
        self.changes.lock().pins += 1;
    }

    fn unpin(&self, end: CheckpointEnd) {
        let mut changes = self.changes.lock();
        assert!(changes.pins > 0, "an unpinned buffer is unpinned");
        changes.pins -= 1;
        changes.lost |= end == CheckpointEnd::Aborted;
        let released = self.settle(&mut changes, None);
        drop(changes);
        drop(released);
    }

    fn committed(&self, start: Lsn, leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        let changes = self.changes.lock();
        // The buffer is in no other checkpoint, so the cancellation must be in this one.
        let cancelled = changes.blocks == BlockState::FreedInLog && changes.pins == 1;
        let ordered = changes.ordered;
        drop(changes);
        if cancelled {
            leaving.extend(self.records.set_gone());
            return None;
        }
        Some(if ordered { self.state.lsn().unwrap_or(start) } else { start })
    }

    fn push(&self, in_place: &mut InPlace) -> Pushed {
        let changes = self.changes.lock();
        if changes.pins > 0 || changes.lost {
            return Pushed::Pinned;
        }
        let (blocks, buffer) = (changes.blocks, changes.buffer.clone());
        drop(changes);
        match (blocks, buffer) {
            // Freed and unpinned: the cancellation is durable.
            (BlockState::FreedInLog | BlockState::Gone, _) => {
                let gone = self.records.set_gone();
                gone.iter().for_each(|record| in_place.note_gone(record.state()));
                Pushed::Done
            }
            // A transaction is freeing it.
            (BlockState::Freed, _) => Pushed::Locked,
            // Another thread has just written it.
            (BlockState::Used, None) => Pushed::Done,
            (BlockState::Used, Some(buffer)) if buffer.kind() == BlockKind::InodeCluster => {
                cluster::push(&self.context, &buffer, self, in_place)
            }
            (BlockState::Used, Some(buffer)) => {
                let Some(_latched) = buffer.try_latched() else { return Pushed::Locked };
                self.write(&buffer, in_place)
            }
        }
    }

    fn abandon(&self) {
        let mut changes = self.changes.lock();
        changes.lost = true;
        let released = self.settle(&mut changes, None);
        drop(changes);
        drop(released);
    }
}

#[cfg(test)]
mod tests;
