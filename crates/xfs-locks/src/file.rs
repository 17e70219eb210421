//! The locks, leases and opens of one file, shared by many threads.
//!
//! # Invariants
//!
//! - **I1** The `LockContext` exists before a bit of the `LockWord` announces a lock or a lease
//!   in it. So a thread that sees none of the bits does not read the context.
//! - **I2** A waiter is in the list of its file until another thread removes it to wake it, or
//!   until its own thread removes it. The thread that removes it holds the lock of the list.
//! - **I3** Whenever the lock of the list is free, the wait graph is right: for each process that
//!   waits in the list, the graph contains exactly the processes that block this wait.

mod sharding;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use xfs_sync::{AtomicU32, CachePadded, Mutex, MutexGuard, Object, SetOnce};

use crate::LockError;
use crate::deadlock::WaitGraph;
use crate::leases::{Break, Breaker, LeaseKind, LeaseMode, LeaseRequest, LeaseTable};
use crate::opens::{
    LockWord, OpenMode, OpenTally, Opens, announce_then_sum, count_then_look, full_fence,
    leave_before_look,
};
use crate::range::LockRange;
use crate::records::{HeldLock, LockMode, Owner, RecordLocks};
use crate::waiter::Waiter;

/// The number of opens of a file that are counted in one per-CPU slot.
pub type SlotTally = CachePadded<OpenTally>;

/// Whether a request waits if a lock or lease of another owner blocks it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Wait<'a> {
    /// The request does not wait: it fails with [`LockError::WouldBlock`].
    No,
    /// The request waits until it is granted, the waiter is cancelled, or the waiter's timeout
    /// expires.
    For(&'a Arc<Waiter>),
}

/// The state of a file's locks, leases and opens. The bits that every open and close reads are in
/// the file's [`LockWord`].
#[derive(Debug, Default)]
pub struct LockState {
    /// Number of opens that are not counted in a per-CPU slot.
    tally: OpenTally,
    /// The per-CPU slot of the last thread that opened the file, and how often an open came from a
    /// slot other than the slot of the open before.
    opener: AtomicU32<Object>,
    context: SetOnce<Box<LockContext>, Object>,
}

impl LockState {
    /// Creates the state of a file without locks, leases or opens. Allocates no memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The part of the state that exists only for a file that was locked, leased, or opened by many
/// threads.
#[derive(Debug, Default)]
struct LockContext {
    records: Mutex<LockSpace, Object>,
    /// The `flock` locks. Each one is a lock of the whole file.
    whole: Mutex<LockSpace, Object>,
    leases: Mutex<Leases, Object>,
    slots: Mutex<Vec<Weak<SlotTally>>, Object>,
}

/// The locks of one kind (record locks or `flock`), and the requests that wait for them.
#[derive(Debug, Default)]
struct LockSpace {
    locks: RecordLocks,
    /// Whether a caller keeps the file in memory because processes hold locks on it.
    is_kept: bool,
    waiting: Vec<(Arc<Waiter>, HeldLock)>,
}

#[derive(Debug, Default)]
struct Leases {
    table: LeaseTable,
    /// Requests that wait until a lease is released.
    waiting: Vec<Arc<Waiter>>,
}

impl Leases {
    /// Wakes all requests that wait for a lease to be released, so that they check the leases
    /// again.
    fn changed(&mut self, word: &LockWord) {
        if self.table.is_empty() {
            word.clear(LockWord::LEASED);
        }
        self.waiting.drain(..).for_each(|waiter| waiter.wake());
    }
}

impl LockSpace {
    /// Takes a lock. The caller has checked that no other lock conflicts with it.
    fn lock(&mut self, wanted: HeldLock, graph: &WaitGraph) {
        let before = self.locks.held().len();
        self.locks.lock(wanted);
        graph.note_locks(before, self.locks.held().len());
        // A lock that became shared may unblock other requests; a new lock blocks others.
        self.changed(graph);
    }

    /// Releases the locks of an owner in a range.
    fn unlock(&mut self, owner: Owner, range: LockRange, graph: &WaitGraph) {
        let before = self.locks.held().len();
        if self.locks.unlock(owner, range) {
            graph.note_locks(before, self.locks.held().len());
            self.changed(graph);
        }
    }

