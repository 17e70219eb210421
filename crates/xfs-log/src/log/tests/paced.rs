//! Tests that a by-count log holds the same bytes whenever its writer thread runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xfs_device::SharedDevice;
use xfs_testkit::{
    FailingDevice, Fault, Persistence, Prng, RequestKind, ScheduledDevice, Scheduler,
};

use super::rig::{Rig, check_settled, commit};
use crate::log::{Log, LogConfig};
use crate::testing::item::TestItem;

const LOG_BLOCKS: u32 = 1024;
/// The block number of the home location of the first item. It lies after the log.
const PLACE: u64 = LOG_BLOCKS as u64;
/// Number of items: enough that some items are at their home locations and some are not when they
/// are logged again.
const ITEMS: u64 = 400;
/// Number of commits: several times as many as the log holds.
const COMMITS: u64 = 6000;

fn by_count(rig: &Rig, threads: usize) -> LogConfig {
    LogConfig { threads, by_count: true, slots: 1, ..rig.config() }
}

/// Commits items in an order that follows from a seed, forces now and then, and ends with every
/// item at its home location.
fn work(log: &Log, device: &SharedDevice) {
    let mut random = Prng::new(0xc0de);
    let items: Vec<_> =
        (0..ITEMS).map(|number| TestItem::in_place(PLACE + number, Arc::clone(device))).collect();
    for number in 1..=COMMITS {
        // A few items are logged all the time.
        let among = if number % 3 == 0 { 8 } else { items.len() };
        let item = &items[random.within(0..among)];
        let lock = item.lock();
        item.set(0, number);
        let committed = commit(log, &[item]).unwrap();
        drop(lock);
        if random.within(0..500) == 0 {
            log.force(committed.sequence).unwrap();
        }
    }
    check_settled(log);
}

/// Performs `work` on a log with this many threads, and returns all bytes of the device. If `seed`
/// is given, the device holds its requests back, and a schedule that follows from the seed releases
/// them.
fn bytes_after(threads: usize, seed: Option<u64>) -> Vec<u8> {
    let rig = Rig::new(LOG_BLOCKS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (device, scheduler) = match seed {
            None => (Arc::clone(&rig.device), None),
            Some(seed) => {
                let held = [RequestKind::Write, RequestKind::Flush];
                let (device, scheduler) =
                    ScheduledDevice::new(Arc::clone(&rig.device), &held, seed);
                (Arc::new(device) as SharedDevice, Some(scheduler))
            }
        };
        let releasing =
            scheduler.map(|scheduler| scope.spawn(|| release_requests(scheduler, &done)));
        let log = rig.on(Arc::clone(&device)).open(&by_count(&rig, threads));
        work(&log, &device);
        log.unmount().unwrap();
        done.store(true, Ordering::SeqCst);
        releasing.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let mut bytes = vec![0; rig.device.length_bytes() as usize];
    rig.device.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Releases the requests that the device holds back, one by one. The time of each release does not
/// depend on the commits.
fn release_requests(mut scheduler: Scheduler, done: &AtomicBool) {
    let mut random = Prng::new(7);
    while !done.load(Ordering::SeqCst) {
        (0..random.within(0..40)).for_each(|_| thread::yield_now());
        scheduler.release_any();
    }
}

/// Checks I3 of `xfs_log::log::paced`: the bytes on the device depend on the commits alone. The
/// same commits must give the same bytes on the device without a writer thread, with one, and with
/// one on a device that delays requests.
#[test]
fn same_commits_give_the_same_bytes_whenever_records_are_written() {
    let alone = bytes_after(0, None);
    let with_thread = bytes_after(1, None);
    assert!(alone == with_thread, "with a thread that writes");
    for seed in 0..2 {
        assert!(alone == bytes_after(1, Some(seed)), "on a slow device, seed {seed}");
    }
}

/// Checks that the items of a checkpoint that could not be written are aborted, and that a later
/// commit returns the error.
#[test]
fn checkpoint_that_the_thread_cannot_write_shuts_the_log_down() {
    let rig = Rig::new(LOG_BLOCKS);
    let failing = Arc::new(FailingDevice::new(Arc::clone(&rig.device), 1));
    let log = rig.on(failing.clone()).open(&by_count(&rig, 1));
    let fault = Fault { kind: RequestKind::Write, nth: 3, persistence: Persistence::Forever };
    failing.set_fault(Some(fault));
    let items: Vec<_> = (0..COMMITS).map(|number| TestItem::new(PLACE + number)).collect();
    let failed = items.iter().find_map(|item| commit(&log, &[item]).err());
    assert!(failed.is_some(), "every commit succeeded");
    assert!(log.is_shut_down());
    drop(log);
    assert!(items.iter().all(|item| item.pins() == 0));
    assert!(items.iter().any(|item| item.was_aborted()));
}

/// Checks that no item stays pinned if a log is dropped while a checkpoint is being written.
#[test]
fn dropped_log_leaves_no_item_pinned() {
    let rig = Rig::new(LOG_BLOCKS);
    for threads in [0, 1] {
        let log = rig.open(&by_count(&rig, threads));
        let items: Vec<_> = (0..200).map(|number| TestItem::new(PLACE + number)).collect();
        for item in &items {
            commit(&log, &[item]).unwrap();
        }
        drop(log);
        assert!(items.iter().all(|item| item.pins() == 0), "{threads} threads");
    }
}
