//! Pushes: from the switch to the durable COMMIT.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::Lsn;
use xfs_format::log_item::{CHECKPOINT, HostOrder, TransactionHeader};
use xfs_sync::Ordering;

use super::membership::{Member, Members};
use super::{Checkpoint, Cil, Disposition, Gathered, Progress};
use crate::ail::{CommitRecord, DurableCheckpoint, DurableItems};
use crate::item::CheckpointEnd;
use crate::mutant::mutate;
use crate::vector::RegionWriter;

/// A checkpoint that takes no commits any more, and that is not written yet.
pub(crate) struct ClosedCheckpoint(Gathered);

/// A checkpoint that is durable, and whose items do not know it yet.
pub(crate) struct WrittenCheckpoint {
    gathered: Gathered,
    start: Lsn,
    record: CommitRecord,
}

/// Which of its operations a checkpoint wants to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Start,
    Commit,
}

impl Cil {
    /// Writes the current checkpoint, unless it is later than `through` or empty. When this returns
    /// the checkpoint is durable, and so are all before it.
    ///
    /// # Errors
    ///
    /// What stopped the log, or [`Error::Shutdown`](xfs_buffer::Error::Shutdown). The checkpoint's
    /// items have been aborted then.
    pub(crate) fn push(&self, through: u64) -> Result<()> {
        let Some(closed) = self.close_checkpoint(through) else { return Ok(()) };
        let written = self.write_closed(closed)?;
        self.complete(written);
        Ok(())
    }

    /// Closes the current checkpoint, unless it is later than `through` or empty. The caller has it
    /// [written](Self::write_closed), or [abandons](Self::abandon_closed) it.
    pub(crate) fn close_checkpoint(&self, through: u64) -> Option<ClosedCheckpoint> {
        self.switch(through).map(ClosedCheckpoint)
    }

    /// Writes a closed checkpoint. When this returns it is durable, and so are all before it; the caller
    /// [completes](Self::complete) it.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push). The checkpoint's items have been aborted then.
    pub(crate) fn write_closed(&self, closed: ClosedCheckpoint) -> Result<WrittenCheckpoint> {
        let ClosedCheckpoint(mut gathered) = closed;
        gathered.settle();
        match self.write(&gathered) {
            Ok((start, record)) => Ok(WrittenCheckpoint { gathered, start, record }),
            Err(error) => {
                self.abort(gathered);
                Err(error)
            }
        }
    }

    /// Aborts the items of a closed checkpoint that is not going to be written: the log is shut down.
    pub(crate) fn abandon_closed(&self, closed: ClosedCheckpoint) {
        let ClosedCheckpoint(mut gathered) = closed;
        gathered.settle();
        self.abort(gathered);
    }

    /// Closes the current checkpoint and begins the next one. All slots are locked at one moment:
    /// what came before it is in the one, what comes after it in the other.
    fn switch(&self, through: u64) -> Option<Gathered> {
        let _switching = self.switching.lock();
        let sequence = self.current();
        if sequence > through {
            return None;
        }
        let next = Arc::new(Checkpoint::new(sequence + 1));
        let mut gathered = Gathered::new(sequence);
        mutate!(self.parts.mutant, Mutant::SlotsOneByOne, {}, {
            self.switch_one_by_one(&mut gathered, &next);
            return Some(gathered);
        });
        let mut memberships: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let first = memberships.first()?;
        if first.closed || first.checkpoint.empty.load(Ordering::Acquire) {
            return None;
        }
        for membership in &mut memberships {
            gathered.take(membership, &next);
        }
        self.announce(sequence);
        drop(memberships);
        Some(gathered)
    }

    /// Switches the slots one after the other, which is wrong.
    #[cfg(test)]
    fn switch_one_by_one(&self, gathered: &mut Gathered, next: &Arc<Checkpoint>) {
        self.committing.lock().checkpoints.insert(gathered.sequence, Progress::default());
        for slot in self.slots.iter() {
            gathered.take(&mut slot.lock(), next);
        }
        self.announce(gathered.sequence);
    }

    /// Makes the switch known: the checkpoint is in `committing` before anybody can see that it is
    /// not the current one any more.
    fn announce(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        committing.checkpoints.entry(sequence).or_default();
        self.current.store(sequence + 1, Ordering::Release);
        self.waits.switched.notify_all();
    }