    fn has_process(&self) -> bool {
        self.locks.held().iter().any(|held| matches!(held.owner, Owner::Process(_)))
    }

    /// Returns the processes that hold a lock that conflicts with `wanted`.
    fn holders(&self, wanted: HeldLock) -> Vec<u64> {
        let process = |held: &HeldLock| match held.owner {
            Owner::Process(process) => Some(process),
            Owner::Description(_) => None,
        };
        self.locks.conflicts(wanted).filter_map(process).collect()
    }

    /// Wakes the waiters whose requests can now be granted. Updates the wait graph for all other
    /// waiters (I3).
    fn changed(&mut self, graph: &WaitGraph) {
        let waiting = std::mem::take(&mut self.waiting);
        for (waiter, wanted) in waiting {
            if self.locks.conflict(wanted).is_none() {
                graph.leave(&waiter);
                waiter.wake();
                continue;
            }
            graph.correct(&waiter, self.holders(wanted));
            self.waiting.push((waiter, wanted));
        }
    }

    /// Adds a waiter to the list of waiting requests. Returns `LockError::Deadlock` if the waiter
    /// would wait for ever.
    fn enqueue(
        &mut self,
        wanted: HeldLock,
        waiter: &Arc<Waiter>,
        graph: &WaitGraph,
    ) -> Result<(), LockError> {
        waiter.reset();
        if let Owner::Process(process) = wanted.owner {
            graph.enter(process, self.holders(wanted), waiter)?;
        }
        self.waiting.push((Arc::clone(waiter), wanted));
        Ok(())
    }
}

/// Takes a lock in `space`: the record locks or the `flock` locks of a file. If another lock
/// conflicts, waits as far as `wait` permits.
fn take(
    space: &Mutex<LockSpace, Object>,
    wanted: HeldLock,
    wait: Wait<'_>,
    graph: &WaitGraph,
) -> Result<(), LockError> {
    loop {
        let mut held = space.lock();
        if held.locks.conflict(wanted).is_none() {
            held.lock(wanted, graph);
            return Ok(());
        }
        let Wait::For(waiter) = wait else { return Err(LockError::WouldBlock) };
        held.enqueue(wanted, waiter, graph)?;
        drop(held);
        if let Err(error) = waiter.sleep(None) {
            space.lock().waiting.retain(|(other, _)| !Arc::ptr_eq(other, waiter));
            graph.leave(waiter);
            return Err(error);
        }
    }
}

/// The locks, leases and opens of one file: the [`LockWord`], which every thread reads, and the
/// [`LockState`], which few threads use. The two are separate so that they can lie on different
/// cache lines.
#[derive(Clone, Copy, Debug)]
pub struct FileLocks<'a> {
    /// The bits that announce which locks and leases may exist in `state`.
    pub word: &'a LockWord,
    /// The locks, leases and opens.
    pub state: &'a LockState,
}

