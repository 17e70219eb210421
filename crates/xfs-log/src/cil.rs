//! The committed item list: commits, gathered into checkpoints.
//!
//! Owns: the slots, order numbers, what a checkpoint may take of the log, the switch from one
//! checkpoint to the next, and the order in which checkpoints are written. Does **not** own log
//! space ([`space`](crate::space)), records ([`writer`](crate::writer)), or what becomes of items
//! that are durable ([`ail`](crate::ail)).
//!
//! The reasons stand in docs/internals/log.md: why the order holds (theorems 1 and 2), why a
//! checkpoint can always be written (theorem 3).
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
//! - **I1** A checkpoint that is gathered and not empty, or in `committing`, or complete: nothing
//!   is in between, since the switch changes both with all slot locks held.
//! - **I2** All slots hold the same checkpoint whenever all their locks are held.
//! - **I3** A checkpoint has been given at least what writing it takes.
//!
//! - **I4** A member that does not count (`Disposition`) stands in the list of a slot until the checkpoint is
//!   written. Which members these are is noted in the slot that made them so, and looked up when all
//!   slots are at hand: a commit needs no lock but that of its own slot.
//!
//! Lock order: `switching`, slots in ascending order, `committing`. What several slots share of an
//! item comes after the slot.

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

/// A checkpoint that is being gathered.
struct OpenCheckpoint {
    sequence: u64,
    /// Whether nobody has committed to it. The first commit gives it its own unit.
    empty: AtomicBool<Volume>,
    /// Bytes of its items that slots have folded in. Relogging can shrink an item, so that a slot
    /// may fold less than nothing: the sum is a signed number.
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

/// How far a checkpoint that is being written has come.
#[derive(Clone, Copy, Default)]
struct WriteProgress {
    start: Option<Lsn>,
    committed: bool,
}

#[derive(Default)]
struct Committing {
    checkpoints: BTreeMap<u64, WriteProgress>,
}

/// Who waits, each kind by itself: what one of them waits for is nothing to the others. All of it
/// changes under the lock of `committing`.
#[derive(Default)]
struct CilCondvars {
    /// Threads that write checkpoints, for one that is due.
    due: Condvar<Volume>,
    /// Commits over the hard limit, and forces of what is still gathered: for the switch. And such
    /// forces, until no older checkpoint is being written.
    switched: Condvar<Volume>,
    /// Checkpoints, until those before them have written START or COMMIT.
    order: Condvar<Volume>,
    /// Checkpoints and forces, until older ones are complete or aborted.
    ended: Condvar<Volume>,
}

impl CilCondvars {
    fn notify_all(&self) {
        for condvar in [&self.due, &self.switched, &self.order, &self.ended] {
            condvar.notify_all();
        }
    }
}

/// How much has come in.
#[derive(Clone, Copy, Default)]
pub(crate) struct CilContents {
    /// Since the log was opened.
    pub(crate) commits: u64,
    /// Items of the checkpoint that is being gathered, those alone that will be written.
    pub(crate) items: u64,
    /// Bytes of these.
    pub(crate) bytes: u64,
}

/// What the list works with.
pub(crate) struct CilParts {
    pub(crate) writer: Arc<Writer>,
    pub(crate) ail: Arc<Ail>,
    pub(crate) health: Arc<Health>,
    /// The size at which a checkpoint is written unasked.
    pub(crate) soft_bytes: u64,
    /// The number in the log of checkpoint 0; the others go on from there.
    pub(crate) first_number: u32,
    /// Slots; one is a single list that all share.
    pub(crate) slots: usize,
    /// Threads that write checkpoints.
    pub(crate) pushers: usize,
    pub(crate) mutant: ActiveMutant,
}

/// The committed item list.
pub(crate) struct Cil {
    parts: CilParts,
    slots: Slots<Mutex<CilMembership, Slot>>,
    /// Held while a checkpoint is switched: the sequence cannot change under it.
    switching: Mutex<(), Volume>,
    /// The sequence of the checkpoint that is being gathered.
    current: AtomicU64<Volume>,
    /// Up to which sequence a push has been asked for.
    requested: AtomicU64<Volume>,
    committing: Mutex<Committing, Volume>,
    /// All checkpoints up to this one are durable. Written under the lock of `committing`.
    durable: AtomicU64<Volume>,
    /// The last checkpoint to which something has been committed.
    begun: AtomicU64<Volume>,
    condvars: CilCondvars,
    /// Memory of checkpoints that have been written: of vectors, and of lists of members.
    pool: ArenaPool,
    lists: MemberListPool,
    /// Bytes of the vectors of all checkpoints.
    written: SlotCounters<1>,
}

/// The size of a checkpoint that has commits wait, where this one has it written.
pub(crate) const fn hard_bytes(soft_bytes: u64) -> u64 {
    2 * soft_bytes
}

impl Cil {
    /// An empty list.
    pub(crate) fn new(parts: CilParts) -> Self {
        let checkpoint = Arc::new(OpenCheckpoint::new(1));
        let mut numbers = 0..;
        let slots = Slots::with_count(parts.slots, || {
            let number = numbers.next().unwrap_or_default();
            Mutex::new(CilMembership::new(number, Arc::clone(&checkpoint), parts.mutant))
        });
        // What is written at once, each as large as it may become.
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

    /// What has come in.
    pub(crate) fn contents(&self) -> CilContents {
        let (mut contents, mut not_written, mut unfolded) = (CilContents::default(), 0, 0);
        for slot in self.slots.iter() {
            let membership = slot.lock();
            contents.commits += membership.commits;
            contents.items += membership.members.list.len() as u64;
            not_written += membership.members.disposition_notes.len() as u64;
            unfolded += membership.unfolded;
        }
        contents.items = contents.items.saturating_sub(not_written);
        let folded = self.slots.mine().lock().checkpoint.folded_bytes();
        contents.bytes = folded.saturating_add_signed(unfolded);
        contents
    }

    /// Bytes of all checkpoints that have been written, or are being written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.sum(0)
    }

