//! Tests that run the real code under many schedules of its threads.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use xfs_sync::schedules::explore;

use crate::{
    FileLocks, HeldLock, LeaseKind, LeaseMode, LeaseRequest, LockError, LockMode, LockRange,
    LockState, LockWord, OpenMode, Owner, SlotTally, Wait, WaitGraph, Waiter,
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
}

fn byte(process: u64, at: u64) -> HeldLock {
    let range = LockRange::new(at, 1).unwrap();
    HeldLock { owner: Owner::Process(process), range, mode: LockMode::Exclusive }
}

/// Checks that every waiter is woken. A lost wakeup would leave a task asleep, which the scheduler
/// of the test reports as a deadlock.
#[test]
fn every_waiter_is_woken() {
    explore(|| {
        let file = Arc::new(File::default());
        let start = |process| {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let waiter = Waiter::new();
                file.locks().lock(byte(process, 0), Wait::For(&waiter), &file.graph).unwrap();
                file.locks().release(Owner::Process(process), &file.graph);
            })
        };
        let tasks: Vec<_> = (0..3).map(start).collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(file.graph.waits(), 0);
    });
}

/// Two processes lock two bytes in opposite order. Checks that at most one of them gets
/// `LockError::Deadlock`, and that they never both sleep.
#[test]
fn deadlock_is_reported_to_one_process_at_most() {
    explore(|| {
        let file = Arc::new(File::default());
        let start = |process: u64| {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let (waiter, graph) = (Waiter::new(), &file.graph);
                let first = file.locks().lock(byte(process, process), Wait::For(&waiter), graph);
                assert_eq!(first, Ok(()));
                let second =
                    file.locks().lock(byte(process, 1 - process), Wait::For(&waiter), graph);
                file.locks().release(Owner::Process(process), graph);
                second
            })
        };
        let tasks: Vec<_> = (0..2).map(start).collect();
        let ends: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        assert!(ends.iter().filter(|end| end.is_err()).count() <= 1, "{ends:?}");
        assert!(ends.iter().all(|end| matches!(end, Ok(()) | Err(LockError::Deadlock))));
        assert_eq!(file.graph.waits(), 0);
    });
}

/// Cancels a wait while another thread wakes it. Checks that the cancelled wait neither keeps the
/// lock nor stays in the list of waiters.
#[test]
fn cancelled_wait_ends_without_a_trace() {
    explore(|| {
        let (file, waiter) = (Arc::new(File::default()), Waiter::new());
        file.locks().lock(byte(0, 0), Wait::No, &file.graph).unwrap();
        let waiting = {
            let (file, waiter) = (Arc::clone(&file), Arc::clone(&waiter));
            thread::spawn(move || file.locks().lock(byte(1, 0), Wait::For(&waiter), &file.graph))
        };
        let other = Arc::clone(&waiter);
        let cancelling = thread::spawn(move || other.cancel());
        file.locks().release(Owner::Process(0), &file.graph);
        cancelling.join().unwrap();
        let ended = waiting.join().unwrap();
        let is_held = file.locks().conflict(byte(2, 0)).is_some();
        assert_eq!(is_held, ended.is_ok());
        assert_eq!(file.graph.waits(), 0);
    });
}

/// Checks that a write lease is never granted while the file is open. Two threads open the file for
/// reading with `open`, each through a per-CPU slot, while a third requests the lease.
fn opens_against_a_lease(open: fn(&File, &SlotTally) -> Result<(), LockError>) {
    explore(move || {
        let file = Arc::new(File::default());
        let slots: Vec<_> = (0..2).map(|_| Arc::<SlotTally>::default()).collect();
        slots.iter().for_each(|slot| file.locks().add_slot(slot));
        file.locks().open(None, OpenMode::Read, Wait::No, GRACE).unwrap();
        let start = |slot: &Arc<SlotTally>| {
            let (file, slot) = (Arc::clone(&file), Arc::clone(slot));
            thread::spawn(move || open(&file, &slot).is_ok())
        };
        let opening: Vec<_> = slots.iter().map(start).collect();
        let request = LeaseRequest {
            holder: 1,
            own: OpenMode::Read,
            kind: LeaseKind::Lease,
            mode: LeaseMode::Write,
            notify: Arc::new(|_| ()),
        };
        let leased = file.locks().set_lease(request).is_ok();
        let opened = opening.into_iter().map(|task| task.join().unwrap());
        let opened = opened.collect::<Vec<_>>();
        assert!(!(leased && opened.contains(&true)), "a lease for writing beside an open");
    });
}

#[test]
fn open_and_lease_see_each_other() {
    opens_against_a_lease(|file, slot| {
        file.locks().open(Some(slot), OpenMode::Read, Wait::No, GRACE)
    });
}

/// Checks that `opens_against_a_lease` fails for an open without its fence. A processor could
/// reorder such an open, so that it checks for leases before it is counted.
#[test]
#[should_panic(expected = "a lease for writing beside an open")]
fn open_that_checks_before_it_counts_is_detected() {
    opens_against_a_lease(|file, slot| {
        if file.word.has(LockWord::LEASED) {
            return Err(LockError::WouldBlock);
        }
        file.locks().open(Some(slot), OpenMode::Read, Wait::No, GRACE).or(Ok(()))
    });
}

/// Checks that after all closes no lock and no open is left, in whatever order the threads run.
#[test]
fn closes_release_all_locks_and_opens() {
    explore(|| {
        let file = Arc::new(File::default());
        let start = |description: u64| {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let locks = file.locks();
                locks.open(None, OpenMode::Read, Wait::No, GRACE).unwrap();
                let waiter = Waiter::new();
                let mode = LockMode::Exclusive;
                locks.flock(description, mode, Wait::For(&waiter), &file.graph).unwrap();
                locks.close(None, OpenMode::Read, description, &file.graph);
            })
        };
        let tasks: Vec<_> = (1..4).map(start).collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(file.locks().opens(), crate::Opens::default());
        assert_eq!(file.locks().flock(9, LockMode::Exclusive, Wait::No, &file.graph), Ok(()));
    });
}
