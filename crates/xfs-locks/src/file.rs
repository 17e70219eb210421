//! The locks, leases and opens of one file, for many threads.
//!
//! # Invariants
//!
//! - **I1** The context is there before a bit of the word says that there is something in it, so who
//!   sees none of the bits need not look at the context, and does not.
//! - **I2** A waiter is in the list of its file until somebody takes it out to wake it, or it takes
//!   itself out. Both under the lock of the list.
//! - **I3** Whenever that lock is free, the wait graph holds for each process that waits in the list
//!   just the processes that are in its way.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use xfs_sync::{AtomicU32, CachePadded, Mutex, MutexGuard, Object, Ordering, SetOnce};

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

/// As often as that a file is opened by another thread than before until it is counted by slot.
const SHARD_AFTER: u32 = 16;
/// The slot in [`LockState::opener`]; the rest of it counts.
const SLOT_BITS: u32 = 0xff;

/// The opens of a file that go through one slot.
pub type SlotTally = CachePadded<OpenTally>;

/// What to do where somebody else is in the way.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// Fail with [`LockError::WouldBlock`].
    No,
    /// Wait, until the waiter is cancelled or its time is over.
    For(&'a Arc<Waiter>),
}

/// What changes when a file is locked. What is read by everybody is in its [`LockWord`].
#[derive(Debug, Default)]
pub struct LockState {
    /// Opens that go through no slot.
    tally: OpenTally,
    /// Which thread opened it last, and how often that was another one than before.
    opener: AtomicU32<Object>,
    context: SetOnce<Box<LockContext>, Object>,
}

impl LockState {
    /// A file without locks, leases or opens. No memory is allocated for it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What only files have that somebody locks, leases, or opens from many threads.
#[derive(Debug, Default)]
struct LockContext {
    records: Mutex<LockSpace, Object>,
    /// `flock`: the same with one range, the whole file.
    whole: Mutex<LockSpace, Object>,
    leases: Mutex<Leases, Object>,
    slots: Mutex<Vec<Weak<SlotTally>>, Object>,
}

/// Locks of one sort, and who waits for them.
#[derive(Debug, Default)]
struct LockSpace {
    locks: RecordLocks,
    /// Whether somebody keeps the file in memory because processes hold some.
    is_kept: bool,
    waiting: Vec<(Arc<Waiter>, HeldLock)>,
}

#[derive(Debug, Default)]
struct Leases {
    table: LeaseTable,
    /// Who waits for a lease to be given back.
    waiting: Vec<Arc<Waiter>>,
}

impl Leases {
    /// Tells all who wait to look again.
    fn changed(&mut self, word: &LockWord) {
        if self.table.is_empty() {
            word.clear(LockWord::LEASED);
        }
        self.waiting.drain(..).for_each(|waiter| waiter.wake());
    }
}

impl LockSpace {
    /// Takes a lock that nothing is in the way of.
    fn lock(&mut self, wanted: HeldLock, graph: &WaitGraph) {
        let before = self.locks.held().len();
        self.locks.lock(wanted);
        graph.note_locks(before, self.locks.held().len());
        // A lock that is now shared lets others in; a new one is in the way of others.
        self.changed(graph);
    }

    /// Gives up what an owner holds in a range.
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

    /// The processes that are in the way of a lock.
    fn holders(&self, wanted: HeldLock) -> Vec<u64> {
        let process = |held: &HeldLock| match held.owner {
            Owner::Process(process) => Some(process),
            Owner::Description(_) => None,
        };
        self.locks.conflicts(wanted).filter_map(process).collect()
    }

    /// Wakes who can have what it waits for, and corrects what the graph says of the others (I3).
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

    /// Puts a waiter in the list, unless that would never end.
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

/// Takes a lock in one of the spaces of a file.
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

/// One file: its word, which everybody reads, and the rest, which hardly anybody touches. The two
/// belong together; they are apart so that they can lie on two cache lines.
#[derive(Clone, Copy, Debug)]
pub struct FileLocks<'a> {
    /// What the file has.
    pub word: &'a LockWord,
    /// Where it has it.
    pub state: &'a LockState,
}

impl<'a> FileLocks<'a> {
    fn context(self) -> &'a LockContext {
        self.state.context.value_or_init(Box::default)
    }

    /// The context, if the file has one. A part of the benchmark: to look here first is what the
    /// word is there to save.
    #[must_use]
    pub fn has_context(self) -> bool {
        self.state.context.value().is_some()
    }

    /// Locks a range, in place of what its owner holds there.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] without waiting; [`LockError::Deadlock`] if the processes in the way
    /// wait for the owner; how the wait ended.
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

    /// Gives up what an owner holds in a range.
    pub fn unlock(self, owner: Owner, range: LockRange, graph: &WaitGraph) {
        let Some(context) = self.locked() else { return };
        context.records.lock().unlock(owner, range, graph);
    }

    /// What is in the way of a lock, first in the file.
    #[must_use]
    pub fn conflict(self, wanted: HeldLock) -> Option<HeldLock> {
        self.locked()?.records.lock().locks.conflict(wanted)
    }

    /// Locks the whole file for an open file description, beside all record locks. One that it holds
    /// in the other mode is given up first, also where this one then fails: as flock(2) has it.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] without waiting; how the wait ended.
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

