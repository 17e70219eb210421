//! Model tests: they run the real code under many schedules of its threads.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p xfs-log --target-dir target/model model::`, as
//! `cargo xtask test` does.
//!
//! Each mutant (deliberate bug) must be found.

mod in_place;
mod wait_queue;
mod wrap;

use std::sync::Arc;

use shuttle::thread;
use xfs_buffer::Error;
use xfs_device::{MemoryDevice, SharedDevice};
use xfs_sync::schedules::{check_found, explore};

use super::history::{History, check};
use super::rig::{Rig, UNIT_BYTES, commit_number};
use crate::health::Health;
use crate::item::LogItem;
use crate::log::{Log, Shutdown};
use crate::mutant::{ActiveMutant, Mutant};
use crate::space::{LogSpace, Urgency};
use crate::testing::decode;
use crate::testing::item::TestItem;

fn open(mutant: ActiveMutant) -> (Rig, Log) {
    let rig = Rig::new(512);
    let log = rig.open_with(&rig.config(), mutant);
    (rig, log)
}

/// Runs each function in `threads` in a thread of its own, and waits until all threads have ended.
fn run(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for handle in handles {
        handle.join().unwrap();
    }
}

/// Writes all checkpoints up to `sequence` at once, as the pushing threads of the log do. A force
/// is different: it lets the last of these checkpoints take more commits while an earlier one is
/// written.
fn push(log: &Log, sequence: u64) -> xfs_buffer::Result<()> {
    log.inner.push(sequence)?;
    log.force(sequence)
}

/// Runs three kinds of work at the same time: commits that relog a shared item, commits that log
/// the number of the shared item in another item, and pushes. Checks the order of the transactions
/// in the log, and that no item stays pinned.
fn commit_push_relog(mutant: ActiveMutant) {
    let (rig, log) = open(mutant);
    let (log, history) = (Arc::new(log), Arc::new(History::new(1)));
    let shared = || (Arc::clone(&log), Arc::clone(&history));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for force in [Log::force, push] {
        let (log, history) = shared();
        threads.push(Box::new(move || {
            for _ in 0..2 {
                let committed = history.advance(&log).unwrap();
                force(&log, committed.sequence).unwrap();
            }
        }));
    }
    let (looking_log, looking) = shared();
    threads.push(Box::new(move || {
        for _ in 0..3 {
            looking.look(&looking_log, 0).unwrap();
        }
    }));
    run(threads);
    log.force_all().unwrap();
    check(&rig.transactions()).unwrap();
    assert!(history.is_unpinned());
}

#[test]
fn update_after_switch_is_found() {
    check_found("refers to its member", || {
        commit_push_relog(ActiveMutant::with(Mutant::UpdateAfterSwitch));
    });
}

/// Several threads, one after another, commit the same item, and so through several slots, while
/// checkpoints are switched. Checks the order of the transactions in the log, and that no item
/// stays pinned.
fn share_through_switches(mutant: ActiveMutant) {
    let (rig, log) = open(mutant);
    let (log, history) = (Arc::new(log), Arc::new(History::new(0)));
    let (pushing, committing, advancing) = (Arc::clone(&log), Arc::clone(&log), history.clone());
    let push = move || {
        for _ in 0..2 {
            pushing.inner.push(u64::MAX).unwrap();
        }
    };
    let commit = move || {
        for _ in 0..5 {
            let (log, history) = (Arc::clone(&committing), Arc::clone(&advancing));
            run(vec![Box::new(move || {
                let _ = history.advance(&log).unwrap();
            })]);
        }
    };
    run(vec![Box::new(push), Box::new(commit)]);
    log.force_all().unwrap();
    check(&rig.transactions()).unwrap();
    assert!(history.is_unpinned());
}

/// Runs commits and pushes, with a shutdown among them. Checks that the log then has every forced
/// commit, and that no item stays pinned.
fn commit_push_abort() {
    let (rig, log) = open(ActiveMutant::default());
    let (log, history) = (Arc::new(log), Arc::new(History::new(1)));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for force in [Log::force, push] {
        let (log, history, rig) = (Arc::clone(&log), Arc::clone(&history), rig.clone());
        threads.push(Box::new(move || {
            for _ in 0..2 {
                let forced = history.advance(&log).and_then(|committed| {
                    force(&log, committed.sequence).map(|()| committed.sequence)
                });
                match forced {
                    Ok(sequence) => {
                        let found = rig.transactions();
                        let last = found.last().map_or(0, |last| u64::from(last.number));
                        assert!(last >= sequence, "{sequence} was forced, {last} is in the log");
                    }
                    Err(error) => assert!(matches!(error, Error::Shutdown), "{error}"),
                }
            }
        }));
    }
    let stopping = Arc::clone(&log);
    threads.push(Box::new(move || drop(stopping.shut_down(Shutdown::Now))));
    run(threads);
    assert!(history.is_unpinned());
    assert!(log.ail().is_empty());
    check(&rig.transactions()).unwrap();
}