impl<'a> FileLocks<'a> {
    fn context(self) -> &'a LockContext {
        self.state.context.value_or_init(Box::default)
    }

    /// Returns whether the file has a `LockContext`. A benchmark calls this to find out how much
    /// time the `LockWord` saves.
    #[must_use]
    pub fn has_context(self) -> bool {
        self.state.context.value().is_some()
    }

    /// Takes the record lock `wanted`. It replaces all record locks that the owner of `wanted` has
    /// in the range of `wanted`.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if another lock conflicts and the request does not wait.
    /// [`LockError::Deadlock`] if the holders of such locks wait for the owner of `wanted`.
    /// Otherwise the error with which the wait ended.
    pub fn lock(
        self,
        wanted: HeldLock,
        wait: Wait<'_>,
        graph: &WaitGraph,
    ) -> Result<(), LockError> {
        let context = self.context();
        self.word.set(LockWord::LOCKED);
        take(&context.records, wanted, wait, graph)
    }

    /// Releases the locks of an owner in a range.
    pub fn unlock(self, owner: Owner, range: LockRange, graph: &WaitGraph) {
        let Some(context) = self.locked() else { return };
        context.records.lock().unlock(owner, range, graph);
    }

    /// Returns the lowest lock in the file that conflicts with `wanted`, or `None` if no lock
    /// conflicts.
    #[must_use]
    pub fn conflict(self, wanted: HeldLock) -> Option<HeldLock> {
        self.locked()?.records.lock().locks.conflict(wanted)
    }

    /// Takes a `flock` lock for an open file description. Record locks do not conflict with it. A
    /// lock of the description in the other mode is released first, even if the new lock then
    /// fails: see flock(2).
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if another lock conflicts and the request does not wait. Otherwise
    /// the error with which the wait ended.
    pub fn flock(
        self,
        description: u64,
        mode: LockMode,
        wait: Wait<'_>,
        graph: &WaitGraph,
    ) -> Result<(), LockError> {
        let context = self.context();
        self.word.set(LockWord::LOCKED);
        let owner = Owner::Description(description);
        let wanted = HeldLock { owner, range: LockRange::WHOLE, mode };
        let mut space = context.whole.lock();
        if space.locks.held().contains(&wanted) {
            return Ok(());
        }
        space.unlock(owner, LockRange::WHOLE, graph);
        drop(space);
        take(&context.whole, wanted, wait, graph)
    }

    /// Releases the lock that [`flock`](Self::flock) has taken for the description.
    pub fn unflock(self, description: u64, graph: &WaitGraph) {
        let Some(context) = self.locked() else { return };
        let owner = Owner::Description(description);
        context.whole.lock().unlock(owner, LockRange::WHOLE, graph);
    }

    /// Returns the `LockContext` of the file, or `None` if no lock was ever taken on the file.
    fn locked(self) -> Option<&'a LockContext> {
        if !self.word.has(LockWord::LOCKED) {
            return None;
        }
        self.state.context.value().map(|context| &**context)
    }

    /// Returns whether the caller must keep the file in memory from now on. This is the case if a
    /// process holds a lock on the file and no caller keeps it for that reason yet. For each
    /// `true`, one later call of [`end_keeping`](Self::end_keeping) or
    /// [`release_processes`](Self::release_processes) returns `true`.
    #[must_use]
    pub fn begin_keeping(self) -> bool {
        let Some(context) = self.locked() else { return false };
        let mut space = context.records.lock();
        let begins = !space.is_kept && space.has_process();
        space.is_kept |= begins;
        begins
    }

    /// Returns whether the caller may stop keeping the file in memory: it was kept because
    /// processes had locks on it, and no process has one any more.
    #[must_use]
    pub fn end_keeping(self) -> bool {
        let Some(context) = self.locked() else { return false };
        let mut space = context.records.lock();
        let ends = space.is_kept && !space.has_process();
        space.is_kept &= !ends;
        ends
    }

    /// Releases the record locks of all processes, on a file that can no longer be opened. Returns
    /// whether the file was kept in memory for these locks.
    #[must_use]
    pub fn release_processes(self, graph: &WaitGraph) -> bool {
        let Some(context) = self.locked() else { return false };
        let mut space = context.records.lock();
        let owners: Vec<_> = space.locks.held().iter().map(|held| held.owner).collect();
        for owner in owners.into_iter().filter(|owner| matches!(owner, Owner::Process(_))) {
            space.unlock(owner, LockRange::WHOLE, graph);
        }
        std::mem::take(&mut space.is_kept)
    }

    /// Releases all record locks of an owner, as closing a descriptor does.
    pub fn release(self, owner: Owner, graph: &WaitGraph) {
        self.unlock(owner, LockRange::WHOLE, graph);
    }
}

/// Opens and leases of a file.
impl<'a> FileLocks<'a> {
    /// Counts an open in `slot`'s tally, or in the file's own tally if `slot` is `None`. Then
    /// breaks conflicting leases. The slot's tally must have been [added](Self::add_slot).
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if a conflicting lease is now being broken and the request does
    /// not wait. Otherwise the error with which the wait ended. After an error the open is not
    /// counted.
    pub fn open(
        self,
        slot: Option<&SlotTally>,
        mode: OpenMode,
        wait: Wait<'_>,
        grace: Duration,
    ) -> Result<(), LockError> {
        let tally = self.tally(slot);
        if !count_then_look(tally, self.word, mode, full_fence) {
            return Ok(());
        }
        let broken = self.break_leases(Breaker::Open(mode), wait, grace);
        broken.inspect_err(|_| leave_before_look(tally, mode, full_fence))
    }

