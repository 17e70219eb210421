//! Tests of waiting and waking with threads of the operating system.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use xfs_sync::{AtomicU64, Object, Ordering};
use xfs_testkit::Prng;

use crate::opens::{announce_then_sum, count_then_look, full_fence};
use crate::{
    Breaker, FileLocks, HeldLock, LeaseKind, LeaseMode, LeaseRequest, LockError, LockMode,
    LockRange, LockState, LockWord, OpenMode, OpenTally, Opens, Owner, SlotTally, Wait, WaitGraph,
    Waiter,
};

const GRACE: Duration = Duration::from_secs(45);

#[derive(Default)]
struct File {
    word: LockWord,
    state: LockState,
    graph: WaitGraph,
}

impl File {
    fn locks(&self) -> FileLocks<'_> {
        FileLocks { word: &self.word, state: &self.state }
    }

    fn lock(&self, wanted: HeldLock, wait: Wait<'_>) -> Result<(), LockError> {
        self.locks().lock(wanted, wait, &self.graph)
    }

    fn lease(
        &self,
        holder: u64,
        mode: LeaseMode,
    ) -> Result<mpsc::Receiver<Option<LeaseMode>>, LockError> {
        let (tell, told) = mpsc::channel();
        let notify = Arc::new(move |left| tell.send(left).unwrap_or_default());
        let (own, kind) = (OpenMode::Read, LeaseKind::Lease);
        self.locks().set_lease(LeaseRequest { holder, own, kind, mode, notify }).map(|()| told)
    }
}

fn whole(process: u64, mode: LockMode) -> HeldLock {
    HeldLock { owner: Owner::Process(process), range: LockRange::WHOLE, mode }
}

fn byte(process: u64, at: u64) -> HeldLock {
    let range = LockRange::new(at, 1).unwrap();
    HeldLock { owner: Owner::Process(process), range, mode: LockMode::Exclusive }
}

#[test]
fn file_without_locks_has_no_context() {
    let file = File::default();
    file.locks().open(None, OpenMode::Read, Wait::No, GRACE).unwrap();
    file.locks().unlock(Owner::Process(1), LockRange::WHOLE, &file.graph);
    assert_eq!(file.locks().conflict(whole(1, LockMode::Exclusive)), None);
    file.locks().close(None, OpenMode::Read, 1, &file.graph);
    assert!(!file.locks().has_context(), "no bit is set, and nothing needs the context (I1)");
}

#[test]
fn waiter_gets_the_lock_when_it_is_released() {
    let file = File::default();
    file.lock(whole(1, LockMode::Exclusive), Wait::No).unwrap();
    assert_eq!(file.lock(whole(2, LockMode::Shared), Wait::No), Err(LockError::WouldBlock));
    let waiter = Waiter::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file.lock(whole(2, LockMode::Shared), Wait::For(&waiter)));
        while file.graph.waits() == 0 {
            std::thread::yield_now();
        }
        file.locks().release(Owner::Process(1), &file.graph);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert_eq!(file.graph.waits(), 0);
    let conflict = file.locks().conflict(whole(1, LockMode::Exclusive));
    assert_eq!(conflict, Some(whole(2, LockMode::Shared)));
}

#[test]
fn abandoned_wait_leaves_no_entry() {
    let file = File::default();
    file.lock(whole(1, LockMode::Exclusive), Wait::No).unwrap();
    let waiter = Waiter::with_timeout(Duration::from_millis(1));
    let ended = file.lock(whole(2, LockMode::Shared), Wait::For(&waiter));
    assert_eq!(ended, Err(LockError::TimedOut));
    let waiter = Waiter::new();
    waiter.cancel();
    let ended = file.lock(whole(2, LockMode::Shared), Wait::For(&waiter));
    assert_eq!(ended, Err(LockError::Interrupted));
    assert_eq!(file.graph.waits(), 0);
    let waiting = &file.state.context.value().unwrap().records.lock().waiting;
    assert!(waiting.is_empty(), "the waiter has removed itself (I2)");
}

