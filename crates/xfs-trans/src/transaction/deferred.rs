//! Deferred work: work that a transaction announces and does in later steps of its chain.
//!
//! Owns: the order of the work, its intents and completions. Does **not** own the work
//! ([`Deferred`]).
//!
//! ```text
//!  step 1: changes, defer a, defer b      intents of a, b
//!  step 2: completion of a, work a        (defers c: intent of c)
//!  step 3: completion of c, work c        work deferred by a comes before b
//!  step 4: completion of b, work b, part of it: a new intent for the rest
//!  step 5: completion of the rest, ...
//! ```
//!
//! # Why a crash between two steps does no harm
//!
//! The intent is in the checkpoint of the step that made the work necessary, or in an earlier one.
//! The completion is in the step that does the work. So recovery finds either intent and
//! completion, or the intent alone and none of the work. In the second case recovery does the work.
//!
//! # Why this order
//!
//! Work that is deferred by other work belongs to that work, so it is done before older work. For
//! example, an extent is unmapped, then its reverse mapping is removed, and only then its blocks
//! become free. The chain does no other work between these steps.

use std::collections::VecDeque;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::Geometry;
use xfs_format::reservation::Reservation;
use xfs_log::LogItem;

use super::{CommittedChain, StepEnd, Transaction};
use crate::intent_item::{DoneItem, IntentItem};
use crate::intent_payload::IntentPayload;
use crate::journal::Journal;

/// A unit of deferred work, which is done in a later step of the chain.
#[doc(alias = "xfs_defer_op_type")]
pub trait Deferred: Send {
    /// Returns the payload of the work's intent. Returns `None` for work that needs no intent,
    /// because it does no harm if a crash leaves it undone.
    fn intent_payload(&self) -> Option<IntentPayload>;

    /// Does the work, in a step that holds the joined objects of the chain and nothing else.
    ///
    /// # Errors
    ///
    /// Returns the errors of the layers below. The chain is then cancelled and the volume shut
    /// down. Recovery will do the work that the intents announce.
    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish>;
}

/// The outcome of a step of deferred work: all of it is done, or a part of it is left.
pub enum Finish {
    /// The work is done.
    Done,
    /// A part of the work is left: this new unit of work, which needs a transaction of its own.
    Again(Box<dyn Deferred>),
}

type Work = Box<dyn Deferred>;

/// One or more units of work that one intent announces, or one unit of work without an intent.
struct IntentBatch {
    intent: Option<Arc<IntentItem>>,
    works: VecDeque<Work>,
}

/// The deferred work of a transaction that is not done yet.
#[derive(Default)]
pub(super) struct DeferredWork {
    /// Work that the current transaction of the chain has deferred. Its intents are not logged yet.
    new: Vec<Work>,
    /// Deferred work whose intents are logged, in the order in which the work will be done.
    pending: VecDeque<IntentBatch>,
}

impl DeferredWork {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.pending.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.new.clear();
        self.pending.clear();
    }
}

/// Splits work into batches, each of which gets one intent. A batch consists of consecutive units
/// of work of one kind, up to the limit of that kind. Within a batch, the work is in ascending
/// order of allocation groups, because the headers of the groups are latched one after the other.
fn batches(works: Vec<Work>, geometry: &Geometry) -> Vec<Vec<(Work, Option<IntentPayload>)>> {
    let mut batches: Vec<Vec<(Work, Option<IntentPayload>)>> = Vec::new();
    for work in works {
        let payload = work.intent_payload();
        let batch = batches.last_mut().filter(|batch| match (batch.first(), &payload) {
            (Some((_, Some(first))), Some(payload)) => {
                first.kind() == payload.kind() && batch.len() < payload.max_per_intent()
            }
            _ => false,
        });
        match batch {
            Some(batch) => batch.push((work, payload)),
            None => batches.push(vec![(work, payload)]),
        }
    }
    for batch in &mut batches {
        batch.sort_by_key(|(_, payload)| {
            let start = payload.as_ref().and_then(IntentPayload::start);
            start.and_then(|start| geometry.split_block(start)).map(|(group, _)| group)
        });
    }
    batches
}

/// Work that the first step of an intent has deferred during recovery. The intents of this work are
/// in the log. The work waits until the first step of every open intent has been done.
#[doc(alias = "xfs_defer_capture")]
#[must_use = "the work that the intents announce has to be done"]
pub struct Captured {
    pending: VecDeque<IntentBatch>,
    reservation: Reservation,
    /// Number of blocks that the intent's first step reserved but did not use. They stay reserved
    /// for the captured work.
    blocks: u64,
}

impl Captured {
    /// Does the captured work in a chain of its own.
    ///
    /// # Errors
    ///
    /// Returns the error of the work, or the error that stopped the log.
    pub fn finish(self, journal: &Arc<Journal>) -> Result<CommittedChain> {
        let mut tx = Transaction::begin_for_recovery(journal, self.reservation, 0)?;
        tx.space.add_reserved(self.blocks);
        tx.deferred.pending = self.pending;
        tx.commit()
    }
}

