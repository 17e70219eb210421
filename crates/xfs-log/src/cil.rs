//! The committed item list (CIL): commits, gathered into checkpoints.
//!
//! Owns: the slots, order numbers, how much log a checkpoint may take, the switch from one
//! checkpoint to the next, and the order in which checkpoints are written. Does **not** own log
//! space ([`space`](crate::space)), records ([`writer`](crate::writer)), or durable items
//! ([`ail`](crate::ail)).
//!
//! The proofs are in docs/internals/log.md: the order holds (theorems 1 and 2), and a checkpoint
//! can always be written (theorem 3).
//!
//! ```text
//!  commit ─→ slot i: { checkpoint n, members }      push ─→ switch ─→ sort ─→ START ─→ items ─→
//!  commit ─→ slot j: { checkpoint n, members }              (all slots)       in order of n
//!                                                   ─→ COMMIT ─→ durable ─→ complete
//!                                                      in order         in order of n
//! ```
//!
//! # Invariants
//!
//! - **I1** Every checkpoint that is not empty is open, in `committing`, or complete. No thread
//!   sees a checkpoint between open and `committing`, because the switch holds all slot locks.
//! - **I2** All slots hold the same checkpoint whenever all their locks are held.
//! - **I3** A checkpoint has been granted at least the log that writing it takes.
//! - **I4** A member that is not written (`Disposition`) stays in the list of its slot until the
//!   checkpoint is written, unless a commit through the same slot frees it for the next member. The
//!   slot whose commit changed the disposition of another slot's member notes the change. The push
//!   applies the notes when it has all slots, so a commit needs no lock but that of its own slot.
//! - **I5** A commit updates a vector in place only if its slot still has the checkpoint in which
//!   the commit found the item. A commit whose checkpoint was closed meanwhile formats all of its
//!   items for the next one.
//!
//! Lock order: `switching`, slots in ascending order, `committing`. The lock of a vector that
//! several slots share comes after the locks of the slots, and before the leaf locks that an item
//! takes in `LogItem::update`.

mod arena;
mod closed;
mod commit;
mod members;
mod membership;
mod push;

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::Lsn;
use xfs_sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, SlotCounters, Slots, Volume,
};

use crate::ail::Ail;
use crate::health::Health;
use crate::item::CheckpointEnd;
use crate::mutant::ActiveMutant;
use crate::writer::Writer;

use arena::ArenaPool;
pub(crate) use closed::ClosedCheckpoint;
use members::MemberListPool;
use membership::CilMembership;

pub use commit::Committed;
pub(crate) use commit::Pressure;
pub(crate) use push::WrittenCheckpoint;

/// The checkpoint to which commits are added.
struct OpenCheckpoint {
    sequence: u64,
    /// Whether no commit has been added to the checkpoint yet. The first commit also reserves the
    /// log space that the checkpoint takes in addition to its items.
    empty: AtomicBool<Volume>,
    /// Sum of the bytes of items that slots have added to the checkpoint's total. Relogging can
    /// shrink an item, so a slot may add a negative amount: the sum is a signed number.
    folded: AtomicU64<Volume>,
}

impl OpenCheckpoint {
    fn new(sequence: u64) -> Self {
        let (empty, folded) = (AtomicBool::new(true), AtomicU64::new(0));
        Self { sequence, empty, folded }
    }

    fn folded_bytes(&self) -> u64 {
        self.folded.load(Ordering::Relaxed).cast_signed().max(0) as u64
    }
}

/// The progress of writing one checkpoint.
#[derive(Clone, Copy, Default)]
struct WriteProgress {
    start: Option<Lsn>,
    committed: bool,
}

#[derive(Default)]
struct Committing {
    checkpoints: BTreeMap<u64, WriteProgress>,
}

/// The condition variables of the committed item list. Each kind of waiter has a condition variable
/// of its own, so that a wakeup reaches only waiters of one kind. All conditions change under the
/// lock of `committing`.
#[derive(Default)]
struct CilCondvars {
    /// Threads that write checkpoints wait here until a checkpoint must be written.
    due: Condvar<Volume>,
    /// Commits over the hard limit and forces of the open checkpoint wait here for the switch to
    /// the next checkpoint. Forces also wait here until no older checkpoint is being written.
    switched: Condvar<Volume>,
    /// Threads that write a checkpoint wait here for the START of all earlier checkpoints, and
    /// later for the COMMIT of all earlier checkpoints.
    order: Condvar<Volume>,
    /// Threads that write or force a checkpoint wait here until older ones are complete or aborted.
    ended: Condvar<Volume>,
}

impl CilCondvars {
    fn notify_all(&self) {
        for condvar in [&self.due, &self.switched, &self.order, &self.ended] {
            condvar.notify_all();
        }
    }
}