#[test]
fn one_of_two_processes_in_a_cycle_is_refused() {
    let file = File::default();
    file.lock(byte(1, 0), Wait::No).unwrap();
    file.lock(byte(2, 1), Wait::No).unwrap();
    let (first, second) = (Waiter::new(), Waiter::new());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file.lock(byte(1, 1), Wait::For(&first)));
        while file.graph.waits() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(file.lock(byte(2, 0), Wait::For(&second)), Err(LockError::Deadlock));
        file.locks().release(Owner::Process(2), &file.graph);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

/// Process 1 waits for a lock of process 2, which then releases the lock and requests one that
/// process 1 holds. Checks that this is not taken for a deadlock.
#[test]
fn released_lock_removes_its_edge_from_the_graph() {
    let file = File::default();
    file.lock(byte(2, 0), Wait::No).unwrap();
    file.lock(byte(3, 1), Wait::No).unwrap();
    file.lock(byte(1, 5), Wait::No).unwrap();
    let both = HeldLock { range: LockRange::new(0, 2).unwrap(), ..byte(1, 0) };
    let (first, second) = (Waiter::new(), Waiter::new());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file.lock(both, Wait::For(&first)));
        while file.graph.waits() == 0 {
            std::thread::yield_now();
        }
        file.locks().unlock(Owner::Process(2), LockRange::WHOLE, &file.graph);
        let other = scope.spawn(|| file.lock(byte(2, 5), Wait::For(&second)));
        while file.graph.waits() == 1 && !other.is_finished() {
            std::thread::yield_now();
        }
        file.locks().release(Owner::Process(3), &file.graph);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        file.locks().release(Owner::Process(1), &file.graph);
        assert_eq!(other.join().unwrap(), Ok(()), "there was no cycle (I3)");
    });
}

/// Checks that a `flock` in another mode releases the old lock first, even if the new one fails:
/// see flock(2).
#[test]
fn flock_conversion_releases_the_old_lock_first() {
    let file = File::default();
    let flock = |who, mode| file.locks().flock(who, mode, Wait::No, &file.graph);
    assert_eq!(flock(1, LockMode::Shared), Ok(()));
    assert_eq!(flock(2, LockMode::Shared), Ok(()));
    assert_eq!(flock(1, LockMode::Exclusive), Err(LockError::WouldBlock));
    assert_eq!(flock(2, LockMode::Exclusive), Ok(()), "1 holds no lock any more");
    assert_eq!(flock(2, LockMode::Exclusive), Ok(()));
    file.lock(whole(9, LockMode::Exclusive), Wait::No).unwrap();
    file.locks().unflock(2, &file.graph);
    assert_eq!(flock(1, LockMode::Exclusive), Ok(()), "record locks do not conflict with flock");
}

#[test]
fn close_releases_the_locks_of_its_description() {
    let file = File::default();
    let locks = file.locks();
    locks.open(None, OpenMode::Read, Wait::No, GRACE).unwrap();
    let _told = file.lease(7, LeaseMode::Write).unwrap();
    locks.flock(7, LockMode::Exclusive, Wait::No, &file.graph).unwrap();
    let owner = Owner::Description(7);
    file.lock(HeldLock { owner, ..byte(0, 0) }, Wait::No).unwrap();
    locks.close(None, OpenMode::Read, 7, &file.graph);
    assert_eq!(locks.opens(), Opens::default());
    assert_eq!(file.lock(whole(1, LockMode::Exclusive), Wait::No), Ok(()));
    assert_eq!(locks.flock(8, LockMode::Exclusive, Wait::No, &file.graph), Ok(()));
    assert_eq!(locks.open(None, OpenMode::Write, Wait::No, GRACE), Ok(()));
}

