//! Items: logged objects, as the log sees them.
//!
//! Owns: the trait, and the state that the log keeps in each item. Does **not** own the meaning of
//! an item, its lock, or its pin count: those belong to the item.
//!
//! # Access rules
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `order`, `member_ref`, `length_bytes` | a commit: item and one slot locked | such a commit |
//! | `sequence` | such a commit | any thread |
//! | `shared` | such a commit | such a commit |
//! | a shared vector | such a commit, before the switch | the push that owns it, after the switch |
//! | `lsn`, `number` | with the AIL locked; `leave_from` also without | `lsn`: any thread |
//!
//! No thread locks an intent: it belongs to one chain of transactions, and so does its completion.

use std::sync::Arc;

use xfs_format::Lsn;
use xfs_sync::{AtomicU64, Mutex, MutexGuard, Object, Ordering};

use crate::ail::{AilPosition, InPlace};
use crate::mutant::{ActiveMutant, mutate};
use crate::vector::{RegionUpdater, RegionWriter};

/// How a checkpoint ended. The log reports it to each item that the checkpoint had pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointEnd {
    /// The checkpoint is durable. The item is in the AIL if it waits to be written to its home
    /// location on disk.
    Durable,
    /// The item is an intent whose completion is in the same checkpoint: neither is written to the
    /// log. Reported when the completion is committed, or when the checkpoint ends.
    Cancelled,
    /// The log was shut down: the change is lost, and the object in memory must not be trusted.
    Aborted,
}

/// The outcome of a request to write an item to its home location on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The item is at its home location already, and the AIL removes it.
    Done,
    /// A write has started. The item leaves the AIL when the write is done.
    Started,
    /// An earlier write of the item is still running.
    Underway,
    /// A checkpoint that is not durable holds the item: the log must be forced first.
    Pinned,
    /// Another thread has the item locked.
    Locked,
    /// The item could not be written: the log must be shut down.
    Failed,
}

