//! Commits.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_sync::{MutexGuard, Ordering};

use super::{Cil, Member, Share};
use crate::item::{Entry, LogItem};
use crate::ticket::Ticket;
use crate::vector::{RegionWriter, VectorSize};

/// What has to happen after a commit, once its items are unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nothing.
    None,
    /// The checkpoint is large enough to be written.
    Push,
    /// It is so large that nobody may add to it.
    Throttle,
    /// The transaction logged more than it had reserved.
    Overrun,
}

/// A commit that is part of the current checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The checkpoint. Forcing the log up to it makes the commit durable.
    pub sequence: u64,
    pub(crate) pressure: Pressure,
}

impl Cil {
    /// Adds a transaction's changes to the current checkpoint. The caller has locked `items`, and
    /// unlocks them afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown): nothing was added.
    pub(crate) fn commit(
        &self,
        ticket: &mut Ticket,
        items: &[Arc<dyn LogItem>],
    ) -> Result<Committed> {
        self.parts.health.check()?;
        let mut order = ticket.floor();
        for item in items {
            order = order.max(self.prepare(item.as_ref()));
        }
        let mut share = self.slots.mine().lock();
        if share.closed {
            drop(share);
            return Err(xfs_buffer::Error::Shutdown);
        }
        order = order.max(share.clock) + 1;
        share.clock = order;
        let mut growth = 0;
        for item in items {
            growth += insert(&mut share, item, order);
        }
        let given = self.give(&mut share, growth);
        let pressure = self.fold(&mut share, growth);
        let sequence = share.checkpoint.sequence;
        drop(share);
        let pressure = if ticket.spend(order, given) { pressure } else { Pressure::Overrun };
        Ok(Committed { sequence, pressure })
    }

    /// Formats an item, before any slot is locked: its own lock keeps it as it is. Returns the order
    /// number of the last commit that held it.
    fn prepare(&self, item: &dyn LogItem) -> u64 {
        let size = item.size();
        let mut journal = item.state().journal();
        journal.spare.prepare(size);
        item.format(&mut RegionWriter::new(&mut journal.spare));
        if journal.sequence != self.current() && journal.fresh.is_none() {
            journal.fresh = Some(Arc::default());
        }
        journal.order
    }

    /// What a commit that adds `growth` bytes gives to its checkpoint, so that it can be written:
    /// the bytes, the overhead of the records that this slot's share of it begins with them, and, by
    /// the first commit, what every checkpoint takes.
    ///
    /// Each slot counts its own share. Shares that are rounded up one by one make up at least as
    /// many records as the whole. A commit begins no more records than its own bytes fill, and for
    /// these it has reserved.
    fn give(&self, share: &mut Share, growth: i64) -> u64 {
        let layout = self.parts.writer.layout();
        let growth = growth.max(0) as u64;
        share.grown += growth;
        let records = layout.records(share.grown);
        let begun = records - share.records;
        share.records = records;
        let mut given = growth + begun * u64::from(layout.overhead_bytes());
        // Looking first keeps the word shared by all until the next switch.
        let empty = &share.checkpoint.empty;
        if empty.load(Ordering::Acquire) && empty.swap(false, Ordering::AcqRel) {
            given += layout.checkpoint_bytes();
        }
        share.granted += given;
        given
    }

    /// Counts the bytes, in the slot until they are worth a write that all slots share.
    fn fold(&self, share: &mut Share, growth: i64) -> Pressure {
        share.unfolded += growth;
        let batch = (self.soft_bytes / self.slots.iter().len() as u64).cast_signed();
        if share.unfolded.abs() > batch {
            let folded = &share.checkpoint.folded;
            folded.fetch_add(share.unfolded.cast_unsigned(), Ordering::Relaxed);
            share.unfolded = 0;
        }
        match share.checkpoint.folded_bytes() {
            bytes if bytes >= self.hard_bytes() => Pressure::Throttle,
            bytes if bytes >= self.soft_bytes => Pressure::Push,
            _ => Pressure::None,
        }
    }
}

/// Puts a formatted item into the checkpoint, or its new vector where it is in it already. Returns
/// by how many bytes the checkpoint has grown.
fn insert(share: &mut MutexGuard<'_, Share>, item: &Arc<dyn LogItem>, order: u64) -> i64 {
    let sequence = share.checkpoint.sequence;
    if let Some(credit) = item.finishes().and_then(|intent| cancel(intent, sequence)) {
        return -credit;
    }
    let state = item.state();
    let mut journal = state.journal();
    let journal = &mut *journal;
    journal.order = order;
    if journal.sequence != sequence {
        let entry: Arc<Entry> = journal.fresh.take().unwrap_or_default();
        journal.sequence = sequence;
        journal.entry = Some(Arc::clone(&entry));
        state.set_sequence(sequence);
        item.pin();
        share.members.push(Member { item: Arc::clone(item), entry });
    }
    let Some(entry) = &journal.entry else { return 0 };
    let mut body = entry.body.lock();
    body.order = order;
    std::mem::swap(&mut body.vector, &mut journal.spare);
    body.vector.log_bytes().cast_signed() - journal.spare_bytes()
}

/// Cancels an intent that is in this checkpoint, so that neither it nor its completion is written.
/// Returns the bytes that it would have taken.
fn cancel(intent: &dyn LogItem, sequence: u64) -> Option<i64> {
    let mut journal = intent.state().journal();
    let journal = &mut *journal;
    let entry = journal.entry.as_ref().filter(|_| journal.sequence == sequence)?;
    let mut body = entry.body.lock();
    body.cancelled = true;
    std::mem::swap(&mut body.vector, &mut journal.spare);
    body.vector.prepare(VectorSize::default());
    Some(journal.spare_bytes())
}