#[test]
fn open_breaks_a_lease_and_waits_for_its_release() {
    let file = File::default();
    let locks = file.locks();
    locks.open(None, OpenMode::Read, Wait::No, GRACE).unwrap();
    let told = file.lease(1, LeaseMode::Write).unwrap();
    let refused = locks.open(None, OpenMode::Read, Wait::No, GRACE);
    assert_eq!(refused, Err(LockError::WouldBlock));
    assert_eq!(locks.opens(), Opens { reads: 1, writes: 0 }, "the refused open is not counted");
    assert_eq!(told.recv(), Ok(Some(LeaseMode::Read)), "the break has begun nevertheless");
    let waiter = Waiter::new();
    std::thread::scope(|scope| {
        let open = || locks.open(None, OpenMode::Write, Wait::For(&waiter), GRACE);
        let opening = scope.spawn(open);
        assert_eq!(told.recv(), Ok(None));
        locks.release_lease(1, Some(LeaseKind::Lease));
        assert_eq!(opening.join().unwrap(), Ok(()));
    });
    let _told = file.lease(1, LeaseMode::Read).unwrap_err();
    locks.close(None, OpenMode::Write, 2, &file.graph);
    let told = file.lease(1, LeaseMode::Read).unwrap();
    let soon = Duration::from_millis(1);
    assert_eq!(
        locks.open(None, OpenMode::Write, Wait::For(&waiter), soon),
        Ok(()),
        "the lease has expired"
    );
    assert_eq!(told.recv(), Ok(None));
    assert_eq!(locks.break_leases(Breaker::Change, Wait::No, GRACE), Ok(()));
}

#[test]
fn lease_counts_the_opens_of_all_slots() {
    let file = File::default();
    let slots: Vec<_> = (0..3).map(|_| Arc::<SlotTally>::default()).collect();
    slots.iter().for_each(|slot| file.locks().add_slot(slot));
    file.locks().open(Some(&slots[1]), OpenMode::Read, Wait::No, GRACE).unwrap();
    file.locks().open(Some(&slots[2]), OpenMode::Read, Wait::No, GRACE).unwrap();
    assert_eq!(file.lease(1, LeaseMode::Write).map(drop), Err(LockError::WouldBlock));
    file.locks().close(Some(&slots[2]), OpenMode::Read, 2, &file.graph);
    assert!(file.lease(1, LeaseMode::Write).is_ok());
}

#[test]
fn file_opened_by_many_threads_is_counted_per_slot() {
    let file = File::default();
    (0..100).for_each(|_| file.locks().note_opener(3));
    assert!(!file.locks().was_sharded(), "all opens came from one thread");
    (0..20).for_each(|turn| file.locks().note_opener(turn % 2));
    assert!(file.locks().is_sharded());
    file.locks().drain();
    assert!(!file.locks().is_sharded());
    assert!(file.locks().was_sharded());
}

/// Many threads lock random ranges. Checks that two of them never hold the same byte exclusively.
#[test]
fn exclusive_locks_exclude_other_threads() {
    const BYTES: usize = 8;
    const ROUNDS: usize = 400;
    let file = File::default();
    let bytes: [AtomicU64<Object>; BYTES] = Default::default();
    std::thread::scope(|scope| {
        for process in 1..=4 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let (mut random, waiter) = (Prng::new(process), Waiter::new());
                for _ in 0..ROUNDS {
                    let start = random.number() % (BYTES as u64);
                    let range = LockRange::new(start, 1 + random.number() % (BYTES as u64 - start));
                    let range = range.unwrap();
                    let owner = Owner::Process(process);
                    let wanted = HeldLock { owner, range, mode: LockMode::Exclusive };
                    file.lock(wanted, Wait::For(&waiter)).unwrap();
                    let mine = &bytes[range.start() as usize..=range.last() as usize];
                    mine.iter().for_each(|byte| assert_eq!(byte.swap(1, Ordering::Relaxed), 0));
                    std::thread::yield_now();
                    mine.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
                    file.locks().unlock(owner, range, &file.graph);
                }
            });
        }
    });
    assert_eq!(file.graph.waits(), 0);
    assert!(file.state.context.value().unwrap().records.lock().locks.held().is_empty());
}

#[test]
fn opens_are_counted_by_mode() {
    let (tally, word) = (OpenTally::new(), LockWord::new());
    assert!(!count_then_look(&tally, &word, OpenMode::Read, full_fence));
    assert!(!count_then_look(&tally, &word, OpenMode::Write, full_fence));
    assert_eq!(tally.opens(), Opens { reads: 1, writes: 1 });
    assert_eq!(announce_then_sum(&word, full_fence, || tally.opens().reads), 1);
    assert!(count_then_look(&tally, &word, OpenMode::Read, full_fence), "the lease is announced");
    tally.leave(OpenMode::Write);
    tally.leave(OpenMode::Read);
    assert_eq!(tally.opens(), Opens { reads: 1, writes: 0 });
    word.clear(LockWord::LEASED);
    assert!(!word.has(LockWord::LEASED));
}