    /// Ends an open, and releases the locks and leases of its open file description. `slot` must be
    /// the same as in the call of `open`. If several opens for writing end at the same
    /// time, at least one of the closing threads then finds no writer in [`opens`](Self::opens).
    pub fn close(
        self,
        slot: Option<&SlotTally>,
        mode: OpenMode,
        description: u64,
        graph: &WaitGraph,
    ) {
        if self.word.has(LockWord::LOCKED) {
            self.release(Owner::Description(description), graph);
            self.unflock(description, graph);
        }
        self.release_lease(description, None);
        leave_before_look(self.tally(slot), mode, full_fence);
    }

    fn tally(self, slot: Option<&'a SlotTally>) -> &'a OpenTally {
        slot.map_or(&self.state.tally, |slot| slot)
    }

    /// Adds the tally of a per-CPU slot to the tallies of the file, so that opens of the file can
    /// be counted in it.
    pub fn add_slot(self, tally: &Arc<SlotTally>) {
        let mut slots = self.context().slots.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(tally));
    }

    /// Returns the number of opens of the file, for reading and for writing.
    #[must_use]
    pub fn opens(self) -> Opens {
        let mut opens = self.state.tally.opens();
        if let Some(context) = self.state.context.value() {
            for tally in context.slots.lock().iter().filter_map(Weak::upgrade) {
                let part = tally.opens();
                opens.reads += part.reads;
                opens.writes += part.writes;
            }
        }
        opens
    }

    /// Locks the table of leases. Returns `None` if no lease was ever announced for the file.
    fn leased(self) -> Option<MutexGuard<'a, Leases>> {
        if !self.word.has(LockWord::LEASED) {
            return None;
        }
        self.state.context.value().map(|context| context.leases.lock())
    }

    /// Grants a lease, or changes the mode of the lease that the holder has.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if an open or another lease conflicts: see [`LeaseTable::set`].
    pub fn set_lease(self, request: LeaseRequest) -> Result<(), LockError> {
        let mut leases = self.context().leases.lock();
        let opens = announce_then_sum(self.word, full_fence, || self.opens());
        let set = leases.table.set(request, opens);
        leases.changed(self.word);
        set
    }

    /// Returns the mode of the holder's lease of this kind, or `None` if the holder has none. While
    /// the lease is being broken, returns the mode after the break.
    #[must_use]
    pub fn lease(self, holder: u64, kind: LeaseKind) -> Option<LeaseMode> {
        self.leased()?.table.mode(holder, kind)
    }

    /// Releases the leases of a holder: those of `kind`, or of all kinds if `kind` is `None`.
    pub fn release_lease(self, holder: u64, kind: Option<LeaseKind>) {
        let Some(mut leases) = self.leased() else { return };
        if leases.table.release(holder, kind) {
            leases.changed(self.word);
        }
    }

    /// Returns whether a lease conflicts with an operation, without notifying its holder. A caller
    /// uses this if it must release locks of its own before it [breaks](Self::break_leases) the
    /// lease.
    #[must_use]
    pub fn is_leased_against(self, breaker: Breaker) -> bool {
        self.leased().is_some_and(|leases| leases.table.stands_against(breaker))
    }

    /// Breaks the leases that conflict with an operation. Waits until their holders have released
    /// them, or until `grace` has passed.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn break_leases(
        self,
        breaker: Breaker,
        wait: Wait<'_>,
        grace: Duration,
    ) -> Result<(), LockError> {
        loop {
            let Some(mut leases) = self.leased() else { return Ok(()) };
            let Break { until, notices } = leases.table.break_for(breaker, Instant::now(), grace);
            if until.is_none() {
                // Some leases may have expired.
                leases.changed(self.word);
                return Ok(());
            }
            if let Wait::For(waiter) = wait {
                waiter.reset();
                leases.waiting.push(Arc::clone(waiter));
            }
            drop(leases);
            notices.into_iter().for_each(|(notify, left)| notify(left));
            let Wait::For(waiter) = wait else { return Err(LockError::WouldBlock) };
            let slept = waiter.sleep(until);
            if let Some(mut leases) = self.leased() {
                leases.waiting.retain(|other| !Arc::ptr_eq(other, waiter));
            }
            slept?;
        }
    }
}

#[cfg(test)]
mod tests;
