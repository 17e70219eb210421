//! Models of the first wrap of a log, with several threads that write records.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_sync::schedules::{check_found, explore};
use xfs_testkit::delegate_device;

use super::{LONG_BYTES, commit_long, push, run};
use crate::log::tests::first_cycle::FirstCycle;
use crate::log::tests::rig::Rig;
use crate::mutant::{ActiveMutant, Mutant};
use crate::testing::item::TestItem;

const LOG_BLOCKS: u32 = 512;

/// A device that starts with a log, and that checks the order of the writes to this log. It holds
/// no lock during a request, because the explorer may run other threads then.
struct CheckedDevice {
    inner: SharedDevice,
    cycle: Mutex<FirstCycle>,
}

impl CheckedDevice {
    fn note<T>(&self, note: impl FnOnce(&mut FirstCycle) -> T) -> T {
        note(&mut self.cycle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl BlockDevice for CheckedDevice {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, read_at, discard);

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        self.note(|cycle| cycle.begin_write(offset, bytes)).unwrap();
        self.inner.write_at(bytes, offset, durability)?;
        self.note(|cycle| cycle.end_write(offset, bytes, durability));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let blocks = self.note(FirstCycle::begin_flush);
        self.inner.flush()?;
        self.note(|cycle| cycle.end_flush(blocks));
        Ok(())
    }
}

/// Two threads each write a checkpoint that is longer than a record, around the end of a new log.
/// One thread may write the last record of cycle 1 while the other thread has closed a record of
/// cycle 2. Checks that all of cycle 1 is durable before cycle 2 begins.
fn wrap_at_once(mutant: ActiveMutant) {
    let start = Rig::new(LOG_BLOCKS);
    let cycle = Mutex::new(FirstCycle::new(&*start.device, LOG_BLOCKS));
    let device = Arc::new(CheckedDevice { inner: Arc::clone(&start.device), cycle });
    let log = Arc::new(start.on(device.clone()).open_with(&start.config(), mutant));
    while LOG_BLOCKS - log.ail().head().block() > 80 {
        let item = TestItem::with_length(1024, LONG_BYTES);
        push(&log, commit_long(&log, &item, 1)).unwrap();
        log.quiesce().unwrap();
    }
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for thread in 1..=2 {
        let log = Arc::clone(&log);
        threads.push(Box::new(move || {
            let item = TestItem::with_length(128 * thread, LONG_BYTES);
            push(&log, commit_long(&log, &item, thread)).unwrap();
        }));
    }
    run(threads);
    assert!(device.note(|cycle| cycle.has_wrapped()));
}

#[test]
fn first_cycle_is_durable_before_another_thread_begins_the_second() {
    explore(|| wrap_at_once(ActiveMutant::default()));
}

#[test]
fn first_cycle_cached_is_found() {
    check_found("is not durable", || wrap_at_once(ActiveMutant::with(Mutant::FirstCycleCached)));
}

#[test]
fn second_cycle_early_is_found() {
    check_found("is not durable", || wrap_at_once(ActiveMutant::with(Mutant::SecondCycleEarly)));
}