/// The number of commits since the log was opened, and the contents of the open checkpoint.
#[derive(Clone, Copy, Default)]
pub(crate) struct CilContents {
    /// Number of commits since the log was opened.
    pub(crate) commits: u64,
    /// Number of items of the open checkpoint that will be written.
    pub(crate) items: u64,
    /// Length in bytes of the open checkpoint's items that will be written.
    pub(crate) bytes: u64,
}

/// The components of the log that the committed item list uses, and the settings of the list.
pub(crate) struct CilParts {
    pub(crate) writer: Arc<Writer>,
    pub(crate) ail: Arc<Ail>,
    pub(crate) health: Arc<Health>,
    /// The size in bytes at which a checkpoint is written even if no thread requests it.
    pub(crate) soft_bytes: u64,
    /// The transaction number from which checkpoints are counted in the log: checkpoint n has the
    /// transaction number `first_number` + n.
    pub(crate) first_number: u32,
    /// Number of slots, normally one for each CPU. With one slot, all threads share a single list.
    pub(crate) slots: usize,
    /// Number of threads that write checkpoints.
    pub(crate) pushers: usize,
    pub(crate) mutant: ActiveMutant,
}

/// The committed item list of one log.
pub(crate) struct Cil {
    parts: CilParts,
    slots: Slots<Mutex<CilMembership, Slot>>,
    /// The lock of the switch to the next checkpoint. While a thread holds this lock, no other
    /// thread can change the sequence number of the open checkpoint.
    switching: Mutex<(), Volume>,
    /// The sequence number of the open checkpoint.
    current: AtomicU64<Volume>,
    /// The sequence number of the last checkpoint that a push has been requested to write. All
    /// earlier checkpoints are written first.
    requested: AtomicU64<Volume>,
    committing: Mutex<Committing, Volume>,
    /// The sequence number up to which all checkpoints are durable. Written under the lock of
    /// `committing`.
    durable: AtomicU64<Volume>,
    /// The sequence number of the last checkpoint to which a commit was added.
    begun: AtomicU64<Volume>,
    condvars: CilCondvars,
    /// Memory of written checkpoints that later checkpoints use again. `pool` has the memory of
    /// vectors, `lists` that of member lists.
    pool: ArenaPool,
    lists: MemberListPool,
    /// Number of bytes of the vectors of all checkpoints that were written.
    written: SlotCounters<1>,
}

/// Returns the hard limit: the size in bytes of a checkpoint at which commits wait until it is
/// closed. `soft_bytes` is the size at which the checkpoint is pushed.
pub(crate) const fn hard_bytes(soft_bytes: u64) -> u64 {
    2 * soft_bytes
}

impl Cil {
    /// Creates an empty committed item list.
    pub(crate) fn new(parts: CilParts) -> Self {
        let checkpoint = Arc::new(OpenCheckpoint::new(1));
        let mut numbers = 0..;
        let slots = Slots::with_count(parts.slots, || {
            let number = numbers.next().expect("slots have numbers of 32 bits");
            Mutex::new(CilMembership::new(number, Arc::clone(&checkpoint), parts.mutant))
        });
        // The checkpoints that are written at once, each at its largest size.
        let kept_bytes = 2 * parts.soft_bytes * parts.pushers.clamp(1, 2) as u64;
        let pool = ArenaPool::new(kept_bytes, slots.iter().len());
        let lists = MemberListPool::new(kept_bytes, slots.iter().len());
        Self {
            pool,
            lists,
            parts,
            slots,
            switching: Mutex::new(()),
            current: AtomicU64::new(1),
            requested: AtomicU64::new(0),
            committing: Mutex::default(),
            durable: AtomicU64::new(0),
            written: SlotCounters::new(),
            begun: AtomicU64::new(0),
            condvars: CilCondvars::default(),
        }
    }

    /// Returns the number of commits, and the contents of the open checkpoint. The result is a
    /// statistic: the slots are read one after the other, so a commit that runs meanwhile may be
    /// counted in part. A count that would then be negative is returned as 0.
    pub(crate) fn contents(&self) -> CilContents {
        let (mut contents, mut not_written, mut unfolded) = (CilContents::default(), 0, 0);
        for slot in self.slots.iter() {
            let membership = slot.lock();
            contents.commits += membership.commits;
            contents.items += membership.members.list.len() as u64;
            not_written += membership.members.disposition_notes.len() as u64;
            not_written += membership.members.free.len() as u64;
            unfolded += membership.unfolded;
        }
        contents.items = contents.items.saturating_sub(not_written);
        let folded = self.slots.mine().lock().checkpoint.folded_bytes();
        contents.bytes = folded.saturating_add_signed(unfolded);
        contents
    }