/// An object that can be logged.
///
/// While the log calls one of these methods, it holds no lock of its own for which the method could
/// wait. Exceptions are stated at the methods.
pub trait LogItem: Send + Sync + 'static {
    /// Returns the state that the log keeps in the item.
    fn state(&self) -> &ItemState;

    /// Writes to `regions` those parts of the item that have changed since the item was last
    /// written to its home location on disk. An item that writes no region is an *ordered* item:
    /// the log tracks the item, but holds no bytes of it. The committing thread holds the lock of
    /// the item.
    fn format(&self, regions: &mut RegionWriter<'_>);

    /// Returns whether [`update`](Self::update) can do the work of [`format`](Self::format): the
    /// regions that `format` wrote last have kept their number and their lengths. Called only if
    /// the open checkpoint has these regions. The committing thread holds the lock of the item.
    fn is_updatable(&self) -> bool {
        false
    }

    /// Overwrites those bytes of the item's vector that have changed since `format` or `update` was
    /// last called. The result is the vector that `format` would write. Called in place of `format`
    /// after [`is_updatable`](Self::is_updatable) has returned `true`, while a slot of the
    /// committed item list is locked. So an implementation may wait only for leaf locks that no
    /// thread holds for long. The committing thread holds the lock of the item.
    fn update(&self, _regions: &mut RegionUpdater<'_>) {}

    /// Returns the intent that this item completes, or `None` if this item is not a completion.
    fn finishes(&self) -> Option<&dyn LogItem> {
        None
    }

    /// Pins the item: it is in a checkpoint and must not be written to its home location on disk
    /// until [`unpin`](Self::unpin). Called once for each checkpoint, while a slot of the committed
    /// item list is locked. So an implementation must only count.
    fn pin(&self);

    /// Removes one pin of the item, because a checkpoint that contained the item has ended as `end`
    /// says.
    fn unpin(&self, end: CheckpointEnd);

    /// Reports that a checkpoint with the item is durable; its START is at `start`. Returns the LSN
    /// that the item has in the AIL from now on: `start`, or an older LSN if this checkpoint holds
    /// only part of the item's changes. Returns `None` if the item leaves the AIL or need not enter
    /// it. Items that leave the AIL together with this one are added to `leaving`: a completion
    /// adds its intent.
    fn committed(&self, start: Lsn, _leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        Some(start)
    }

    /// Requests that the item be written to its home location on disk, because the tail has to
    /// move. The item must not wait for any lock. If other items are written together with this
    /// item, it notes each of them by [`InPlace::note`], with the [`lsn`](ItemState::lsn) that the
    /// noted item had when its contents were copied. The other item may have been logged again
    /// since.
    fn push(&self, in_place: &mut InPlace) -> Pushed;

    /// Reports that the log is shut down, and that the item will therefore never be written to its
    /// home location on disk.
    fn abandon(&self) {}
}

/// The state that the log keeps in each item.
///
/// All fields except the vector, which has a lock, are atomic integers. A commit, which has the
/// item locked, writes them. The position in the AIL is an exception: it is written under the lock
/// of the AIL, or without that lock by a thread that removes the item (`leave_from`).
#[derive(Default)]
pub struct ItemState {
    /// The sequence number of the last checkpoint to which the item was committed; 0 before the
    /// first commit.
    sequence: AtomicU64<Object>,
    /// The order number of the last commit that contained the item.
    order: AtomicU64<Object>,
    /// The reference to the item's member in the checkpoint `sequence`.
    member_ref: AtomicU64<Object>,
    /// Number of bytes that the item takes in the checkpoint `sequence`.
    length_bytes: AtomicU64<Object>,
    /// The item's vector in the checkpoint `sequence`, if several slots have committed the item.
    shared: Mutex<Option<Arc<SharedVector>>, Object>,
    /// The item's LSN in the AIL; 0 if the item is not in the AIL.
    lsn: AtomicU64<Object>,
    /// The item's index among the items at its LSN in the AIL.
    number: AtomicU64<Object>,
}

/// A reference to an item's member in a checkpoint: a slot, and an index in the list of that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberRef {
    /// The index of the slot that has the member.
    pub(crate) slot: u32,
    /// The index of the member in the slot's list.
    pub(crate) index: u32,
    /// Whether other slots have committed the item to the same checkpoint since the member was
    /// added.
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
    /// Creates the state of an item that was never logged.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sequence number of the last checkpoint to which the item was committed; 0 before
    /// the first commit. Forcing the log up to that checkpoint makes the item's changes durable.
    #[doc(alias = "li_seq")]
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Returns the item's LSN in the AIL, which is usually the LSN of the START of the item's
    /// checkpoint. Returns `None` if the item is not in the AIL.
    #[doc(alias = "li_lsn")]
    #[inline]
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        let lsn = self.lsn.load(Ordering::Acquire);
        (lsn != 0).then_some(Lsn(lsn))
    }

    #[inline]
    pub(crate) fn order(&self) -> u64 {
        self.order.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_order(&self, order: u64) {
        self.order.store(order, Ordering::Relaxed);
    }

    /// Returns the reference to the item's member in the last checkpoint to which the item was
    /// committed.
    #[inline]
    pub(crate) fn member_ref(&self) -> MemberRef {
        MemberRef::unpack(self.member_ref.load(Ordering::Relaxed))
    }

    /// Records the sequence number of the checkpoint to which the item is committed, and the place
    /// of the item in the member lists of that checkpoint.
    #[inline]
    pub(crate) fn assign(&self, sequence: u64, member_ref: MemberRef) {
        self.member_ref.store(member_ref.pack(), Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Release);
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Option<Arc<SharedVector>>> {
        self.shared.lock()
    }

    #[inline]
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_length_bytes(&self, length: u64) {
        self.length_bytes.store(length, Ordering::Relaxed);
    }

    /// Returns the item's position in the AIL, or `None` if the item is not in the AIL. If the AIL
    /// is not locked, the two parts of the position (LSN and number) may belong to different
    /// moments.
    pub(crate) fn position(&self) -> Option<AilPosition> {
        let number = self.number.load(Ordering::Relaxed);
        self.lsn().map(|lsn| AilPosition { lsn, number })
    }

    /// Records the item's position in the AIL. Called with the AIL locked.
    pub(crate) fn set_position(&self, position: AilPosition) {
        self.number.store(position.number, Ordering::Relaxed);
        self.lsn.store(position.lsn.0, Ordering::Release);
    }

    /// Marks the item as no longer in the AIL. Returns the position that it had, or `None` if it
    /// was not in the AIL. Called with the AIL locked.
    pub(crate) fn leave(&self) -> Option<AilPosition> {
        let number = self.number.load(Ordering::Relaxed);
        let lsn = self.lsn.swap(0, Ordering::AcqRel);
        (lsn != 0).then_some(AilPosition { lsn: Lsn(lsn), number })
    }

    /// Marks the item as no longer in the AIL if it is still at `lsn`, the LSN that the caller has
    /// seen. The AIL need not be locked. Returns the position from which a sweep of the AIL must
    /// remove the item, or `None` if the item was moved.
    ///
    /// The item's number is read before the item is marked: after the mark, another thread may
    /// insert the item at a new position, with another number. A thread that moves the item
    /// meanwhile has seen the old position, and removes the item from that position.
    pub(crate) fn leave_from(&self, lsn: Lsn, mutant: ActiveMutant) -> Option<AilPosition> {
        let number = self.number.load(Ordering::Relaxed);
        let left = self.lsn.compare_exchange(lsn.0, 0, Ordering::AcqRel, Ordering::Acquire);
        let number =
            mutate!(mutant, Mutant::NumberReadLate, number, self.number.load(Ordering::Relaxed));
        left.is_ok().then_some(AilPosition { lsn, number })
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