/// Checks I3 in docs/internals/log.md: a commit numbers and inserts all its items in one step, so
/// the log keeps the order of the commits.
#[test]
fn commits_pushes_and_relogs_keep_the_order() {
    explore(|| commit_push_relog(ActiveMutant::default()));
}

#[test]
fn commits_and_pushes_with_a_shutdown_keep_forced_commits() {
    explore(commit_push_abort);
}

/// Checks I2 in docs/internals/log.md: after the switch to the next checkpoint, the log vectors of
/// a checkpoint belong to that checkpoint alone.
#[test]
fn commits_through_several_slots_during_switches_keep_the_order() {
    explore(|| share_through_switches(ActiveMutant::default()));
}

#[test]
fn shared_vector_kept_is_found() {
    let symptom = "the shared item has";
    check_found(symptom, || share_through_switches(ActiveMutant::with(Mutant::SharedVectorKept)));
}

#[test]
fn slots_one_by_one_is_found() {
    check_found("a thread has seen", || {
        commit_push_relog(ActiveMutant::with(Mutant::SlotsOneByOne))
    });
}

#[test]
fn start_out_of_order_is_found() {
    check_found("comes after", || commit_push_relog(ActiveMutant::with(Mutant::StartOutOfOrder)));
}

/// Three threads each commit an item, write the checkpoint, and write items of the AIL to disk. The
/// records of up to three checkpoints alternate, so one checkpoint's COMMIT can be in a later
/// record than the next one's START. Checks that no record names a tail after the START of an
/// incomplete checkpoint.
fn commit_push_in_place(mutant: ActiveMutant) {
    let (rig, log) = open(mutant);
    let log = Arc::new(log);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for thread in 1..=3 {
        let log = Arc::clone(&log);
        threads.push(Box::new(move || {
            let item = TestItem::new(8 * thread);
            for number in 1..=2 {
                let committed = commit_number(&log, &item, number).unwrap();
                push(&log, committed.sequence).unwrap();
                log.ail().push(log.ail().head());
            }
        }));
    }
    run(threads);
    rig.transactions();
}

#[test]
fn tail_stays_at_start_while_items_are_written_in_place() {
    explore(|| commit_push_in_place(ActiveMutant::default()));
}

#[test]
fn tail_past_start_is_found() {
    check_found("has passed START", || {
        commit_push_in_place(ActiveMutant::with(Mutant::TailPastStart));
    });
}

/// The length in bytes of an item that is longer than a record.
const LONG_BYTES: usize = 36 << 10;

/// Sets the number of an item of [`LONG_BYTES`] bytes and commits the item. Returns the sequence
/// number of its checkpoint.
fn commit_long(log: &Log, item: &Arc<TestItem>, number: u64) -> u64 {
    let mut ticket = log.reserve(LONG_BYTES as u64 + UNIT_BYTES, 1).unwrap();
    let lock = item.lock();
    item.set(0, number);
    let committed = log.commit(&mut ticket, &[Arc::clone(item) as Arc<dyn LogItem>]).unwrap();
    drop(lock);
    log.release(ticket);
    committed.sequence
}

/// Two threads each write a checkpoint that is longer than a record. One thread may still be
/// filling a record when the other thread has already closed a later record. Checks that a forced
/// commit is in the log even if the other checkpoint is not completely written.
fn fill_at_once(mutant: ActiveMutant) {
    let (rig, log) = open(mutant);
    let log = Arc::new(log);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for thread in 1..=2 {
        let (log, rig) = (Arc::clone(&log), rig.clone());
        threads.push(Box::new(move || {
            let item = TestItem::with_length(128 * thread, LONG_BYTES);
            push(&log, commit_long(&log, &item, thread)).unwrap();
            let found = decode::transactions(&rig.snapshot().log_device());
            let numbers: Vec<_> = found.iter().flat_map(|found| found.numbers()).collect();
            let is_there = numbers.contains(&(128 * thread, thread));
            assert!(is_there, "a forced commit is not in the log");
        }));
    }
    run(threads);
    assert_eq!(rig.transactions().iter().map(|found| found.numbers().len()).sum::<usize>(), 2);
}

#[test]
fn checkpoints_filling_records_at_once_are_durable_when_forced() {
    explore(|| fill_at_once(ActiveMutant::default()));
}

#[test]
fn commit_before_records_is_found() {
    check_found("is not in the log", || {
        fill_at_once(ActiveMutant::with(Mutant::CommitBeforeRecords))
    });
}

