//! Going on where a crash has stopped.
//!
//! Owns: intents that were left open, from the log until their completion. Does **not** own replaying
//! (`xfs_log::replay_all`), or the work that they payload: the layers above make it from the
//! [`IntentPayload`]s.
//!
//! ```text
//!  replay_all ─→ write_in_place ─→ Log::open ─→ Journal::open ─→ adopt: open intents hold the tail
//!  then, by finish_intents:  resume each: completion, first step, intents of what that defers
//!                            Captured::finish each: the deferred work
//! ```
//!
//! Each of these is an ordinary transaction on the same log, whose head goes on where it was. A crash
//! finds an intent open whose completion is not durable, and those of captured work, and begins
//! again.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::log_item::LogItemCheck;
use xfs_format::reservation::TransactionKind;
use xfs_format::{Corruption, Place, Structure};
use xfs_log::{LogItem, Replayed};

use super::Journal;
use crate::intent_item::IntentItem;
use crate::intent_payload::{IntentPayload, decode_intent};
use crate::transaction::{Captured, Deferred, Transaction};

/// An intent that a crash has left open.
pub struct OpenIntent(Arc<IntentItem>);

impl OpenIntent {
    /// The number that its completion names.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// What was promised.
    #[must_use]
    pub fn payloads(&self) -> &[IntentPayload] {
        self.0.payloads()
    }
}

impl Journal {
    /// Takes over what a crash has left open, in the order of the log. To be called once, before the
    /// first transaction; what is returned has to be [resumed](Self::resume).
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](xfs_buffer::Error::Corrupt) for an intent that payloads nothing.
    pub fn adopt(&self, replayed: &Replayed) -> Result<Vec<OpenIntent>> {
        let mut open = Vec::with_capacity(replayed.intents().len());
        for intent in replayed.intents() {
            let payloads = decode_intent(intent.item()?).filter(|payloads| !payloads.is_empty());
            let Some(payloads) = payloads else {
                let check = LogItemCheck::OutOfRange { field: "payloads", value: intent.id() };
                let place = Place::Log(intent.lsn().block());
                return Err(Corruption::new(Structure::LogItem, place, check).into());
            };
            open.push(OpenIntent(Arc::new(IntentItem::new(intent.id(), payloads))));
        }
        let items = open.iter().map(|open| Arc::clone(&open.0) as Arc<dyn LogItem>);
        self.log.adopt(items.zip(replayed.intents().iter().map(xfs_log::Intent::lsn)));
        *self.next_intent_id.lock() = replayed.first_intent_id();
        Ok(open)
    }

    /// Does the first step of an intent that was left open, by a transaction of this kind that may
    /// use so many blocks: from the pool if there are no others, since a full volume has to be
    /// recovered too. `works` keep its payloads.
    ///
    /// # Errors
    ///
    /// What the work meets. The volume has been shut down then, and can be recovered again.
    pub fn resume(
        self: &Arc<Self>,
        intent: &OpenIntent,
        works: Vec<Box<dyn Deferred>>,
        (kind, blocks): (TransactionKind, u64),
    ) -> Result<Captured> {
        let reservation = self.reservation(kind);
        let tx = Transaction::begin_for_recovery(self, reservation, blocks)?;
        tx.resume(Arc::clone(&intent.0), works, reservation)
    }
}