    /// Returns the number of bytes of all checkpoints that have been written or are being written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.sum(0)
    }

    /// Returns the sequence number of the open checkpoint.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    const fn hard_bytes(&self) -> u64 {
        hard_bytes(self.parts.soft_bytes)
    }

    /// Returns whether no commit waits to be made durable: the open checkpoint is empty, and no
    /// other checkpoint is being written.
    pub(crate) fn is_idle(&self) -> bool {
        let empty = self.slots.mine().lock().checkpoint.empty.load(Ordering::Acquire);
        empty && self.committing.lock().checkpoints.is_empty()
    }

    /// Requests that the pushing threads write all checkpoints up to `sequence`. A request for a
    /// checkpoint without commits takes effect when the checkpoint gets its first commit.
    pub(crate) fn request_push(&self, sequence: u64) {
        if self.requested.load(Ordering::Acquire) < sequence {
            let _committing = self.committing.lock();
            self.requested.fetch_max(sequence, Ordering::SeqCst);
            self.condvars.due.notify_one();
        }
    }

    /// Records that the checkpoint `sequence` has its first commit. Wakes a pushing thread if a
    /// push of this checkpoint was requested. Either this commit sees the request, or the thread
    /// that requests the push sees the commit.
    fn begin(&self, sequence: u64) {
        self.begun.fetch_max(sequence, Ordering::SeqCst);
        if self.requested.load(Ordering::SeqCst) >= sequence {
            let _committing = self.committing.lock();
            self.condvars.due.notify_one();
        }
    }

    /// Returns the sequence number up to which a push has been requested, or `None` if no
    /// checkpoint has to be written.
    pub(crate) fn due(&self) -> Option<u64> {
        let (requested, current) = (self.requested.load(Ordering::SeqCst), self.current());
        let is_due = requested >= current && self.begun.load(Ordering::SeqCst) >= current;
        is_due.then_some(requested)
    }

    /// Returns whether a push of the open checkpoint has been requested.
    #[cfg(test)]
    pub(crate) fn is_push_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire) >= self.current()
    }

    /// Waits until a checkpoint has to be written. Returns the sequence number up to which a push
    /// was requested, or `None` if the log is shut down or closed.
    pub(crate) fn await_request(&self, closing: &AtomicBool<Volume>) -> Option<u64> {
        let mut committing = self.committing.lock();
        loop {
            if closing.load(Ordering::Acquire) || self.parts.health.is_down() {
                return None;
            }
            if let Some(requested) = self.due() {
                return Some(requested);
            }
            self.condvars.due.wait(&mut committing);
        }
    }

    /// Waits until the checkpoint `sequence`, which has grown over its hard limit, takes no more
    /// commits, or the log is shut down.
    pub(crate) fn await_switch(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        while self.current() <= sequence && !self.parts.health.is_down() {
            self.condvars.switched.wait(&mut committing);
        }
    }

    /// Writes all checkpoints up to `sequence`, and waits until they are durable.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log, or [`Error::Shutdown`](xfs_buffer::Error::Shutdown).
    /// All items of these checkpoints have then been aborted.
    ///
    /// # Group commit
    ///
    /// The open checkpoint keeps taking commits while an older checkpoint is written. Its own
    /// COMMIT has to follow the older COMMIT anyway, and one flush then serves all commits that
    /// arrive in the meantime.
    pub(crate) fn force(&self, sequence: u64) -> Result<()> {
        if self.durable() >= sequence {
            return Ok(());
        }
        let mut committing = self.committing.lock();
        while self.current() <= sequence && !committing.checkpoints.is_empty() {
            self.condvars.switched.wait(&mut committing);
        }
        drop(committing);
        self.push(sequence)?;
        let mut committing = self.committing.lock();
        while committing.checkpoints.range(..=sequence).next().is_some() {
            self.condvars.ended.wait(&mut committing);
        }
        // A checkpoint that has not been switched by now was empty, unless the log is shut down.
        if self.durable() >= sequence { Ok(()) } else { self.parts.health.check() }
    }

    /// Returns the sequence number up to which all checkpoints are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Wakes all threads that wait for a checkpoint of this list, so that they check the state of
    /// the log again.
    pub(crate) fn wake_all(&self) {
        let _committing = self.committing.lock();
        self.condvars.notify_all();
    }

    /// Empties the list after the log has been shut down, and refuses further commits.
    pub(crate) fn close(&self) {
        let _switching = self.switching.lock();
        let mut slots: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let mut closed = ClosedCheckpoint::new(self.current());
        let last = Arc::new(OpenCheckpoint::new(closed.sequence));
        for membership in &mut slots {
            membership.closed = true;
            closed.take(membership, &last);
        }
        drop(slots);
        closed.resolve_members();
        closed.unpin_all(CheckpointEnd::Aborted);
        self.wake_all();
    }
}
