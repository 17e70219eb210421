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
//! Lock order: `switching`, slots in ascending order, `committing`. An item's journal and its entry
//! come after the slot.

mod commit;
mod push;

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::Lsn;
use xfs_sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, Slots, Volume};

use crate::ail::Ail;
use crate::health::Health;
use crate::item::{CheckpointEnd, Entry, LogItem};
use crate::plant::Plants;
use crate::writer::Writer;

pub use commit::Committed;
pub(crate) use commit::Pressure;

/// A checkpoint never grows beyond what this much log allows, however large the log is.
const MOST_SOFT_BYTES: u64 = 32 << 20;

/// A checkpoint that is being gathered.
struct Checkpoint {
    sequence: u64,
    /// Whether nobody has committed to it. The first commit gives it its own unit.
    empty: AtomicBool<Volume>,
    /// Bytes of its items that slots have folded in. Relogging can shrink an item, so that a slot
    /// may fold less than nothing: the sum is a signed number.
    folded: AtomicU64<Volume>,
}

impl Checkpoint {
    fn new(sequence: u64) -> Self {
        let (empty, folded) = (AtomicBool::new(true), AtomicU64::new(0));
        Self { sequence, empty, folded }
    }

    fn folded_bytes(&self) -> u64 {
        self.folded.load(Ordering::Relaxed).cast_signed().max(0) as u64
    }
}

/// An item in a checkpoint.
struct Member {
    item: Arc<dyn LogItem>,
    entry: Arc<Entry>,
}

/// A slot's share of the checkpoint.
struct Share {
    checkpoint: Arc<Checkpoint>,
    members: Vec<Member>,
    /// Bytes that are not folded yet.
    unfolded: i64,
    /// Bytes that commits through this slot have added to the checkpoint.
    grown: u64,
    /// Records whose overhead they have given to it.
    records: u64,
    /// All that they have given to it.
    granted: u64,
    /// The largest order number given out here.
    clock: u64,
    /// The log is shut down: nothing may come in that nobody would take out.
    closed: bool,
}

/// How far a checkpoint that is being written has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    start: Option<Lsn>,
    committed: bool,
}

#[derive(Default)]
struct Committing {
    checkpoints: BTreeMap<u64, Progress>,
    /// All checkpoints up to this one are durable.
    durable: u64,
}

/// What the list works with.
pub(crate) struct CilParts {
    pub(crate) writer: Arc<Writer>,
    pub(crate) ail: Arc<Ail>,
    pub(crate) health: Arc<Health>,
    /// Bytes of the log.
    pub(crate) log_bytes: u64,
    /// Slots; one is a single list that all share.
    pub(crate) slots: usize,
    pub(crate) plants: Plants,
}

/// The committed item list.
pub(crate) struct Cil {
    parts: CilParts,
    slots: Slots<Mutex<Share, Slot>>,
    /// Held while a checkpoint is switched: the sequence cannot change under it.
    switching: Mutex<(), Volume>,
    /// The sequence of the checkpoint that is being gathered.
    current: AtomicU64<Volume>,
    /// Up to which sequence a push has been asked for.
    requested: AtomicU64<Volume>,
    committing: Mutex<Committing, Volume>,
    /// The durable sequence of `committing`, to be read without its lock.
    durable: AtomicU64<Volume>,
    /// Something in `committing`, `current` or `requested` has changed.
    changed: Condvar<Volume>,
    soft_bytes: u64,
}

impl Cil {
    /// An empty list.
    pub(crate) fn new(parts: CilParts) -> Self {
        let checkpoint = Arc::new(Checkpoint::new(1));
        let slots = Slots::with_count(parts.slots, || {
            Mutex::new(Share {
                checkpoint: Arc::clone(&checkpoint),
                members: Vec::new(),
                unfolded: 0,
                grown: 0,
                records: 0,
                granted: 0,
                clock: 0,
                closed: false,
            })
        });
        Self {
            soft_bytes: (parts.log_bytes / 8).min(MOST_SOFT_BYTES),
            parts,
            slots,
            switching: Mutex::new(()),
            current: AtomicU64::new(1),
            requested: AtomicU64::new(0),
            committing: Mutex::default(),
            durable: AtomicU64::new(0),
            changed: Condvar::new(),
        }
    }

    /// The checkpoint that is being gathered.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// All checkpoints up to this one are durable, and maybe some more.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Where the size of a checkpoint has commits wait.
    const fn hard_bytes(&self) -> u64 {
        2 * self.soft_bytes
    }

    /// Whether nothing has been committed that is not durable.
    pub(crate) fn is_idle(&self) -> bool {
        let empty = self.slots.mine().lock().checkpoint.empty.load(Ordering::Acquire);
        empty && self.committing.lock().checkpoints.is_empty()
    }

    /// Asks the pushing threads to write everything up to this checkpoint.
    pub(crate) fn request_push(&self, sequence: u64) {
        if self.requested.load(Ordering::Acquire) < sequence {
            let _committing = self.committing.lock();
            self.requested.fetch_max(sequence, Ordering::AcqRel);
            self.changed.notify_all();
        }
    }

    /// Waits until a push is asked for, or the log is shut down or closed, and returns the sequence.
    pub(crate) fn await_request(&self, closing: &AtomicBool<Volume>) -> Option<u64> {
        let mut committing = self.committing.lock();
        loop {
            if closing.load(Ordering::Acquire) || self.parts.health.is_down() {
                return None;
            }
            let requested = self.requested.load(Ordering::Acquire);
            if requested >= self.current() {
                return Some(requested);
            }
            self.changed.wait(&mut committing);
        }
    }

    /// Waits until this checkpoint is being written, if it has grown over its hard limit.
    pub(crate) fn await_switch(&self, sequence: u64) {
        let mut committing = self.committing.lock();
        while self.current() <= sequence && !self.parts.health.is_down() {
            self.changed.wait(&mut committing);
        }
    }

    /// Writes all checkpoints up to this one, and waits until they are durable.
    ///
    /// # Errors
    ///
    /// What stopped the log, or [`Error::Shutdown`](xfs_buffer::Error::Shutdown). All items of
    /// these checkpoints have been aborted then.
    pub(crate) fn force(&self, sequence: u64) -> Result<()> {
        self.push(sequence)?;
        let mut committing = self.committing.lock();
        while committing.checkpoints.range(..=sequence).next().is_some() {
            self.changed.wait(&mut committing);
        }
        // What has not been switched by now was empty, unless the log is shut down.
        if committing.durable >= sequence { Ok(()) } else { self.parts.health.check() }
    }

    /// Lets all waiters look again.
    pub(crate) fn wake_all(&self) {
        let _committing = self.committing.lock();
        self.changed.notify_all();
    }

    /// Takes everything out of the list when the log has been shut down, and lets nothing in.
    pub(crate) fn close(&self) {
        let _switching = self.switching.lock();
        let mut shares: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let mut members = Vec::new();
        for share in &mut shares {
            share.closed = true;
            members.append(&mut share.members);
        }
        drop(shares);
        for member in members {
            member.item.unpin(CheckpointEnd::Aborted);
        }
        self.wake_all();
    }
}