    /// The checkpoint that is being gathered.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    const fn hard_bytes(&self) -> u64 {
        hard_bytes(self.parts.soft_bytes)
    }

    /// Whether nothing has been committed that is not durable.
    pub(crate) fn is_idle(&self) -> bool {
        let empty = self.slots.mine().lock().checkpoint.empty.load(Ordering::Acquire);
        empty && self.committing.lock().checkpoints.is_empty()
    }

    /// Asks the pushing threads to write everything up to this checkpoint. If nothing has been
    /// committed to it yet, that stands until something is.
    pub(crate) fn request_push(&self, sequence: u64) {
        if self.requested.load(Ordering::Acquire) < sequence {
            let _committing = self.committing.lock();
            self.requested.fetch_max(sequence, Ordering::SeqCst);
            self.condvars.due.notify_one();
        }
    }

    /// The first commit to a checkpoint has come. Either it sees that a push has been asked for, or
    /// who asked sees it.
    fn begin(&self, sequence: u64) {
        self.begun.fetch_max(sequence, Ordering::SeqCst);
        if self.requested.load(Ordering::SeqCst) >= sequence {
            let _committing = self.committing.lock();
            self.condvars.due.notify_one();
        }
    }

    /// Up to where a push has been asked for, if there is anything to be written.
    pub(crate) fn due(&self) -> Option<u64> {
        let (requested, current) = (self.requested.load(Ordering::SeqCst), self.current());
        let is_due = requested >= current && self.begun.load(Ordering::SeqCst) >= current;
        is_due.then_some(requested)
    }

    /// Whether the current checkpoint is to be written.
    #[cfg(test)]
    pub(crate) fn is_push_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire) >= self.current()
    }

    /// CilCondvars until a push is asked for, or the log is shut down or closed, and returns the sequence.
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

    /// CilCondvars until this checkpoint is being written, if it has grown over its hard limit.
    pub(crate) fn await_switch(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        while self.current() <= sequence && !self.parts.health.is_down() {
            self.condvars.switched.wait(&mut committing);
        }
    }

    /// Writes all checkpoints up to this one, and waits until they are durable.
    ///
    /// # Errors
    ///
    /// What stopped the log, or [`Error::Shutdown`](xfs_buffer::Error::Shutdown). All items of
    /// these checkpoints have been aborted then.
    ///
    /// # Group commit
    ///
    /// A checkpoint that is being gathered goes on gathering while an older one is written: it has
    /// to wait for that one's COMMIT anyway, and whoever commits meanwhile is served by one flush.
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
        // What has not been switched by now was empty, unless the log is shut down.
        if self.durable() >= sequence { Ok(()) } else { self.parts.health.check() }
    }

    /// All checkpoints up to this one are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Lets all waiters look again.
    pub(crate) fn wake_all(&self) {
        let _committing = self.committing.lock();
        self.condvars.notify_all();
    }

    /// Takes everything out of the list when the log has been shut down, and lets nothing in.
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
