//! Recovery of intents: finishing the work that a crash has interrupted.
//!
//! Owns: open intents, from the log until their completion. Does **not** own replaying
//! (`xfs_log::replay_all`), or the work that the intents announce: the layers above create it from
//! the [`IntentPayload`]s.
//!
//! ```text
//!  replay_all ─→ write_in_place ─→ Log::open ─→ Journal::open ─→ adopt: open intents hold the tail
//!  then, by finish_intents:  resume each: completion, first step, intents of the work it defers
//!                            Captured::finish each: the deferred work
//! ```
//!
//! Each of these steps is an ordinary transaction on the same log, whose head continues where it
//! was. After another crash, recovery starts again. Every intent whose completion is not durable is
//! then open again, including the intents of captured work.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::log_item::LogItemCheck;
use xfs_format::reservation::TransactionKind;
use xfs_format::{Corruption, Structure, StructureAddress};
use xfs_log::{LogItem, Replayed};

use super::Journal;
use crate::intent_item::IntentItem;
use crate::intent_payload::{IntentPayload, decode_intent};
use crate::transaction::{Captured, Deferred, Transaction};

/// An intent that a crash has left open.
pub struct OpenIntent(Arc<IntentItem>);

impl OpenIntent {
    /// Returns the ID with which the completion refers to the intent.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Returns the payloads of the intent, which describe its work.
    #[must_use]
    pub fn payloads(&self) -> &[IntentPayload] {
        self.0.payloads()
    }
}

impl Journal {
    /// Adds the intents that a crash has left open to the journal, in the order of the log. The
    /// caller must call this function once, before the first transaction. Each returned intent has
    /// to be [resumed](Self::resume).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`](xfs_buffer::Error::Corrupt) for an intent without payloads.
    pub fn adopt(&self, replayed: &Replayed) -> Result<Vec<OpenIntent>> {
        let mut open = Vec::with_capacity(replayed.intents().len());
        for intent in replayed.intents() {
            let payloads = decode_intent(intent.item()?).filter(|payloads| !payloads.is_empty());
            let Some(payloads) = payloads else {
                let check = LogItemCheck::OutOfRange { field: "payloads", value: intent.id() };
                let place = StructureAddress::Log(intent.lsn().block());
                return Err(Corruption::new(Structure::LogItem, place, check).into());
            };
            open.push(OpenIntent(Arc::new(IntentItem::new(intent.id(), payloads))));
        }
        let items = open.iter().map(|open| Arc::clone(&open.0) as Arc<dyn LogItem>);
        self.log.adopt(items.zip(replayed.intents().iter().map(xfs_log::Intent::lsn)));
        *self.next_intent_id.lock() = replayed.first_intent_id();
        Ok(open)
    }

    /// Does the first step of an open intent, in a transaction of the kind `kind` that may use
    /// `blocks` blocks. If too few blocks are free, they come from the pool for operations that
    /// must not fail, since a full volume must be recoverable too. `works` is the work that the
    /// intent announces. Returns the work that the first step has deferred, for `Captured::finish`.
    ///
    /// # Errors
    ///
    /// Returns the error of the work. The volume is then shut down, and can be recovered again.
    pub fn resume(
        self: &Arc<Self>,
        intent: &OpenIntent,
        works: Vec<Box<dyn Deferred>>,
        kind: TransactionKind,
        blocks: u64,
    ) -> Result<Captured> {
        let reservation = self.reservation(kind);
        let tx = Transaction::begin_for_recovery(self, reservation, blocks)?;
        tx.resume(Arc::clone(&intent.0), works, reservation)
    }
}
