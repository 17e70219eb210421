//! Intents that were logged and not completed, and who finishes them.

use std::collections::BTreeMap;

use xfs_buffer::Result;
use xfs_format::log_item::{HostOrder, ItemKind, LogItem};
use xfs_format::{Corruption, InodeNumber, Lsn, Place};

use super::Replayed;
use crate::reader::Transaction;

/// What the log says of work that was not done.
#[derive(Clone, Debug)]
pub struct Intent {
    kind: ItemKind,
    id: u64,
    lsn: Lsn,
    order: HostOrder,
    regions: Vec<Vec<u8>>,
}

impl Intent {
    /// What is to be done.
    #[must_use]
    pub const fn kind(&self) -> ItemKind {
        self.kind
    }

    /// The number that its completion must name.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Where its transaction starts.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The item itself.
    ///
    /// # Errors
    ///
    /// Never: it was decoded before.
    pub fn item(&self) -> Result<LogItem<'_>, Corruption> {
        let regions: Vec<&[u8]> = self.regions.iter().map(Vec::as_slice).collect();
        LogItem::decode(&regions, self.order, Place::Log(self.lsn.block()))
    }
}

/// Finishes what a crash has left open. Owned by this layer and implemented by one that has
/// transactions.
///
/// The calls come in this order: [`recover`](Self::recover) for every intent, in the order of the
/// log; [`finish`](Self::finish) once; [`free_unlinked`](Self::free_unlinked) for every inode on an
/// unlinked list. Work that an intent defers is to be captured and done in `finish`: until all
/// intents have been taken up, what one of them frees could be what another still needs.
pub trait IntentRecovery {
    /// Does the first step of an intent, and captures what that defers.
    ///
    /// # Errors
    ///
    /// The recovery ends, and nothing is written back.
    fn recover(&mut self, volume: &Replayed, intent: &Intent) -> Result<()>;

    /// Does what was captured, in the order in which it was.
    ///
    /// # Errors
    ///
    /// As above.
    fn finish(&mut self, volume: &Replayed) -> Result<()>;

    /// Frees an inode that has no name, and takes it off its unlinked list.
    ///
    /// # Errors
    ///
    /// As above.
    fn free_unlinked(&mut self, volume: &Replayed, inode: InodeNumber) -> Result<()>;
}

/// Intents that have not met their completions.
#[derive(Debug, Default)]
pub(super) struct OpenIntents {
    open: BTreeMap<(ItemKind, u64), (u64, Intent)>,
    count: u64,
}

impl OpenIntents {
    /// Notes an intent, or the completion of one. A completion whose intent lies before the tail
    /// says nothing new.
    pub(super) fn note(&mut self, item: &LogItem<'_>, transaction: &Transaction) {
        let (kind, Some(id)) = (item.kind(), item.intent_id()) else { return };
        if kind.is_intent() {
            let (lsn, order) = (transaction.lsn(), transaction.order());
            let intent = Intent { kind, id, lsn, order, regions: item.encode(order) };
            self.open.insert((kind, id), (self.count, intent));
            self.count += 1;
        } else {
            self.open
                .retain(|(open, open_id), _| *open_id != id || open.completion() != Some(kind));
        }
    }

    /// What is left, in the order in which it was logged.
    pub(super) fn into_intents(self) -> Vec<Intent> {
        let mut intents: Vec<_> = self.open.into_values().collect();
        intents.sort_by_key(|(number, _)| *number);
        intents.into_iter().map(|(_, intent)| intent).collect()
    }
}
