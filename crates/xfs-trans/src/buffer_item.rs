//! A buffer as the log sees it.
//!
//! Owns: which chunks of a buffer are not in place, how they are logged, what becomes of a buffer
//! whose blocks are freed, and writing one in place. Does **not** own: who may change the buffer (its
//! latch), which transaction holds it ([`buffers`](crate::transaction)), or inodes in a cluster
//! ([`cluster`]).
//!
//! ```text
//!              log, order               commit               checkpoint durable
//!   in place ─────────────► dirty ─────────────────► pinned ──────────────────────► in the AIL
//!      ▲                      ▲  ▲                                                    │
//!      │ written              │  └─────────── changed again ──────────────────────────┤
//!      └──────────────────────┼───────────────────────────────────────────────────────┘ push
//!                             │ log, after the blocks were claimed anew
//!             invalidate      │                     unpin, or given back after that
//!   any ──────────────────► freed ──── commit ────► freed, logged ──────────────────► gone
//! ```
//!
//! # Invariants
//!
//! - **I1** The dirty chunks are those changed since the buffer was last in place, whatever
//!   checkpoints hold them: the newest entry of a buffer brings it up to date from what lies on disk.
//! - **I2** While something is dirty, logged or in the AIL the item holds the buffer, so that it
//!   stays in memory. Otherwise it does not: the buffer owns its item.
//! - **I3** A buffer is written in place with its latch held and unpinned: then nothing in it is
//!   newer than the durable log, and nothing comes in while it is written.
//! - **I4** A freed buffer leaves the table of the cache only when its cancellation is durable and
//!   nobody has joined it; until then a claim finds this object, and the log one item.
//! - **I5** What is ordered and not in place keeps the place in the AIL that it had first: later
//!   entries hold only what was logged, and the tail must not pass what it depends on.
//!
//! # Crash argument
//!
//! Until a change is durable in the log, the block on disk is as before (I3). From then until it is
//! in place, the tail stays at or before the checkpoint that holds all of it (I1, I5), so recovery
//! has it. A cancellation keeps older entries from being replayed into blocks of another life; that
//! is why it is the only thing of its checkpoint that is logged of this address (I4).
//!
//! Lock order: the latch of the buffer, then `changes`, then its bytes. `changes` is a leaf but for
//! reading bytes and the table of the cache; the AIL is not called under it.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::Buffer;
use xfs_format::log_item::{BufferFlags, BufferFormat, BufferType, CHUNK_BYTES, HostOrder};
use xfs_format::{BlockKind, Lsn};
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionWriter};
use xfs_sync::{Mutex, Object};

use crate::cluster::{self, ClusterRecords};
use crate::context::VolumeContext;

/// What becomes of the blocks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// They hold metadata.
    Used,
    /// They were freed by a transaction that is not committed.
    Freed,
    /// The cancellation is in the log.
    FreedInLog,
    /// That is durable: the buffer is not in the table any more.
    Gone,
}

/// What a transaction that has latched a buffer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinOutcome {
    /// It is joined.
    Used,
    /// It is joined, and its blocks are freed.
    Freed,
    /// It has left the table: the caller looks the address up again.
    Gone,
}

/// A buffer as the log sees it.
#[doc(alias = "xfs_buf_log_item")]
pub(crate) struct BufferItem {
    context: Arc<VolumeContext>,
    state: ItemState,
    records: ClusterRecords,
    changes: Mutex<DirtyState, Object>,
}

/// What of a buffer is not in place.
struct DirtyState {
    /// Held while there is something to log or to write (I2).
    buffer: Option<Buffer>,
    /// For each piece of the buffer its dirty chunks.
    pieces: Box<[BufferFormat]>,
    /// Tracked, though not logged (I5).
    ordered: bool,
    blocks: BlockState,
    /// It was freed with inodes in it: see [`BufferItem::ends_inodes`].
    ends_inodes: bool,
    /// A transaction holds it.
    joined: bool,
    /// Checkpoints that hold it and have not ended.
    pins: u32,
    /// A checkpoint that held it was lost: it must never be written.
    lost: bool,
}

impl BufferItem {
    /// The item of a buffer.
    pub(crate) fn of(context: &Arc<VolumeContext>, buffer: &Buffer) -> Arc<Self> {
        buffer.attach_with(|| Self::new(context, buffer))
    }

    pub(crate) fn context(&self) -> &VolumeContext {
        &self.context
    }

