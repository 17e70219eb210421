//! Writing a checkpoint (a push): from the switch to the next checkpoint until COMMIT is durable.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::Lsn;
use xfs_format::log_item::{CHECKPOINT, HostOrder, TransactionHeader};
use xfs_sync::{MutexGuard, Ordering};

use super::membership::{CilMembership, Disposition, Member, Members};
use super::{Cil, ClosedCheckpoint, OpenCheckpoint, WriteProgress};
use crate::ail::{CommitRecord, DurableCheckpoint, DurableItems};
use crate::item::CheckpointEnd;
use crate::mutant::mutate;
use crate::vector::RegionWriter;

/// A checkpoint whose COMMIT is durable. Its items are still pinned, and not in the AIL yet.
pub(crate) struct WrittenCheckpoint {
    closed: ClosedCheckpoint,
    start: Lsn,
    record: CommitRecord,
}

/// An operation (START or COMMIT) that all checkpoints write in the order of their sequence
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderedOperation {
    Start,
    Commit,
}

impl Cil {
    /// Writes the open checkpoint, unless it is later than `through` or empty. When this function
    /// returns, the checkpoint and all earlier ones are durable.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log, or [`Error::Shutdown`](xfs_buffer::Error::Shutdown).
    /// The checkpoint's items have then been aborted.
    pub(crate) fn push(&self, through: u64) -> Result<()> {
        let Some(closed) = self.close_checkpoint(through) else { return Ok(()) };
        let written = self.write_closed(closed)?;
        self.complete(written);
        Ok(())
    }

    /// Closes the open checkpoint and opens the next one. Returns `None`, and does nothing, if the
    /// open checkpoint is later than `through` or empty. The caller must
    /// [write](Self::write_closed) or [abandon](Self::abandon_closed) the closed checkpoint.
    pub(crate) fn close_checkpoint(&self, through: u64) -> Option<ClosedCheckpoint> {
        self.switch(through)
    }

    /// Writes a closed checkpoint. When this function returns, the checkpoint and all earlier ones
    /// are durable. The caller must then [complete](Self::complete) the checkpoint.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`push`](Self::push). The checkpoint's items have then been aborted.
    pub(crate) fn write_closed(&self, mut closed: ClosedCheckpoint) -> Result<WrittenCheckpoint> {
        closed.resolve_members();
        match self.write(&closed) {
            Ok((start, record)) => Ok(WrittenCheckpoint { closed, start, record }),
            Err(error) => {
                self.abort(closed);
                Err(error)
            }
        }
    }

    /// Aborts the items of a closed checkpoint that will not be written, because the log is shut
    /// down.
    pub(crate) fn abandon_closed(&self, mut closed: ClosedCheckpoint) {
        closed.resolve_members();
        self.abort(closed);
    }

    /// Closes the open checkpoint and opens the next one, as `close_checkpoint` says. For one
    /// moment all slots are locked: commits before that moment are in the old checkpoint, commits
    /// after it in the new one.
    fn switch(&self, through: u64) -> Option<ClosedCheckpoint> {
        let _switching = self.switching.lock();
        let sequence = self.current();
        if sequence > through {
            return None;
        }
        let next = Arc::new(OpenCheckpoint::new(sequence + 1));
        let mut closed = ClosedCheckpoint::new(sequence);
        mutate!(self.parts.mutant, Mutant::SlotsOneByOne, {}, {
            self.switch_one_by_one(&mut closed, &next);
            return Some(closed);
        });
        let mut slots: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let first = slots.first().expect("the list has a slot");
        if first.closed || first.checkpoint.empty.load(Ordering::Acquire) {
            return None;
        }
        let is_shared =
            |slot: &MutexGuard<'_, CilMembership>| Arc::ptr_eq(&slot.checkpoint, &first.checkpoint);
        assert!(slots.iter().all(is_shared), "the slots hold different checkpoints (I2)");
        for membership in &mut slots {
            closed.take(membership, &next);
        }
        self.announce(sequence);
        drop(slots);
        Some(closed)
    }

    /// Switches to the next checkpoint as the mutant (deliberate bug) `SlotsOneByOne` does: it
    /// locks one slot after another, which is wrong.
    #[cfg(test)]
    fn switch_one_by_one(&self, closed: &mut ClosedCheckpoint, next: &Arc<OpenCheckpoint>) {
        self.committing.lock().checkpoints.insert(closed.sequence, WriteProgress::default());
        for slot in self.slots.iter() {
            closed.take(&mut slot.lock(), next);
        }
        self.announce(closed.sequence);
    }

    /// Publishes the switch from the checkpoint `sequence` to the next one. The checkpoint enters
    /// `committing` before any thread can see that it is no longer open (I1).
    fn announce(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        committing.checkpoints.entry(sequence).or_default();
        self.current.store(sequence + 1, Ordering::Release);
        self.condvars.switched.notify_all();
    }

