//! Tests that record locks are linearizable. There must be an order of the calls that explains all
//! results, in which each call takes effect between its start and its end.
//!
//! Threads try locks on one file, each as a process of its own, and record with one clock when each
//! call began and ended. A search (the algorithm of Wing and Gong) then looks for an order of the
//! calls in which a table of the lock on each byte gives the same results.

use std::collections::HashSet;

use xfs_sync::{AtomicU64, Object, Ordering};
use xfs_testkit::Prng;

use crate::{
    FileLocks, HeldLock, LockError, LockMode, LockRange, LockState, LockWord, Owner, Wait,
    WaitGraph,
};

const THREADS: u64 = 3;
const CALLS: usize = 6;
const BYTES: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct Call {
    thread: u64,
    /// The mode of the lock. `None` for a call that unlocks.
    mode: Option<LockMode>,
    range: LockRange,
    succeeded: bool,
    began: u64,
    ended: u64,
}

/// The table with which the search replays the calls: the lock of each thread on each byte, as 0
/// for none, 1 for shared, 2 for exclusive.
type Table = [[u8; BYTES as usize]; THREADS as usize];

/// Applies a call to `table`, the locks before the call. Returns the locks after the call, or
/// `None` if the call cannot have its recorded result with these locks.
fn apply(table: &Table, call: &Call) -> Option<Table> {
    let bytes = call.range.start() as usize..=call.range.last() as usize;
    let level = match call.mode {
        None => 0,
        Some(LockMode::Shared) => 1,
        Some(LockMode::Exclusive) => 2,
    };
    let mine = call.thread as usize;
    let in_the_way = level > 0
        && table.iter().enumerate().any(|(other, locked)| {
            other != mine && locked[bytes.clone()].iter().any(|held| *held > 0 && held + level > 2)
        });
    if call.succeeded == in_the_way {
        return None;
    }
    let mut next = *table;
    if call.succeeded {
        next[mine][bytes].fill(level);
    }
    Some(next)
}

/// Returns whether some order of the calls explains their results.
fn is_linearizable(calls: &[Call]) -> bool {
    let mut seen = HashSet::new();
    let mut pending = vec![(0u64, Table::default())];
    while let Some((done, table)) = pending.pop() {
        if done.count_ones() as usize == calls.len() {
            return true;
        }
        if !seen.insert((done, table)) {
            continue;
        }
        let open = || calls.iter().enumerate().filter(|(index, _)| done & 1 << index == 0);
        // The next call must have begun before any of the remaining calls ended.
        let first_end = open().map(|(_, call)| call.ended).min().unwrap_or(u64::MAX);
        for (index, call) in open().filter(|(_, call)| call.began < first_end) {
            pending.extend(apply(&table, call).map(|next| (done | 1 << index, next)));
        }
    }
    false
}

fn run(seed: u64, word: &LockWord, state: &LockState) -> Vec<Call> {
    let (clock, graph) = (AtomicU64::<Object>::new(0), WaitGraph::new());
    let locks = FileLocks { word, state };
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let start = |thread: u64| {
            let (graph, tick) = (&graph, &tick);
            scope.spawn(move || {
                let mut random = Prng::new(seed * THREADS + thread);
                let call = |_| {
                    let start = random.number() % BYTES;
                    let range =
                        LockRange::new(start, 1 + random.number() % (BYTES - start)).unwrap();
                    let owner = Owner::Process(thread);
                    let modes = [None, Some(LockMode::Shared), Some(LockMode::Exclusive)];
                    let mode = modes[random.within(0..3)];
                    let began = tick();
                    let answer = match mode {
                        Some(mode) => locks.lock(HeldLock { owner, range, mode }, Wait::No, graph),
                        None => {
                            locks.unlock(owner, range, graph);
                            Ok(())
                        }
                    };
                    let ended = tick();
                    assert!(matches!(answer, Ok(()) | Err(LockError::WouldBlock)));
                    Call { thread, mode, range, succeeded: answer.is_ok(), began, ended }
                };
                (0..CALLS).map(call).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn results_of_concurrent_locks_are_linearizable() {
    let rounds = if std::env::var_os("FERROXFS_LONG").is_some() { 50_000 } else { 1000 };
    let mut refused = 0;
    for seed in 0..rounds {
        let calls = run(seed, &LockWord::new(), &LockState::new());
        refused += calls.iter().filter(|call| !call.succeeded).count();
        assert!(is_linearizable(&calls), "seed {seed}: {calls:#?}");
    }
    assert!(refused > 0, "some calls conflict");
}

/// Changes the result of one call in a list of calls that some order explains. Checks that the
/// search then finds no order that explains all results.
#[test]
fn flipped_result_is_not_linearizable() {
    let (word, state) = (LockWord::new(), LockState::new());
    let mut calls = run(1, &word, &state);
    assert!(is_linearizable(&calls));
    let last = calls.iter_mut().rfind(|call| call.mode.is_none());
    last.expect("some call unlocks").succeeded = false;
    assert!(!is_linearizable(&calls));
}
