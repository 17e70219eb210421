//! Tests that forces which arrive while a checkpoint is written share the next checkpoint. A push
//! of a checkpoint without commits waits for its first commit.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use xfs_device::{BlockDevice, SharedDevice};
use xfs_sync::{AtomicU64, Condvar, Mutex, Ordering, Volume};

use super::rig::{Rig, commit_number};
use crate::log::LogConfig;
use crate::testing::item::TestItem;

/// Number of threads that force the log.
const THREADS: u64 = 4;

/// A device whose flushes wait while the gate is closed.
struct Gate {
    device: SharedDevice,
    open: Mutex<bool, Volume>,
    changed: Condvar<Volume>,
    flushes: AtomicU64<Volume>,
}

impl Gate {
    fn set(&self, open: bool) {
        *self.open.lock() = open;
        self.changed.notify_all();
    }
}

impl BlockDevice for Gate {
    xfs_testkit::delegate_device!(device: length_bytes, sector_size, read_at, write_at, discard);

    fn is_read_only(&self) -> bool {
        false
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock();
        while !*open {
            self.changed.wait(&mut open);
        }
        self.device.flush()
    }
}

#[test]
fn commits_during_a_write_share_the_next_checkpoint() {
    let rig = Rig::new(4096);
    let gate = Arc::new(Gate {
        device: Arc::clone(&rig.device),
        open: Mutex::new(false),
        changed: Condvar::new(),
        flushes: AtomicU64::default(),
    });
    let log = rig.on(gate.clone()).open(&LogConfig { threads: 1, ..rig.config() });
    let committed = AtomicU64::<Volume>::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let first = commit_number(&log, &TestItem::new(8), 1).unwrap();
            log.force(first.sequence).unwrap();
        });
        while gate.flushes.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        for thread in 1..=THREADS {
            let (log, committed) = (&log, &committed);
            scope.spawn(move || {
                let last = commit_number(log, &TestItem::new(8 + 8 * thread), 2).unwrap();
                committed.fetch_add(1, Ordering::SeqCst);
                log.force(last.sequence).unwrap();
            });
        }
        while committed.load(Ordering::SeqCst) < THREADS {
            std::thread::yield_now();
        }
        gate.set(true);
    });
    let found: Vec<_> = rig.transactions().iter().map(|found| found.buffers().len()).collect();
    assert_eq!((found, gate.flushes.load(Ordering::SeqCst)), (vec![1, 4], 2));
}

#[test]
fn force_of_a_durable_checkpoint_does_not_wait() {
    let rig = Rig::new(4096);
    let gate = Arc::new(Gate {
        device: Arc::clone(&rig.device),
        open: Mutex::new(true),
        changed: Condvar::new(),
        flushes: AtomicU64::default(),
    });
    let log = rig.on(gate.clone()).open(&rig.config());
    let first = commit_number(&log, &TestItem::new(8), 1).unwrap();
    assert_eq!(log.durable_sequence(), 0);
    log.force(first.sequence).unwrap();
    assert_eq!(log.durable_sequence(), first.sequence);
    gate.set(false);
    commit_number(&log, &TestItem::new(16), 1).unwrap();
    log.force(first.sequence).unwrap();
    assert_eq!(gate.flushes.load(Ordering::SeqCst), 1);
}

#[test]
fn requested_push_waits_for_the_first_commit() {
    let rig = Rig::new(2048);
    let log = rig.open(&rig.config());
    let cil = &log.inner.cil;
    cil.request_push(cil.current());
    assert_eq!(cil.due(), None);
    let first = commit_number(&log, &TestItem::new(8), 1).unwrap();
    assert_eq!(cil.due(), Some(first.sequence));
}

#[test]
fn first_commit_wakes_the_thread_with_a_requested_push() {
    let rig = Rig::new(2048);
    let log = rig.open(&LogConfig { threads: 1, ..rig.config() });
    for number in 1..=100 {
        log.inner.cil.request_push(log.inner.cil.current());
        let committed = commit_number(&log, &TestItem::new(8), number).unwrap();
        while log.durable_sequence() < committed.sequence {
            std::thread::yield_now();
        }
    }
}

/// Checks that a commit to a checkpoint over its hard limit waits for the switch. Without the wait,
/// threads that commit faster than the log is written would fill the memory.
#[test]
fn commit_over_the_hard_limit_waits_until_its_checkpoint_is_switched() {
    let rig = Rig::new(4096);
    // No thread switches checkpoints.
    let log = rig.open(&rig.config());
    let sequence = commit_number(&log, &TestItem::new(8), 1).unwrap().sequence;
    let early = std::thread::scope(|scope| {
        let (cil, (done, is_done)) = (&log.inner.cil, mpsc::channel());
        scope.spawn(move || {
            cil.await_switch(sequence);
            done.send(()).unwrap();
        });
        let early = is_done.recv_timeout(Duration::from_millis(100));
        log.inner.push(sequence).unwrap();
        if early.is_err() {
            is_done.recv().unwrap();
        }
        early
    });
    assert!(early.is_err(), "it did not wait");
    // An older checkpoint has been switched.
    log.inner.cil.await_switch(sequence);
}

#[test]
fn wait_for_a_buffer_is_counted() {
    let rig = Rig::new(4096);
    let gate = Arc::new(Gate {
        device: Arc::clone(&rig.device),
        open: Mutex::new(false),
        changed: Condvar::new(),
        flushes: AtomicU64::default(),
    });
    let log = rig.on(gate.clone()).open(&LogConfig { buffers: 2, ..rig.config() });
    let first = commit_number(&log, &TestItem::new(8), 1).unwrap();
    std::thread::scope(|scope| {
        // The record with the COMMIT waits for its flush, and takes one of the buffers.
        scope.spawn(|| log.inner.push(first.sequence).unwrap());
        while gate.flushes.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(log.counts().buffer_waits, 0);
        let second = commit_number(&log, &TestItem::new(16), 2).unwrap().sequence;
        let inner = &log.inner;
        let other = scope.spawn(move || inner.push(second).unwrap());
        while log.counts().buffer_waits == 0 && !other.is_finished() {
            std::thread::yield_now();
        }
        gate.set(true);
    });
    assert!(log.counts().buffer_waits > 0, "the second checkpoint needed no buffer");
    assert_eq!(rig.transactions().len(), 2);
}
