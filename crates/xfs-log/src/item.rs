//! Items: what is logged, as the log sees it.
//!
//! Owns: the trait, and the state that the log keeps in each item. Does **not** own what an item
//! means, its lock, or its pin count: those are the item's.
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `order`, `member_ref`, `length_bytes` | a commit: item and one slot locked | such a commit |
//! | `sequence` | the same | anybody |
//! | `shared` | the same | the same |
//! | a shared vector | the same, before the switch | after the switch the push, which then owns it (I2) |
//! | `lsn`, `number` | with the AIL locked; who has written the item in place takes `lsn` back to 0 | `lsn` anybody |
//!
//! An intent is locked by nobody: it belongs to one chain, and so does its completion.

use std::sync::Arc;

use xfs_format::Lsn;
use xfs_sync::{AtomicU64, Mutex, MutexGuard, Object, Ordering};

use crate::ail::{InPlace, Position};
use crate::mutant::{ActiveMutant, mutate};
use crate::vector::RegionWriter;

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
    /// this checkpoint, or `None` for an item that has nothing to wait for, and leaves if it is there.
    /// Others that leave with it go into `leaving`: a completion puts its intent there.
    fn committed(&self, start: Lsn, _leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        Some(start)
    }

    /// The tail has to move: the item shall be written in place, without waiting for any lock. What
    /// is written with it is noted ([`InPlace::note`]) at the [`lsn`](ItemState::lsn) that it had when
    /// its contents were taken: it may have been logged again since.
    fn push(&self, in_place: &mut InPlace) -> Pushed;

    /// The log is shut down: the item waited to be written in place, and never will be.
    fn abandon(&self) {}
}

/// What the log keeps in each item.
///
/// Plain words, and a lock for the vector alone: a commit has the item locked, and where the item stands in the
/// AIL is written under the lock of that, but for who takes it out (`leave_from`).
#[derive(Default)]
pub struct ItemState {
    /// The last checkpoint to which the item was committed; 0 if to none.
    sequence: AtomicU64<Object>,
    /// The order number of the last commit that held the item.
    order: AtomicU64<Object>,
    /// Where it stands in that checkpoint.
    member_ref: AtomicU64<Object>,
    /// Bytes that it takes there.
    length_bytes: AtomicU64<Object>,
    /// Its vector in that checkpoint, if several slots have had it.
    shared: Mutex<Option<Arc<SharedVector>>, Object>,
    /// The LSN at which it stands in the AIL; 0 if it is not there.
    lsn: AtomicU64<Object>,
    /// Its number among the items at that LSN.
    number: AtomicU64<Object>,
}

/// Where an item stands in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberRef {
    /// The slot.
    pub(crate) slot: u32,
    /// Its place there.
    pub(crate) index: u32,
    /// Whether other slots have had it since.
    pub(crate) is_shared: bool,
}

const SHARED_BIT: u64 = 1 << 63;

impl MemberRef {
    const fn pack(self) -> u64 {
        let shared = if self.is_shared { SHARED_BIT } else { 0 };
        shared | (self.slot as u64) << 32 | self.index as u64
    }

    const fn unpack(word: u64) -> Self {
        let slot = (word & !SHARED_BIT) >> 32;
        Self { slot: slot as u32, index: word as u32, is_shared: word & SHARED_BIT != 0 }
    }
}

/// The vector of an item that several slots commit to one checkpoint.
#[derive(Default)]
pub(crate) struct SharedVector {
    pub(crate) body: Mutex<SharedBody, Object>,
}

#[derive(Default)]
pub(crate) struct SharedBody {
    pub(crate) order: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) regions: u32,
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

    /// Where the item stands in the AIL: its checkpoint's START.
    #[doc(alias = "li_lsn")]
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        let lsn = self.lsn.load(Ordering::Acquire);
        (lsn != 0).then_some(Lsn(lsn))
    }

    pub(crate) fn order(&self) -> u64 {
        self.order.load(Ordering::Relaxed)
    }

    pub(crate) fn set_order(&self, order: u64) {
        self.order.store(order, Ordering::Relaxed);
    }

    /// Where it stands in its last checkpoint.
    pub(crate) fn member_ref(&self) -> MemberRef {
        MemberRef::unpack(self.member_ref.load(Ordering::Relaxed))
    }

    /// It stands there in a checkpoint.
    pub(crate) fn assign(&self, sequence: u64, member_ref: MemberRef) {
        self.member_ref.store(member_ref.pack(), Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Release);
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Option<Arc<SharedVector>>> {
        self.shared.lock()
    }

    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_length_bytes(&self, length: u64) {
        self.length_bytes.store(length, Ordering::Relaxed);
    }

    /// Its position in the AIL. Without the lock of the AIL it may be that of another moment.
    pub(crate) fn position(&self) -> Option<Position> {
        let number = self.number.load(Ordering::Relaxed);
        self.lsn().map(|lsn| Position { lsn, number })
    }

    /// It stands there. Called with the AIL locked.
    pub(crate) fn set_position(&self, position: Position) {
        self.number.store(position.number, Ordering::Relaxed);
        self.lsn.store(position.lsn.0, Ordering::Release);
    }

    /// It leaves, wherever it stands. Called with the AIL locked. Returns where that was.
    pub(crate) fn leave(&self) -> Option<Position> {
        let number = self.number.load(Ordering::Relaxed);
        let lsn = self.lsn.swap(0, Ordering::AcqRel);
        (lsn != 0).then_some(Position { lsn: Lsn(lsn), number })
    }

    /// It leaves if it stands at `lsn`, where the caller has seen it, whoever has the AIL locked. Returns
    /// the place that is to be given up.
    ///
    /// The number is read first: from the moment in which it has left, the item may be placed anew, with
    /// another one. Who moves it meanwhile has seen it where it stood, and gives that place up himself.
    pub(crate) fn leave_from(&self, lsn: Lsn, mutant: ActiveMutant) -> Option<Position> {
        let number = self.number.load(Ordering::Relaxed);
        let left = self.lsn.compare_exchange(lsn.0, 0, Ordering::AcqRel, Ordering::Acquire);
        let number =
            mutate!(mutant, Mutant::NumberReadLate, number, self.number.load(Ordering::Relaxed));
        left.is_ok().then_some(Position { lsn, number })
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