impl Transaction<'_> {
    /// Does `works`, the work of an intent that a crash has left open, as one step. Returns the
    /// work that this step defers.
    pub(crate) fn resume(
        mut self,
        intent: Arc<IntentItem>,
        works: Vec<Work>,
        reservation: Reservation,
    ) -> Result<Captured> {
        let batch = IntentBatch { intent: Some(intent), works: works.into() };
        let begun = self.finish_batch(batch).and_then(|()| {
            self.log_intents();
            self.commit_step(StepEnd::Last)
        });
        if let Err(error) = begun {
            self.cancel();
            return Err(error);
        }
        let pending = std::mem::take(&mut self.deferred.pending);
        let blocks = self.space.take_reserved();
        self.end();
        Ok(Captured { pending, reservation, blocks })
    }

    /// Defers work to a later step of this chain. The work is done at the latest when the chain is
    /// committed.
    pub fn defer(&mut self, work: Box<dyn Deferred>) {
        self.deferred.new.push(work);
    }

    /// Does all deferred work step by step, including work that is deferred by such work. If there
    /// is any deferred work, the transaction is in a new step when this function returns. The new
    /// step has the changes of the last unit of work.
    ///
    /// # Errors
    ///
    /// Returns the error of the work, or the error that stopped the log. The transaction can then
    /// only be cancelled.
    pub fn finish_deferred(&mut self) -> Result<()> {
        loop {
            self.log_intents();
            if self.deferred.pending.is_empty() {
                return Ok(());
            }
            self.relog_intents();
            self.roll_step()?;
            let next = self.deferred.pending.pop_front();
            let batch = next.expect("a roll keeps the deferred work that was pending");
            self.finish_batch(batch)?;
        }
    }

    /// Logs the intents of the work that the current transaction of the chain has deferred. Queues
    /// that work before the older deferred work.
    pub(super) fn log_intents(&mut self) {
        let works = std::mem::take(&mut self.deferred.new);
        if works.is_empty() {
            return;
        }
        let mut made = Vec::new();
        for batch in batches(works, self.geometry()) {
            let (works, payloads): (VecDeque<_>, Vec<_>) = batch.into_iter().unzip();
            made.push(self.log_batch(works, payloads.into_iter().flatten().collect()));
        }
        for batch in made.into_iter().rev() {
            self.deferred.pending.push_front(batch);
        }
    }

    /// Logs an intent with these payloads, which announces `works`. If there are no payloads, the
    /// work gets no intent.
    fn log_batch(&mut self, works: VecDeque<Work>, payloads: Vec<IntentPayload>) -> IntentBatch {
        let intent = (!payloads.is_empty()).then(|| self.log_intent(payloads));
        IntentBatch { intent, works }
    }

    fn log_intent(&mut self, payloads: Vec<IntentPayload>) -> Arc<IntentItem> {
        let intent = Arc::new(IntentItem::new(self.journal.next_intent_id(), payloads));
        self.items.push(Arc::clone(&intent) as Arc<dyn LogItem>);
        intent
    }

    fn log_done(&mut self, intent: Arc<IntentItem>) {
        self.items.push(Arc::new(DoneItem::new(intent)));
    }

    /// Before a roll, logs those intents again that are so old that they may prevent the tail from
    /// moving. Without this, the chain might wait for log space that only its own intents occupy.
    pub(super) fn relog_intents(&mut self) {
        let has_intents = self.deferred.pending.iter().any(|batch| batch.intent.is_some());
        let Some(ticket) = self.ticket.as_mut().filter(|_| has_intents) else { return };
        let Some(before) = self.journal.log.relog_before(ticket) else { return };
        let mut pending = std::mem::take(&mut self.deferred.pending);
        for batch in &mut pending {
            let is_old =
                |intent: &Arc<IntentItem>| intent.state().lsn().is_some_and(|lsn| lsn <= before);
            if let Some(intent) = batch.intent.take_if(|intent| is_old(intent)) {
                batch.intent = Some(self.log_intent(intent.payloads().to_vec()));
                self.log_done(intent);
            }
        }
        self.deferred.pending = pending;
    }

    /// Does the work of one intent and logs its completion. If a unit of work needs a further
    /// transaction, that unit and all units after it get a new intent in the current transaction.
    fn finish_batch(&mut self, batch: IntentBatch) -> Result<()> {
        let IntentBatch { intent, mut works } = batch;
        if let Some(intent) = intent {
            self.log_done(intent);
        }
        while let Some(work) = works.pop_front() {
            if let Finish::Again(rest) = work.finish(self)? {
                works.push_front(rest);
                let payloads = works.iter().filter_map(|work| work.intent_payload()).collect();
                let rest = self.log_batch(works, payloads);
                self.deferred.pending.push_front(rest);
                return Ok(());
            }
        }
        Ok(())
    }
}
