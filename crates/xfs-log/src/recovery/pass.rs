//! The second pass of a replay: the items of one transaction after the other.
//!
//! Owns: the order of the items of a transaction, and which items are skipped because their buffer
//! is cancelled later. Does **not** own how an item of a kind is replayed, or reading the log.

use xfs_buffer::Result;
use xfs_format::BASIC_BLOCK_BYTES;
use xfs_format::log_item::{BufferFlags, LoggedItem};

use super::cancel::CancelTable;
use super::dquot::DquotReplay;
use super::intent::OpenIntents;
use super::refusal::RecoveryError;
use super::store::RecoveryStore;
use super::{Summary, buffer, create, inode};
use crate::reader::LoggedTransaction;

/// The phases in which the items of one transaction are replayed, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReplayPhase {
    /// Buffers and inode creations. A new inode cluster must exist before an inode in it is
    /// replayed.
    Buffers,
    /// All items that belong to no other phase.
    Items,
    /// Buffers that hold links of unlinked lists. These links lie in inodes, whose cores an inode
    /// item may have rewritten in the phase before.
    InodeBuffers,
    /// Cancellations of buffers. Cancellations come last: until a cancellation is replayed, its
    /// buffer counts as cancelled, also for the other items of the same transaction.
    Cancellations,
}

impl ReplayPhase {
    #[doc(alias = "xlog_recover_reorder_trans")]
    fn of(item: &LoggedItem<'_>) -> Self {
        match item {
            LoggedItem::Buffer(item) if item.is_cancel() => Self::Cancellations,
            LoggedItem::Buffer(item) if item.format.flags.contains(BufferFlags::INODES) => {
                Self::InodeBuffers
            }
            LoggedItem::Buffer(_) | LoggedItem::InodeCreate(_) => Self::Buffers,
            _ => Self::Items,
        }
    }
}

/// The second pass over the log, which replays the items.
pub(super) struct SecondPass {
    pub(super) store: RecoveryStore,
    cancelled: CancelTable,
    pub(super) dquots: DquotReplay,
    pub(super) intents: OpenIntents,
    pub(super) summary: Summary,
}

impl SecondPass {
    /// Creates a pass that replays onto `store`. The first pass over the log has filled `cancelled`
    /// and `dquots`.
    pub(super) fn new(store: RecoveryStore, cancelled: CancelTable, dquots: DquotReplay) -> Self {
        let (intents, summary) = (OpenIntents::default(), Summary::default());
        Self { store, cancelled, dquots, intents, summary }
    }

    /// Replays the items of a transaction.
    ///
    /// # Errors
    ///
    /// Returns a [`RecoveryError`] if the transaction is damaged, or has an item that is refused or
    /// does not fit the volume.
    pub(super) fn replay(&mut self, transaction: &LoggedTransaction) -> Result<(), RecoveryError> {
        self.store.begin(transaction)?;
        self.summary.transactions += 1;
        let mut items = transaction.items()?.collect::<Result<Vec<_>, _>>()?;
        // A stable sort: within a phase the order of the log stays.
        items.sort_by_key(ReplayPhase::of);
        for item in &items {
            self.summary.items += 1;
            if !self.replay_item(item, transaction)? {
                self.summary.skipped += 1;
            }
        }
        self.store.pieces.end();
        Ok(())
    }

    /// Replays one item. Returns whether anything was replayed; `false` means that the item was
    /// skipped.
    fn replay_item(
        &mut self,
        item: &LoggedItem<'_>,
        transaction: &LoggedTransaction,
    ) -> Result<bool, RecoveryError> {
        match item {
            LoggedItem::Buffer(item) if item.is_cancel() => {
                self.cancelled.end(item).map_err(|check| self.store.corrupt(check))?;
                Ok(true)
            }
            LoggedItem::Buffer(item) => {
                if self.cancelled.contains(item.format.at, item.format.blocks.into()) {
                    return Ok(false);
                }
                buffer::replay(&mut self.store, &mut self.dquots, item)
            }
            LoggedItem::InodeCreate(create) => {
                create::replay(&mut self.store, create, &self.cancelled)
            }
            LoggedItem::Inode(item) => {
                let (cluster, blocks) = (item.format.cluster, item.format.cluster_blocks);
                if self.cancelled.contains(cluster, blocks) {
                    return Ok(false);
                }
                self.store.pieces.note_inode(item.format.inode);
                inode::replay(&mut self.store, item, transaction.order())
            }
            LoggedItem::Dquot(item) => {
                let blocks = self.store.geometry().block_size / BASIC_BLOCK_BYTES;
                if self.cancelled.contains(item.format.at, blocks) {
                    return Ok(false);
                }
                self.dquots.replay(&mut self.store, item)
            }
            // The first pass has noted it.
            LoggedItem::QuotaOff(_) => Ok(true),
            intent_or_done => {
                self.intents.note(intent_or_done, transaction);
                Ok(true)
            }
        }
    }
}
