//! Intents, and the completions that end them.
//!
//! Owns: intents and completions as items of the log. Does **not** own when they are logged
//! ([`deferred`](crate::transaction)) or the work that they announce
//! ([`intent_payload`](crate::intent_payload)).
//!
//! ```text
//!  logged ─→ CIL ─→ AIL: holds the tail ─→ removed when the completion is durable
//!             └─→ cancelled: the completion came into the same checkpoint, neither is written
//! ```
//!
//! An intent is never written in place. While it is open it holds the tail, because recovery has to
//! find it and everything after it in the log. A long chain of transactions logs its open intents
//! again when the tail has to move past them.

use std::sync::Arc;

use xfs_format::Lsn;
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionWriter};

use crate::intent_payload::{IntentPayload, encode_done, encode_intent};

/// The log item of an intent: an announcement of work that later transactions do.
pub(crate) struct IntentItem {
    state: ItemState,
    id: u64,
    payloads: Vec<IntentPayload>,
    regions: Vec<Vec<u8>>,
}

impl IntentItem {
    pub(crate) fn new(id: u64, payloads: Vec<IntentPayload>) -> Self {
        let regions = encode_intent(id, &payloads);
        Self { state: ItemState::new(), id, payloads, regions }
    }

    /// Returns the ID with which the completion refers to this intent.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn payloads(&self) -> &[IntentPayload] {
        &self.payloads
    }
}

impl LogItem for IntentItem {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        for region in &self.regions {
            regions.region(region);
        }
    }

    fn pin(&self) {}

    fn unpin(&self, _end: CheckpointEnd) {}

    /// Returns `Pinned`: only a durable completion removes an intent from the AIL.
    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        Pushed::Pinned
    }
}

/// The log item of the completion of an intent.
pub(crate) struct DoneItem {
    state: ItemState,
    intent: Arc<IntentItem>,
    regions: Vec<Vec<u8>>,
}

impl DoneItem {
    pub(crate) fn new(intent: Arc<IntentItem>) -> Self {
        let regions = encode_done(intent.id, &intent.payloads);
        Self { state: ItemState::new(), intent, regions }
    }
}

impl LogItem for DoneItem {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        for region in &self.regions {
            regions.region(region);
        }
    }

    fn finishes(&self) -> Option<&dyn LogItem> {
        Some(&*self.intent)
    }

    fn pin(&self) {}

    fn unpin(&self, _end: CheckpointEnd) {}

    fn committed(&self, _start: Lsn, leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        leaving.push(Arc::clone(&self.intent) as Arc<dyn LogItem>);
        None
    }

    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        Pushed::Done
    }
}
