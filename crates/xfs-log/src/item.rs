//! Items: what is logged, as the log sees it.
//!
//! Owns: the trait, and the state that the log keeps in each item. Does **not** own what an item
//! means, its lock, or its pin count: those are the item's.
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `order`, `entry` | a commit: item and one slot locked | such a commit |
//! | `spare`, `fresh` | a commit: item locked | the same |
//! | contents of an entry | a commit: item and one slot locked, before the switch | after the switch the push, which then owns it (I2) |
//! | `sequence` | a commit | anybody |
//! | `place` | with the AIL locked | with the AIL locked |

use std::sync::Arc;

use xfs_format::Lsn;
use xfs_sync::{AtomicU64, Mutex, MutexGuard, Object, Ordering};

use crate::ail::Ail;
use crate::vector::{LogVector, RegionWriter, VectorSize};

/// How a checkpoint ended for an item that was pinned by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointEnd {
    /// It is durable; the item is in the AIL if it had to go there.
    Durable,
    /// The item is an intent that was finished in the checkpoint that would have logged it: neither
    /// reached the log.
    Cancelled,
    /// The log was shut down: the change is lost, and the object in memory is not to be believed.
    Aborted,
}

/// What became of an item that was asked to be written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in place: the AIL takes it out.
    Done,
    /// It is written, or being written; it leaves the AIL when that is done.
    Started,
    /// It is being written since an earlier time.
    Underway,
    /// A checkpoint that is not durable holds it: the log has to be forced.
    Pinned,
    /// Somebody has locked it.
    Locked,
    /// It could not be written: the log is shut down.
    Failed,
}

/// Something that can be logged.
///
/// The log calls these methods with no lock of its own held that they could wait for, except where
/// it says so.
pub trait LogItem: Send + Sync + 'static {
    /// The log's part of the item.
    fn state(&self) -> &ItemState;

    /// What formatting it takes. The caller of commit has locked the item.
    fn size(&self) -> VectorSize;

    /// Writes what is dirty since the item was last in place. An item of no regions is tracked and
    /// leaves no bytes: an *ordered* item. The caller of commit has locked the item.
    fn format(&self, regions: &mut RegionWriter<'_>);

    /// The intent that this item completes.
    fn finishes(&self) -> Option<&dyn LogItem> {
        None
    }

    /// The item is in a checkpoint: it must not be written in place until [`unpin`](Self::unpin).
    /// Called once for each checkpoint, with a slot locked: only to count.
    fn pin(&self);

    /// A checkpoint that held the item has ended.
    fn unpin(&self, end: CheckpointEnd);

    /// The checkpoint with the item is durable, and starts at `start`. Returns where the item
    /// stands in the AIL from now on: `start`, something older if only part of its changes is in
    /// this checkpoint, or `None` for an item that has nothing to wait for. A completion removes its
    /// intent from `ail` here.
    fn committed(&self, start: Lsn, _ail: &Ail) -> Option<Lsn> {
        Some(start)
    }

    /// The tail has to move: the item shall be written in place, without waiting for any lock. What
    /// is written by and by leaves the AIL with [`Ail::remove_at`], at the [`lsn`](ItemState::lsn)
    /// that the item had when its contents were taken: it may have been logged again since.
    fn push(&self, ail: &Ail) -> Pushed;

    /// The log is shut down: the item waited to be written in place, and never will be.
    fn abandon(&self) {}
}

/// What the log keeps in each item.
#[derive(Default)]
pub struct ItemState {
    /// The last checkpoint to which the item was committed.
    sequence: AtomicU64<Object>,
    journal: Mutex<Journal, Object>,
    pub(crate) place: Mutex<Option<crate::ail::Position>, Object>,
}

/// What commits keep in an item.
#[derive(Default)]
pub(crate) struct Journal {
    /// The order number of the last commit that held the item.
    pub(crate) order: u64,
    /// The checkpoint in which the item is, or was last; 0 if it was in none.
    pub(crate) sequence: u64,
    /// Its entry there.
    pub(crate) entry: Option<Arc<Entry>>,
    /// The vector of the commit that is under way, made before the slot is locked.
    pub(crate) spare: LogVector,
    /// An entry for that commit, should it need one.
    pub(crate) fresh: Option<Arc<Entry>>,
}

impl Journal {
    /// Bytes that the spare vector would take: after the swap, those of the vector before.
    pub(crate) fn spare_bytes(&self) -> i64 {
        self.spare.log_bytes().cast_signed()
    }
}

/// An item in one checkpoint.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) body: Mutex<EntryBody, Object>,
}

#[derive(Default)]
pub(crate) struct EntryBody {
    pub(crate) order: u64,
    pub(crate) vector: LogVector,
    /// The entry is of an intent that has been finished: nothing of it is written.
    pub(crate) cancelled: bool,
}

impl ItemState {
    /// The state of an item that was never logged.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The last checkpoint to which the item was committed; 0 if to none. Forcing the log up to it
    /// makes the item's changes durable.
    #[doc(alias = "li_seq")]
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    pub(crate) fn set_sequence(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Where the item stands in the AIL: its checkpoint's START.
    #[doc(alias = "li_lsn")]
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        self.place.lock().map(|position| position.lsn)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock()
    }
}

impl core::fmt::Debug for ItemState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ItemState")
            .field("sequence", &self.sequence())
            .field("lsn", &self.lsn())
            .finish_non_exhaustive()
    }
}