    /// Gives up what [`flock`](Self::flock) took.
    pub fn unflock(self, description: u64, graph: &WaitGraph) {
        let Some(context) = self.locked() else { return };
        let owner = Owner::Description(description);
        context.whole.lock().unlock(owner, LockRange::WHOLE, graph);
    }

    /// The context, if locks were ever taken.
    fn locked(self) -> Option<&'a LockContext> {
        if !self.word.has(LockWord::LOCKED) {
            return None;
        }
        self.state.context.value().map(|context| &**context)
    }

    /// Whether the file is to be kept in memory from now on, because a process holds a lock on it and nobody keeps
    /// it for that. Each `true` is answered by one of [`end_keeping`](Self::end_keeping) or
    /// [`release_processes`](Self::release_processes).
    #[must_use]
    pub fn begin_keeping(self) -> bool {
        let Some(context) = self.locked() else { return false };
        let mut space = context.records.lock();
        let begins = !space.is_kept && space.has_process();
        space.is_kept |= begins;
        begins
    }

    /// Whether it need not be kept for that any more.
    #[must_use]
    pub fn end_keeping(self) -> bool {
        let Some(context) = self.locked() else { return false };
        let mut space = context.records.lock();
        let ends = space.is_kept && !space.has_process();
        space.is_kept &= !ends;
        ends
    }

    /// Gives up the record locks of all processes, on a file to which nobody comes any more. Returns whether it
    /// was kept for them.
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

    /// Gives up all record locks of an owner, as the closing of a descriptor does.
    pub fn release(self, owner: Owner, graph: &WaitGraph) {
        self.unlock(owner, LockRange::WHOLE, graph);
    }
}

/// Opens and leases.
impl<'a> FileLocks<'a> {
    /// Counts an open, in the tally of a slot that was [added](Self::add_slot) or in the file's own,
    /// after it has broken the leases that do not go with it.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] without waiting for a lease, which is then being broken; how the wait
    /// ended. Then the open is not counted.
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

    /// Takes back an open, with the locks and leases of its description. After one for writing, the last who
    /// closes the file finds no other in [`opens`](Self::opens).
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

    /// Lets the opens of a slot be counted in a tally of its own.
    pub fn add_slot(self, tally: &Arc<SlotTally>) {
        let mut slots = self.context().slots.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(tally));
    }

    /// How often the file is open.
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

    /// The leases, if there may be any.
    fn leased(self) -> Option<MutexGuard<'a, Leases>> {
        if !self.word.has(LockWord::LEASED) {
            return None;
        }
        self.state.context.value().map(|context| context.leases.lock())
    }

    /// Gives a lease, or changes the one that the holder has.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`]: see [`LeaseTable::set`].
    pub fn set_lease(self, request: LeaseRequest) -> Result<(), LockError> {
        let mut leases = self.context().leases.lock();
        let opens = announce_then_sum(self.word, full_fence, || self.opens());
        let set = leases.table.set(request, opens);
        leases.changed(self.word);
        set
    }

    /// What the holder has of a kind; of a lease that is being broken, what will be left.
    #[must_use]
    pub fn lease(self, holder: u64, kind: LeaseKind) -> Option<LeaseMode> {
        self.leased()?.table.mode(holder, kind)
    }

    /// Gives back what the holder has, of one kind or of all.
    pub fn release_lease(self, holder: u64, kind: Option<LeaseKind>) {
        let Some(mut leases) = self.leased() else { return };
        if leases.table.release(holder, kind) {
            leases.changed(self.word);
        }
    }

    /// Whether a lease does not go with what somebody is about to do. Nobody is told: this is for who
    /// holds locks, and lets them go before it [breaks](Self::break_leases) the lease.
    #[must_use]
    pub fn is_leased_against(self, breaker: Breaker) -> bool {
        self.leased().is_some_and(|leases| leases.table.stands_against(breaker))
    }

    /// Breaks the leases that do not go with what somebody is about to do, and waits until their
    /// holders have given them back, or have had `grace` to do so.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
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
                // Some may have run out.
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

/// Whether users are counted by slot.
impl FileLocks<'_> {
    /// Notes that a thread, known by the number of its slot, opens a file whose users are not counted by
    /// slot. Once that has come often enough from another thread than the time before, they are.
    pub fn note_opener(self, slot: usize) {
        let slot = slot as u32 & SLOT_BITS;
        let before = self.state.opener.load(Ordering::Relaxed);
        if before & SLOT_BITS == slot {
            return;
        }
        // Two at once may count as one: it is no more than a sign.
        let changes = (before >> SLOT_BITS.count_ones()) + 1;
        self.state.opener.store(changes << SLOT_BITS.count_ones() | slot, Ordering::Relaxed);
        if changes >= SHARD_AFTER {
            self.word.set(LockWord::SHARDED);
        }
    }

    /// Whether they are, and the file is not on its way out.
    #[must_use]
    pub fn is_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED) && !self.word.has(LockWord::DRAINING)
    }

    /// Whether they ever were: who drains the file has to visit the slots.
    #[must_use]
    pub fn was_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED)
    }

    /// The file is on its way out: nobody is to be counted by slot from now on.
    pub fn drain(self) {
        self.word.set(LockWord::DRAINING);
    }
}

#[cfg(test)]
mod tests;