#[test]
fn pieces_apart_is_found() {
    check_found("the rest of a region", || fill_at_once(ActiveMutant::with(Mutant::PiecesApart)));
}

/// Requests log space from several threads, some of which must wait, while head and tail move.
/// Checks that used and granted bytes together never exceed the log. `slots` slots cache log space
/// if `largest_bytes`, the largest request, is small enough.
fn grant(mutant: ActiveMutant, slots: usize, largest_bytes: u64) {
    const SIZE: u64 = 400;
    let space = Arc::new(LogSpace::new(SIZE, slots, largest_bytes, mutant));
    let health = Arc::new(Health::default());
    let check = |space: &LogSpace| {
        let now = space.in_use();
        assert!(now.used + now.granted <= SIZE, "{now:?}");
    };
    // The grant of a checkpoint that is written below.
    space.take(150, Urgency::Begin, &health, &|| {}).unwrap();
    space.drain();
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for urgency in [Urgency::Begin, Urgency::Begin, Urgency::Roll] {
        let (space, health) = (Arc::clone(&space), Arc::clone(&health));
        threads.push(Box::new(move || {
            for bytes in [90, 40] {
                space.take(bytes, urgency, &health, &|| {}).unwrap();
                check(&space);
                space.give_back(bytes);
            }
        }));
    }
    let writer = Arc::clone(&space);
    threads.push(Box::new(move || {
        writer.move_head(150, 150);
        check(&writer);
        writer.set_used(60);
    }));
    run(threads);
    space.drain();
    let now = space.in_use();
    assert_eq!((now.used, now.granted), (60, 0));
    assert!(!space.is_contended());
}

#[test]
fn requests_never_exceed_the_log() {
    explore(|| grant(ActiveMutant::default(), 2, u64::MAX));
}

#[test]
fn requests_with_caches_never_exceed_the_log() {
    explore(|| grant(ActiveMutant::default(), 2, 1));
}

#[test]
fn grant_before_head_is_found() {
    check_found("SpaceUse", || grant(ActiveMutant::with(Mutant::GrantBeforeHead), 2, u64::MAX));
}

/// Performs a chain of transactions. The chain has an open intent all the time. The chain logs the
/// intent again when `Log::relog_before` requires it.
fn chain(log: &Log, number: u64, device: &SharedDevice) {
    /// The length in bytes of the item that each transaction logs: a sixteenth of the log.
    const STEP_BYTES: usize = 16 << 10;
    let item = TestItem::large_in_place(64 * number, STEP_BYTES, Arc::clone(device));
    let mut intents = 1000 * number..;
    let mut ticket = log.reserve(STEP_BYTES as u64 + UNIT_BYTES, 1).unwrap();
    let mut open = TestItem::open(intents.next().unwrap());
    let mut items = vec![Arc::clone(&open) as Arc<dyn LogItem>];
    for _ in 0..6 {
        items.push(Arc::clone(&item) as _);
        let before = log.relog_before(&mut ticket);
        if before.zip(open.lsn()).is_some_and(|(before, lsn)| lsn <= before) {
            let old = std::mem::replace(&mut open, TestItem::open(intents.next().unwrap()));
            items.push(TestItem::finishing(500 + number, &old));
            items.push(Arc::clone(&open) as _);
        }
        let lock = item.lock();
        let committed = log.commit(&mut ticket, &items).unwrap();
        drop(lock);
        items.clear();
        log.settle(committed).unwrap();
        log.force(committed.sequence).unwrap();
        log.roll(&mut ticket).unwrap();
    }
    let done: Arc<dyn LogItem> = TestItem::finishing(500 + number, &open);
    let committed = log.commit(&mut ticket, &[done]).unwrap();
    log.settle(committed).unwrap();
    log.release(ticket);
}

/// Runs several chains, each with more transactions than it reserved space for, which together need
/// more than the whole log. Checks that all chains end, and that no space stays granted.
fn roll(mutant: ActiveMutant) {
    let (_, log) = open(mutant);
    let log = Arc::new(log);
    let device: SharedDevice = Arc::new(MemoryDevice::new(1 << 20));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for number in 1..=3 {
        let (log, device) = (Arc::clone(&log), Arc::clone(&device));
        threads.push(Box::new(move || chain(&log, number, &device)));
    }
    run(threads);
    log.quiesce().unwrap();
    log.drain_caches();
    assert_eq!(log.space().granted, 0, "{:?}", log.space());
}

#[test]
fn chains_that_use_up_the_log_all_end() {
    explore(|| roll(ActiveMutant::default()));
}

#[test]
fn relog_by_guess_is_found() {
    check_found("deadlock", || roll(ActiveMutant::with(Mutant::RelogByGuess)));
}
