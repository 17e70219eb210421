//! Intents that were logged and not completed, and who finishes them.

use std::collections::BTreeMap;

use xfs_buffer::Result;
use xfs_format::log_item::{HostOrder, ItemKind, LogItem};
use xfs_format::log_record::LogRecordCheck::Misplaced;
use xfs_format::{Corruption, Lsn, StructureAddress};

use super::{Replayed, Summary};
use crate::head::corrupt;
use crate::reader::Transaction;
use crate::state::LogState;

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
        LogItem::decode(&regions, self.order, StructureAddress::Log(self.lsn.block()))
    }
}

/// Finishes what a crash has left open, by transactions. Owned by this layer and implemented by one
/// that has them; called by [`finish_intents`].
pub trait IntentRecovery {
    /// Does the first step of an intent, and captures what that defers: until all intents have been
    /// taken up, what one of them frees could be what another still needs.
    ///
    /// # Errors
    ///
    /// The recovery ends here. What was done is logged, and the recovery can be repeated.
    fn recover(&mut self, intent: &Intent) -> Result<()>;

    /// Does what was captured, in the order in which it was.
    ///
    /// # Errors
    ///
    /// As above.
    fn finish(&mut self) -> Result<()>;

    /// Frees the inodes without a name that nobody has open any more. One that is damaged hinders no
    /// other.
    ///
    /// # Errors
    ///
    /// As above.
    fn free_unlinked(&mut self) -> Result<FreedInodes>;

    /// Frees the blocks that were set aside for copies which were never made.
    ///
    /// # Errors
    ///
    /// As above.
    fn free_copies(&mut self) -> Result<()>;
}

/// What became of the inodes without a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreedInodes {
    /// How many were freed.
    pub freed: u64,
    /// How many could not be, and stay until the volume is repaired.
    pub damaged: u64,
}

/// Has everything finished that a crash has left open: every intent in the order of the log, then
/// what they have deferred, then unlinked inodes, whose extents an intent may still have been about,
/// and last the blocks set aside for copies, which an inode may still have had. The log is open for
/// writing, and has adopted the intents.
///
/// # Errors
///
/// The first that `recovery` meets.
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

/// Intents that have not met their completions.
#[derive(Debug, Default)]
pub(super) struct OpenIntents {
    /// By what completes them: a log can hold as many completions that meet nothing as intents, so one must
    /// not cost a look at all of these. With each its place in the order of the log.
    open: BTreeMap<(ItemKind, u64), (u64, Intent)>,
    count: u64,
}

impl OpenIntents {
    /// Notes an intent, or the completion of one. A completion whose intent lies before the tail
    /// says nothing new.
    pub(super) fn note(&mut self, item: &LogItem<'_>, transaction: &Transaction) {
        let (kind, Some(id)) = (item.kind(), item.intent_id()) else { return };
        if let Some(completion) = kind.completion() {
            let (lsn, order) = (transaction.lsn(), transaction.order());
            let intent = Intent { kind, id, lsn, order, regions: item.encode(order) };
            self.open.insert((completion, id), (self.count, intent));
            self.count += 1;
        } else {
            self.open.remove(&(kind, id));
        }
    }

    /// What is left, in the order in which it was logged: all of it between tail and head.
    pub(super) fn into_intents(self, state: &LogState) -> Result<Vec<Intent>> {
        let mut intents: Vec<_> = self.open.into_values().collect();
        intents.sort_by_key(|(number, _)| *number);
        let intents: Vec<_> = intents.into_iter().map(|(_, intent)| intent).collect();
        let outside = |intent: &&Intent| !(state.tail..state.head).contains(&intent.lsn);
        match intents.iter().find(outside) {
            Some(Intent { lsn, .. }) => Err(corrupt(lsn.block(), Misplaced { lsn: *lsn })),
            None => Ok(intents),
        }
    }
}