    fn write(&self, closed: &ClosedCheckpoint) -> Result<(Lsn, CommitRecord)> {
        let (writer, sequence) = (&self.parts.writer, closed.sequence);
        let mut first = Vec::new();
        let (regions, members) = closed.formatted_members(self.parts.mutant);
        let vectors = members.iter().map(|member| member.vector);
        let bytes: usize = vectors.clone().map(<[u8]>::len).sum();
        let transaction = self.parts.first_number.wrapping_add(sequence as u32);
        let header = TransactionHeader { kind: CHECKPOINT, transaction, regions };
        RegionWriter::new(&mut first).region(&header.encode(HostOrder::NATIVE));

        let mutant = self.parts.mutant;
        mutate!(
            mutant,
            Mutant::StartOutOfOrder,
            self.await_predecessors(sequence, OrderedOperation::Start)?,
            {}
        );
        let start = writer.append_start(transaction, sequence)?;
        self.progress(sequence, |progress| progress.start = Some(start));
        writer.append(transaction, std::iter::once(first.as_slice()).chain(vectors))?;
        self.written.add(0, bytes as u64);

        self.await_predecessors(sequence, OrderedOperation::Commit)?;
        let closed = writer.append_commit(transaction)?;
        self.progress(sequence, |progress| progress.committed = true);
        let record = closed.span();
        writer.write(closed)?;
        Ok((start, record))
    }

    /// Waits until all checkpoints before `sequence` have written their START or their COMMIT,
    /// whichever `operation` names.
    fn await_predecessors(&self, sequence: u64, operation: OrderedOperation) -> Result<()> {
        let mut committing = self.committing.lock();
        loop {
            self.parts.health.check()?;
            let mut older = committing.checkpoints.range(..sequence).map(|(_, progress)| progress);
            let ready = match operation {
                OrderedOperation::Start => older.all(|progress| progress.start.is_some()),
                OrderedOperation::Commit => older.all(|progress| progress.committed),
            };
            if ready {
                return Ok(());
            }
            self.condvars.order.wait(&mut committing);
        }
    }

    fn progress(&self, sequence: u64, change: impl FnOnce(&mut WriteProgress)) {
        let mut committing = self.committing.lock();
        let progress = committing.checkpoints.get_mut(&sequence);
        change(progress.expect("a checkpoint that is being written is in `committing` (I1)"));
        self.condvars.order.notify_all();
    }

    /// Completes a durable checkpoint. The items of the checkpoint go to the AIL, then they are
    /// unpinned, and only then do threads that wait for the checkpoint continue. The members are
    /// taken chunk by chunk, so that a chunk stays in the processor's cache from the first step to
    /// the last.
    pub(crate) fn complete(&self, written: WrittenCheckpoint) {
        let WrittenCheckpoint { closed, start, record } = written;
        let ClosedCheckpoint { sequence, granted, members_by_slot } = closed;
        self.await_oldest(sequence);
        let mut arenas = Vec::with_capacity(members_by_slot.len());
        let mut items = DurableItems::default();
        for Members { list, arena, .. } in members_by_slot {
            arenas.push(arena);
            for chunk in list.into_chunks() {
                self.complete_chunk(&chunk, start, &mut items);
                self.lists.give_back(chunk);
            }
        }
        self.parts.ail.complete(&DurableCheckpoint { sequence, record, granted });
        self.pool.recycle(arenas);
        let mut committing = self.committing.lock();
        committing.checkpoints.remove(&sequence);
        self.durable.store(sequence, Ordering::Release);
        self.condvars.ended.notify_all();
        if committing.checkpoints.is_empty() {
            self.condvars.switched.notify_all();
        }
    }

    /// Waits until all checkpoints before `sequence` are complete or aborted.
    fn await_oldest(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        while committing.checkpoints.range(..sequence).next().is_some() {
            self.condvars.ended.wait(&mut committing);
        }
    }

    /// Moves the items of a chunk's members to the AIL, and then unpins the items.
    fn complete_chunk(&self, chunk: &[Member], start: Lsn, items: &mut DurableItems) {
        for member in chunk.iter().filter(|member| member.disposition == Disposition::Written) {
            let item = &member.item;
            match item.committed(start, &mut items.leaving) {
                Some(lsn) => items.placed.push((Arc::clone(item), lsn)),
                None if item.state().lsn().is_some() => items.leaving.push(Arc::clone(item)),
                None => {}
            }
        }
        self.parts.ail.insert_durable(items);
        chunk.iter().for_each(|member| member.unpin(CheckpointEnd::Durable));
    }

    /// Aborts a checkpoint that could not be written, and shuts the log down.
    fn abort(&self, closed: ClosedCheckpoint) {
        self.parts.health.set_down();
        closed.unpin_all(CheckpointEnd::Aborted);
        self.committing.lock().checkpoints.remove(&closed.sequence);
        self.wake_all();
    }
}