    fn new(context: &Arc<VolumeContext>, buffer: &Buffer) -> Self {
        let clean =
            |extent: &xfs_buffer::BufferExtent| BufferFormat::clean(extent.at, extent.length_bytes);
        let changes = DirtyState {
            buffer: None,
            pieces: buffer.extents().map(clean).collect(),
            ordered: false,
            blocks: BlockState::Used,
            ends_inodes: false,
            joined: false,
            pins: 0,
            lost: false,
        };
        Self {
            context: Arc::clone(context),
            state: ItemState::new(),
            records: ClusterRecords::default(),
            changes: Mutex::new(changes),
        }
    }

    /// The records of inodes in this buffer.
    pub(crate) const fn records(&self) -> &ClusterRecords {
        &self.records
    }

    /// Whether a checkpoint that is not durable holds a change of the buffer itself, or one was lost.
    pub(crate) fn is_pinned(&self) -> bool {
        let changes = self.changes.lock();
        changes.pins > 0 || changes.lost
    }

    /// Whether the buffer's blocks are freed.
    pub(crate) fn is_stale(&self) -> bool {
        self.changes.lock().blocks != BlockState::Used
    }

    /// Where the buffer itself stands in the AIL.
    pub(crate) fn state_lsn(&self) -> Option<Lsn> {
        self.state.lsn()
    }

    /// A transaction has latched the buffer.
    pub(crate) fn join(&self) -> JoinOutcome {
        let mut changes = self.changes.lock();
        assert!(!changes.joined, "a latched buffer joined twice");
        changes.joined = changes.blocks != BlockState::Gone;
        match changes.blocks {
            BlockState::Used => JoinOutcome::Used,
            BlockState::Freed | BlockState::FreedInLog => JoinOutcome::Freed,
            BlockState::Gone => JoinOutcome::Gone,
        }
    }

    /// The transaction gives the buffer back; the caller unlatches it next.
    pub(crate) fn leave(&self, buffer: &Buffer) {
        self.leave_with(buffer, |_| {});
    }

    /// As [`leave`](Self::leave), when what the step has changed of the buffer is in the log.
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

    /// The transaction gives back a buffer that it has claimed and then not changed. Its bytes are
    /// those of no block, so nobody may find it.
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

    /// Marks bytes as changed. The caller holds the latch.
    pub(crate) fn log(&self, buffer: &Buffer, range: Range<usize>) {
        self.log_all(buffer, std::iter::once(range));
    }

    /// The same, of several ranges. `false` if there is none.
    pub(crate) fn log_all(
        &self,
        buffer: &Buffer,
        ranges: impl Iterator<Item = Range<usize>>,
    ) -> bool {
        let mut changes = self.changes.lock();
        let mut is_changed = false;
        for range in ranges.filter(|range| !range.is_empty()) {
            assert!(range.end <= buffer.length_bytes() as usize, "{range:?} of {buffer:?}");
            if !is_changed {
                changes.revive(buffer);
            }
            changes.mark(&range);
            is_changed = true;
        }
        is_changed
    }

    /// Tracks the buffer without logging its bytes. The caller holds the latch.
    pub(crate) fn order(&self, buffer: &Buffer) {
        let mut changes = self.changes.lock();
        changes.revive(buffer);
        changes.ordered = true;
    }

    /// The blocks are freed. The caller holds the latch. A checkpoint may be under way that has logged more of an
    /// ordered buffer, and keeps its place (I5): until the cancellation is durable the buffer is still ordered.
    pub(crate) fn invalidate(&self, buffer: &Buffer) {
        let mut changes = self.changes.lock();
        changes.forget_chunks();
        changes.blocks = BlockState::Freed;
        changes.buffer = Some(buffer.clone());
    }

    /// The blocks of an inode cluster are freed, with all inodes in it. The caller holds the latch.
    pub(crate) fn invalidate_cluster(&self, buffer: &Buffer) {
        self.invalidate(buffer);
        self.changes.lock().ends_inodes = true;
        self.records.set_freed();
    }

    /// The checkpoint that has to be durable before the buffer's blocks become anything else: it
    /// cancels them, and they held inodes. These are in the log as items of their own, which nothing but
    /// the cancellation keeps from being replayed; and an item that is logged anew takes its place (I4).
    pub(crate) fn ends_inodes(&self) -> Option<u64> {
        let changes = self.changes.lock();
        let is_cancelled = changes.blocks == BlockState::FreedInLog && changes.ends_inodes;
        is_cancelled.then(|| self.state.sequence())
    }

    /// What the step has changed of the buffer is in the log.
    pub(crate) fn note_committed(&self) {
        self.changes.lock().note_committed();
    }

    /// Whether the log holds something of the buffer that is not in place and that logging it once
    /// more would carry on.
    pub(crate) fn can_be_relogged(&self) -> bool {
        let changes = self.changes.lock();
        let is_in_log = changes.pins > 0 || self.state.lsn().is_some();
        is_in_log && !changes.ordered && changes.blocks == BlockState::Used
    }

