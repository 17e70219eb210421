//! Tests of a log that is shut down: every call fails, no forced commit is lost, and no item stays
//! pinned.

use std::sync::Arc;

use xfs_buffer::Error;
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};

use super::rig::{Rig, commit_number};
use crate::item::LogItem;
use crate::log::{Log, LogConfig, Shutdown};
use crate::testing::item::TestItem;

fn check_dead(log: &Log, item: &Arc<TestItem>) {
    assert!(log.is_shut_down());
    assert!(matches!(log.reserve(100, 1), Err(Error::Shutdown)));
    assert!(matches!(commit_number(log, item, 1), Err(Error::Shutdown)));
    assert!(matches!(log.force_all(), Err(Error::Shutdown)));
    assert!(matches!(log.quiesce(), Err(Error::Shutdown)));
    assert!(log.ail().is_empty());
    assert_eq!((item.pins(), item.lsn()), (0, None));
}

#[test]
fn shutdown_with_a_flush_keeps_commits() {
    let rig = Rig::new(2048);
    let log = rig.open(&rig.config());
    let item = TestItem::new(8);
    commit_number(&log, &item, 5).unwrap();
    log.shut_down(Shutdown::Flush).unwrap();
    check_dead(&log, &item);
    assert!(!item.was_aborted());
    assert_eq!(rig.transactions()[0].numbers(), [(8, 5)]);
}

#[test]
fn shutdown_at_once_loses_only_unforced_commits() {
    let rig = Rig::new(2048);
    let log = rig.open(&rig.config());
    let item = TestItem::new(8);
    let committed = commit_number(&log, &item, 5).unwrap();
    log.force(committed.sequence).unwrap();
    let lost = commit_number(&log, &item, 6).unwrap();
    log.shut_down(Shutdown::Now).unwrap();
    check_dead(&log, &item);
    assert!(item.was_aborted());
    log.force(committed.sequence).unwrap();
    assert!(matches!(log.force(lost.sequence), Err(Error::Shutdown)));
    assert_eq!(rig.transactions().last().unwrap().numbers(), [(8, 5)]);
}

#[test]
fn waiter_for_space_fails_on_shutdown() {
    let rig = Rig::new(2048);
    let log = rig.open(&LogConfig { threads: 1, ..rig.config() });
    let first = log.reserve(400 << 10, 1).unwrap();
    let second = log.reserve(400 << 10, 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| log.reserve(400 << 10, 1));
        while !log.is_contended() {
            std::thread::yield_now();
        }
        log.shut_down(Shutdown::Now).unwrap();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Shutdown)));
    });
    log.release(first);
    log.release(second);
}

/// Checks that a waiter for a suspended log requests no push. A request would make the threads that
/// write checkpoints spin, because they have nothing to write.
#[test]
fn waiter_for_a_suspended_log_requests_no_push() {
    let rig = Rig::new(2048);
    let log = rig.open(&LogConfig { threads: 1, ..rig.config() });
    log.suspend().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| log.reserve(100, 1));
        while log.inner.space.waiting() == 0 {
            std::thread::yield_now();
        }
        log.inner.make_space();
        let is_asked = log.inner.cil.is_push_requested();
        log.resume();
        log.release(waiter.join().unwrap().unwrap());
        assert!(!is_asked);
    });
}

#[test]
fn commit_beyond_its_reservation_shuts_the_log_down() {
    let rig = Rig::new(2048);
    let log = rig.open(&rig.config());
    let item = TestItem::with_length(8, 8 << 10);
    let mut ticket = log.reserve(512, 1).unwrap();
    let items = [Arc::clone(&item) as Arc<dyn LogItem>];
    assert!(matches!(log.commit(&mut ticket, &items), Err(Error::Shutdown)));
    log.release(ticket);
    check_dead(&log, &item);
}

/// Runs the same series of forced commits many times. In the n-th run the device fails its n-th
/// request of the kind `kind`. The series ends with a run that makes fewer than n such requests, so
/// that none fails. Checks that nothing is written after the failed request (I4 of
/// `xfs_log::writer`).
fn check_failures(kind: RequestKind) {
    let mut failed = true;
    let mut nth = 0;
    while failed {
        nth += 1;
        let rig = Rig::new(2048);
        let device = Arc::new(FailingDevice::new(Arc::clone(&rig.device), nth));
        let failing = rig.on(device.clone());
        let log = failing.open(&failing.config());
        device.set_fault(Some(Fault { kind, nth, persistence: Persistence::Once }));
        let item = TestItem::new(8);
        let mut promised = 0;
        for number in 1..=6 {
            let Ok(committed) = commit_number(&log, &item, number) else { break };
            match log.force(committed.sequence) {
                Ok(()) => promised = number,
                Err(error) => {
                    assert!(matches!(error, Error::Io(_)), "{error}");
                    break;
                }
            }
        }
        failed = device.failures() > 0;
        device.set_fault(None);
        assert_eq!(failed, log.is_shut_down());
        if failed {
            let before = rig.log_device().read_blocks(0, u32::MAX).unwrap();
            check_dead(&log, &item);
            let after = rig.log_device().read_blocks(0, u32::MAX).unwrap();
            assert!(before == after, "the log was written after request {nth} had failed (I4)");
        }
        let last = if promised == 0 { 0 } else { last_number(&rig) };
        assert!(last >= promised, "request {nth}: {last} of {promised}");
    }
    assert!(nth > 5, "only {nth} requests");
}

fn last_number(rig: &Rig) -> u64 {
    rig.transactions().last().map_or(0, |last| last.numbers()[0].1)
}

/// Checks I4 of `xfs_log::writer` and I7 in docs/internals/log.md: nothing is written after a
/// failed write.
#[test]
fn failure_of_any_write_shuts_the_log_down() {
    check_failures(RequestKind::Write);
}

#[test]
fn failure_of_any_flush_shuts_the_log_down() {
    check_failures(RequestKind::Flush);
}
