//! Intents that were logged but not completed, and finishing their work.

use std::collections::BTreeMap;

use xfs_buffer::Result;
use xfs_format::log_item::{HostOrder, ItemKind, LoggedItem};
use xfs_format::log_record::LogRecordCheck::Misplaced;
use xfs_format::{Corruption, Lsn, StructureAddress};

use super::{Replayed, Summary};
use crate::head::corrupt;
use crate::reader::LoggedTransaction;
use crate::state::LogState;

/// An intent whose completion is not in the log. Perhaps the work that the intent announces was not
/// done before the crash.
#[derive(Clone, Debug)]
pub struct Intent {
    kind: ItemKind,
    id: u64,
    lsn: Lsn,
    order: HostOrder,
    regions: Vec<Vec<u8>>,
}

impl Intent {
    /// Returns the kind of log item that the intent is. The kind determines the work to be done.
    #[must_use]
    pub const fn kind(&self) -> ItemKind {
        self.kind
    }

    /// Returns the ID that the intent's completion must name.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the LSN of the record in which the intent's transaction starts.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Decodes the intent as a log item.
    ///
    /// # Errors
    ///
    /// Returns no error in practice: the intent was decoded before.
    pub fn item(&self) -> Result<LoggedItem<'_>, Corruption> {
        let regions: Vec<&[u8]> = self.regions.iter().map(Vec::as_slice).collect();
        LoggedItem::decode(&regions, self.order, StructureAddress::Log(self.lsn.block()))
    }
}

/// The interface to the layer that finishes, by transactions, the work that a crash has left open.
/// A layer with transactions implements this trait, and [`finish_intents`] calls the methods.
pub trait IntentRecovery {
    /// Does the first step of an intent, and captures the work that this step defers. The captured
    /// work waits until all intents have begun: the work of one intent might free blocks that
    /// another intent still needs.
    ///
    /// # Errors
    ///
    /// Returns an error if the step fails, which ends the recovery. The steps done before it are
    /// logged, and the recovery can be repeated.
    fn recover(&mut self, intent: &Intent) -> Result<()>;

    /// Does the work that calls of `recover` have deferred and captured, in the order in which they
    /// captured it.
    ///
    /// # Errors
    ///
    /// Returns an error that ends the recovery, as `recover` does.
    fn finish(&mut self) -> Result<()>;

    /// Frees the inodes in unlinked lists. After a crash, no process has these inodes open any
    /// more. A damaged inode does not prevent the others from being freed.
    ///
    /// # Errors
    ///
    /// Returns an error that ends the recovery, as `recover` does.
    fn free_unlinked(&mut self) -> Result<FreedInodes>;

    /// Frees the blocks that were reserved for copy-on-write but never used.
    ///
    /// # Errors
    ///
    /// Returns an error that ends the recovery, as `recover` does.
    fn free_copies(&mut self) -> Result<()>;
}

/// Numbers of unlinked inodes that recovery handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreedInodes {
    /// Number of inodes that were freed.
    pub freed: u64,
    /// Number of inodes that could not be freed. They stay in their unlinked lists until the volume
    /// is repaired.
    pub damaged: u64,
}

/// Finishes all work that a crash has left open. The function begins every intent in the order of
/// the log, and then finishes the work that these intents have deferred. Unlinked inodes follow,
/// because an intent may concern their extents. Blocks reserved for copy-on-write come last,
/// because one of these inodes may still have had such blocks. The log is open for writing, and has
/// adopted the intents. Returns the counts of the replay, with those of the finished work.
///
/// # Errors
///
/// Returns the first error that `recovery` returns.
#[doc(alias = "xlog_recover_finish")]
pub fn finish_intents(replayed: &Replayed, recovery: &mut dyn IntentRecovery) -> Result<Summary> {
    for intent in &replayed.intents {
        recovery.recover(intent)?;
    }
    recovery.finish()?;
    let FreedInodes { freed, damaged } = recovery.free_unlinked()?;
    recovery.free_copies()?;
    let intents = replayed.intents.len() as u64;
    Ok(Summary { intents, unlinked: freed, unlinked_damaged: damaged, ..replayed.summary })
}

/// Intents whose completion has not been read yet.
#[derive(Debug, Default)]
pub(super) struct OpenIntents {
    /// The intents, by the kind and ID that their completion must have, and by their index in the
    /// order of the log. A log can hold as many completions without an intent as it holds intents.
    /// So such a completion must not cost a search through all intents.
    open: BTreeMap<(ItemKind, u64, u64), Intent>,
    count: u64,
}

impl OpenIntents {
    /// Adds an intent, or removes the oldest open intent that a completion names. A completion
    /// whose intent lies before the tail changes nothing.
    ///
    /// Two open intents can have the same ID. The kernel takes IDs from addresses in memory. So a
    /// recovery that logs a new intent can give it the ID of an older intent that is still open,
    /// and then crash. Both intents are kept, and a completion ends only the older one: recovery
    /// finishes the intents that it found in the log before those that it has logged itself.
    pub(super) fn note(&mut self, item: &LoggedItem<'_>, transaction: &LoggedTransaction) {
        let (kind, Some(id)) = (item.kind(), item.intent_id()) else { return };
        if let Some(completion) = kind.completion() {
            let (lsn, order) = (transaction.lsn(), transaction.order());
            let intent = Intent { kind, id, lsn, order, regions: item.encode(order) };
            self.open.insert((completion, id, self.count), intent);
            self.count += 1;
        } else {
            let named = (kind, id, 0)..=(kind, id, u64::MAX);
            if let Some(oldest) = self.open.range(named).next().map(|(key, _)| *key) {
                self.open.remove(&oldest);
            }
        }
    }

    /// Returns the intents without a completion, in the order in which they were logged. Returns an
    /// error if one of them does not lie between tail and head.
    pub(super) fn into_intents(self, state: &LogState) -> Result<Vec<Intent>> {
        let mut intents: Vec<_> = self.open.into_iter().collect();
        intents.sort_by_key(|((_, _, index), _)| *index);
        let intents: Vec<_> = intents.into_iter().map(|(_, intent)| intent).collect();
        let outside = |intent: &&Intent| !(state.tail..state.head).contains(&intent.lsn);
        match intents.iter().find(outside) {
            Some(Intent { lsn, .. }) => Err(corrupt(lsn.block(), Misplaced { lsn: *lsn })),
            None => Ok(intents),
        }
    }
}