    /// The buffer was written in place, its latch held all the time: it is clean. Returns where it has
    /// to leave the AIL.
    pub(crate) fn note_written(&self) -> Option<Lsn> {
        let lsn = self.state.lsn();
        let mut changes = self.changes.lock();
        assert!(changes.pins == 0, "a buffer written that the log was not done with (I3)");
        changes.clean();
        let released = changes.buffer.take();
        drop(changes);
        drop(released);
        lsn
    }

    /// Lets go of a buffer that nothing has to be written of any more: one that was freed, when its
    /// cancellation is durable (I4), and any when the log is shut down. Returns what was held.
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

    /// Writes the buffer in place. The caller holds the latch.
    fn write(&self, buffer: &Buffer, in_place: &mut InPlace) -> Pushed {
        if self.is_pinned() {
            return Pushed::Pinned;
        }
        // Neither the volume nor the item's place can be missing while the log pushes, but for a
        // moment: somebody has just written it, or closes the volume.
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

impl DirtyState {
    /// Marks bytes of the buffer, in whichever of its pieces they lie.
    fn mark(&mut self, range: &Range<usize>) {
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

    /// Something is about to be logged: a freed buffer that was claimed again is used.
    fn revive(&mut self, buffer: &Buffer) {
        (self.blocks, self.ends_inodes) = (BlockState::Used, false);
        if self.buffer.is_none() {
            self.buffer = Some(buffer.clone());
        }
    }

    /// What a step has changed is in the log.
    fn note_committed(&mut self) {
        if self.blocks == BlockState::Freed {
            self.blocks = BlockState::FreedInLog;
        }
    }

    /// Nothing is to be written any more.
    fn clean(&mut self) {
        self.forget_chunks();
        self.ordered = false;
    }

    /// Nothing is to be logged any more of what has been changed.
    fn forget_chunks(&mut self) {
        for piece in &mut self.pieces {
            piece.bitmap.fill(0);
        }
    }
}

/// Sets the bits of the chunks that these bytes touch. There are some.
fn mark(bitmap: &mut [u32], bytes: Range<usize>) {
    let (first, last) = (bytes.start / CHUNK_BYTES, (bytes.end - 1) / CHUNK_BYTES);
    let words = bitmap.iter_mut().enumerate().take(last / 32 + 1).skip(first / 32);
    for (index, word) in words {
        let from = if index == first / 32 { first % 32 } else { 0 };
        let to = if index == last / 32 { last % 32 } else { 31 };
        *word |= u32::MAX << from & u32::MAX >> (31 - to);
    }
}

/// What a buffer is logged as.
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
            return;
        };
        let bytes = buffer.bytes();
        let flags = flags(buffer, &bytes, *blocks);
        let mut start = 0;
        for piece in pieces {
            let length = usize::from(piece.blocks) * xfs_format::BASIC_BLOCK_BYTES as usize;
            let runs = piece.run_count();
            if runs > 0 || *blocks != BlockState::Used {
                (piece.flags, piece.regions) = (flags, 1 + runs as u16);
                regions.encoded(|bytes| piece.encode_into(HostOrder::NATIVE, bytes));
            }
            for (first, count) in piece.runs() {
                let from = start + first * CHUNK_BYTES;
                let run = bytes.get(from..from + count * CHUNK_BYTES);
                regions.region(run.expect("dirty chunks lie inside the buffer"));
            }
            start += length;
        }
    }

    fn pin(&self) {
        self.changes.lock().pins += 1;
    }

    fn unpin(&self, end: CheckpointEnd) {
        let mut changes = self.changes.lock();
        assert!(changes.pins > 0, "a buffer unpinned that was not pinned");
        changes.pins -= 1;
        changes.lost |= end == CheckpointEnd::Aborted;
        let released = self.settle(&mut changes, None);
        drop(changes);
        drop(released);
    }

    fn committed(&self, start: Lsn, leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        let changes = self.changes.lock();
        // In no other checkpoint, and the cancellation is in one: it is in this one.
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
            // Somebody has just written it.
            (BlockState::Used, None) => Pushed::Done,
            (BlockState::Used, Some(buffer)) if buffer.kind() == BlockKind::InodeCluster => {
                cluster::push(&self.context, &buffer, self, in_place)
            }
            (BlockState::Used, Some(buffer)) => {
                if !buffer.try_latch() {
                    return Pushed::Locked;
                }
                let pushed = self.write(&buffer, in_place);
                buffer.unlatch();
                pushed
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
