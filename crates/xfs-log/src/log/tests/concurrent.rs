//! Tests of a log that several threads of the operating system use at the same time.

use std::sync::Arc;

use xfs_device::MemoryDevice;
use xfs_testkit::Prng;

use super::history::{History, check};
use super::rig::{Rig, check_settled};
use crate::item::LogItem;
use crate::log::{Log, LogConfig};
use crate::testing::item::TestItem;

const THREADS: usize = 4;

/// Checks I3 in docs/internals/log.md with threads of the operating system: the log keeps the order
/// of the commits.
#[test]
fn log_keeps_the_order_that_threads_observed() {
    for slots in [1, 8] {
        let rig = Rig::new(4096);
        let config = LogConfig { threads: 2, slots, ..rig.config() };
        let log = rig.open(&config);
        let history = History::new(THREADS as u64);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (log, history, rig) = (&log, &history, &rig);
                scope.spawn(move || {
                    for round in 0..400 {
                        let advances = (round + thread) % 2 == 0;
                        let committed =
                            if advances { history.advance(log) } else { history.look(log, thread) };
                        let committed = committed.unwrap();
                        if round % 16 == thread {
                            log.force(committed.sequence).unwrap();
                        }
                    }
                    let _ = rig;
                });
            }
        });
        log.force_all().unwrap();
        check(&rig.transactions()).unwrap();
        check_settled(&log);
    }
}

/// Runs a chain that reserves as much as this log allows: a third of the log, for two transactions.
/// Each transaction changes and commits one of `items`.
fn large_transaction(log: &Log, items: &[Arc<TestItem>], prng: &mut Prng) {
    let first = prng.within(0..items.len());
    let mut ticket = log.reserve(150 << 10, 2).unwrap();
    for step in 0..3 {
        let item = &items[(first + step) % items.len()];
        let lock = item.lock();
        item.set(0, prng.number() >> 1);
        let committed = log.commit(&mut ticket, &[Arc::clone(item) as Arc<dyn LogItem>]).unwrap();
        drop(lock);
        log.settle(committed).unwrap();
        if prng.within(0..16) == 0 {
            log.force(committed.sequence).unwrap();
        }
        log.roll(&mut ticket).unwrap();
    }
    log.release(ticket);
}

#[test]
fn smallest_log_wraps_twenty_times() {
    // Three times the largest reservation, which mkfs guarantees.
    let rig = Rig::new(3 * 310 * 2);
    let config = LogConfig { threads: 1, largest_bytes: 300 << 10, ..rig.config() };
    let log = rig.open(&config);
    let place = Arc::new(MemoryDevice::new(1 << 20));
    let items: Vec<_> = (0..16)
        .map(|index| TestItem::large_in_place(64 * index, 16 << 10, place.clone()))
        .collect();
    let start = rig.state().head.cycle();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, items) = (&log, &items);
            scope.spawn(move || {
                let mut prng = Prng::new(thread as u64);
                while log.ail().head().cycle() < start + 20 {
                    large_transaction(log, items, &mut prng);
                }
            });
        }
    });
    check_settled(&log);
    log.unmount().unwrap();
    assert!(rig.state().clean);
}

/// Several threads write checkpoints at the same time, to a log with this many in-core log buffers.
/// Items have up to 64 KiB, so that one region takes several records. Checks that the records of a
/// region follow one another directly.
fn check_pieces(buffers: usize) {
    let rig = Rig::new(32 << 10);
    let config = LogConfig { threads: 2, buffers, largest_bytes: 200 << 10, ..rig.config() };
    let log = rig.open(&config);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let log = &log;
            scope.spawn(move || {
                let mut prng = Prng::new(thread);
                for round in 0..40 {
                    let length = 512 << prng.within(0..8);
                    let item = TestItem::with_length(1024 * (thread + 1) + round, length);
                    let lock = item.lock();
                    let mut ticket = log.reserve(140 << 10, 1).unwrap();
                    let items = [Arc::clone(&item) as Arc<dyn LogItem>];
                    let committed = log.commit(&mut ticket, &items).unwrap();
                    drop(lock);
                    log.release(ticket);
                    log.inner.push(committed.sequence).unwrap();
                }
            });
        }
    });
    log.force_all().unwrap();
    let found = rig.transactions();
    assert_eq!(found.iter().map(|found| found.buffers().len()).sum::<usize>(), 4 * 40);
    check_settled(&log);
}

/// Checks I5 of `xfs_log::writer`: a region continues with the next record.
#[test]
fn pieces_of_a_region_lie_in_consecutive_records() {
    check_pieces(8);
}

/// Checks that a region is written whole if it takes more records than the log has buffers. The
/// thread that writes the region first writes the records that it has filled, and then waits for
/// the records of other threads.
#[test]
fn region_longer_than_all_buffers_is_written() {
    check_pieces(2);
    check_pieces(3);
}