    fn write(&self, gathered: &Gathered) -> Result<(Lsn, CommitRecord)> {
        let (writer, sequence) = (&self.parts.writer, gathered.sequence);
        let mut first = Vec::new();
        let (regions, turns) = gathered.turns(self.parts.mutant);
        let vectors = turns.iter().map(|turn| turn.vector);
        let bytes: usize = vectors.clone().map(<[u8]>::len).sum();
        let transaction = self.parts.first_number.wrapping_add(sequence as u32);
        let header = TransactionHeader { kind: CHECKPOINT, transaction, regions };
        RegionWriter::new(&mut first).region(&header.encode(HostOrder::NATIVE));

        let mutant = self.parts.mutant;
        mutate!(mutant, Mutant::StartOutOfOrder, self.await_turn(sequence, Turn::Start)?, {});
        let start = writer.append_start(transaction, sequence)?;
        self.progress(sequence, |progress| progress.start = Some(start));
        writer.append(transaction, std::iter::once(first.as_slice()).chain(vectors))?;
        self.written.add(0, bytes as u64);

        self.await_turn(sequence, Turn::Commit)?;
        let closed = writer.append_commit(transaction)?;
        self.progress(sequence, |progress| progress.committed = true);
        let record = closed.span();
        writer.write(closed)?;
        Ok((start, record))
    }

    /// Waits until all older checkpoints have written their START, or COMMIT.
    fn await_turn(&self, sequence: u64, turn: Turn) -> Result<()> {
        let mut committing = self.committing.lock();
        loop {
            self.parts.health.check()?;
            let mut older = committing.checkpoints.range(..sequence).map(|(_, progress)| progress);
            let ready = match turn {
                Turn::Start => older.all(|progress| progress.start.is_some()),
                Turn::Commit => older.all(|progress| progress.committed),
            };
            if ready {
                return Ok(());
            }
            self.waits.turn.wait(&mut committing);
        }
    }

    fn progress(&self, sequence: u64, change: impl FnOnce(&mut Progress)) {
        let mut committing = self.committing.lock();
        if let Some(progress) = committing.checkpoints.get_mut(&sequence) {
            change(progress);
        }
        self.waits.turn.notify_all();
    }

    /// The checkpoint is durable. Its items go to the AIL before they are unpinned, and all of that
    /// happens before anybody who waits for it goes on. A few items at a time: what the first step
    /// has brought into a processor's cache is there for the last.
    pub(crate) fn complete(&self, written: WrittenCheckpoint) {
        let WrittenCheckpoint { gathered, start, record } = written;
        let Gathered { sequence, granted, memberships } = gathered;
        self.await_oldest(sequence);
        let mut arenas = Vec::with_capacity(memberships.len());
        let mut items = DurableItems::default();
        for Members { list, arena, .. } in memberships {
            arenas.push(arena);
            for piece in list.into_pieces() {
                self.complete_piece(&piece, start, &mut items);
                self.lists.give_back(piece);
            }
        }
        self.parts.ail.complete(&DurableCheckpoint { sequence, record, granted });
        self.pool.recycle(arenas);
        let mut committing = self.committing.lock();
        committing.checkpoints.remove(&sequence);
        self.durable.store(sequence, Ordering::Release);
        self.waits.ended.notify_all();
        if committing.checkpoints.is_empty() {
            self.waits.switched.notify_all();
        }
    }

    /// Waits until all older checkpoints are complete or aborted.
    fn await_oldest(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        while committing.checkpoints.range(..sequence).next().is_some() {
            self.waits.ended.wait(&mut committing);
        }
    }

    /// Hands the members of a piece to the AIL, and then unpins them.
    fn complete_piece(&self, piece: &[Member], start: Lsn, items: &mut DurableItems) {
        for member in piece.iter().filter(|member| member.disposition == Disposition::Written) {
            let item = &member.item;
            match item.committed(start, &mut items.leaving) {
                Some(lsn) => items.placed.push((Arc::clone(item), lsn)),
                None if item.state().lsn().is_some() => items.leaving.push(Arc::clone(item)),
                None => {}
            }
        }
        self.parts.ail.settle(items);
        piece.iter().for_each(|member| member.unpin(CheckpointEnd::Durable));
    }

    /// The log is shut down, and the checkpoint is lost.
    fn abort(&self, gathered: Gathered) {
        self.parts.health.set_down();
        gathered.unpin_all(CheckpointEnd::Aborted);
        self.committing.lock().checkpoints.remove(&gathered.sequence);
        self.wake_all();
    }
}
