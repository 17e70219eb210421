//! Checks that a scheduled device holds threads, and that the threads proceed in the order that the
//! test chooses.

use std::sync::Arc;
use std::thread;

use xfs_device::{BlockDevice, Durability, MemoryDevice};

use super::{HeldRequest, ScheduledDevice};
use crate::failing::RequestKind;
use crate::recording::{RecordingDevice, Request};

const HELD: [RequestKind; 2] = [RequestKind::Write, RequestKind::Flush];

fn recorder() -> Arc<RecordingDevice> {
    Arc::new(RecordingDevice::new(Arc::new(MemoryDevice::new(1 << 20))))
}

/// Returns the written sectors in the order in which they were written.
fn order(recorder: &RecordingDevice) -> Vec<u64> {
    let requests = recorder.recording();
    let offsets = requests.requests().iter().filter_map(|request| match request {
        Request::Write { offset, .. } => Some(offset / 512),
        _ => None,
    });
    offsets.collect()
}

/// Lets four threads write through a scheduled device with this seed; each thread writes two
/// sectors, one after the other. Returns the sectors in the order in which they were written.
fn run(seed: u64) -> Vec<u64> {
    let recorder = recorder();
    let (device, mut scheduler) = ScheduledDevice::new(recorder.clone(), &HELD, seed);
    thread::scope(|scope| {
        for thread in 0..4 {
            let device = &device;
            scope.spawn(move || {
                for sector in [thread, thread + 10] {
                    device.write_at(&[1; 512], sector * 512, Durability::Cached).unwrap();
                }
            });
        }
        for left in (1..=8_usize).rev() {
            // Each thread that has not written its second sector has one request held.
            let second = order(&recorder).iter().filter(|sector| **sector >= 10).count();
            scheduler.wait_for(4 - second);
            assert!(scheduler.release_any().is_some(), "{left} left");
        }
        assert_eq!(scheduler.release_any(), None);
    });
    order(&recorder)
}

#[test]
fn same_seed_gives_the_same_order() {
    let orders: Vec<_> = (0..8).map(run).collect();
    assert_eq!(orders, (0..8).map(run).collect::<Vec<_>>());
    assert!(orders.iter().any(|order| *order != orders[0]), "seeds differ");
    for order in &orders {
        for thread in 0..4 {
            let index = |sector| order.iter().position(|found| *found == sector).unwrap();
            assert!(index(thread) < index(thread + 10), "requests of one thread swap: {order:?}");
        }
    }
}

#[test]
fn flush_overtakes_a_held_write() {
    let recorder = recorder();
    let (device, mut scheduler) = ScheduledDevice::new(recorder.clone(), &HELD, 1);
    thread::scope(|scope| {
        scope.spawn(|| device.write_at(&[1; 512], 512, Durability::Cached).unwrap());
        scope.spawn(|| device.flush().unwrap());
        scheduler.wait_for(2);
        let write = HeldRequest { kind: RequestKind::Write, offset: 512, length: 512 };
        let flush = HeldRequest { kind: RequestKind::Flush, offset: 0, length: 0 };
        assert_eq!(scheduler.waiting(), [write, flush]);
        let is_flush = |waiting: &HeldRequest| waiting.kind == RequestKind::Flush;
        assert_eq!(scheduler.release_first(is_flush), Some(flush));
        assert_eq!(recorder.recording().requests(), [Request::Flush]);
        assert_eq!(scheduler.release_first(is_flush), None);
        assert_eq!(scheduler.release_any(), Some(write));
    });
    assert_eq!(recorder.position(), 2);
}

#[test]
fn requests_of_other_kinds_pass() {
    let (device, scheduler) = ScheduledDevice::new(recorder(), &HELD, 1);
    device.read_at(&mut [0; 512], 0).unwrap();
    device.discard(0, 512).unwrap();
    assert_eq!(scheduler.waiting(), []);
}

#[test]
fn dropping_the_scheduler_releases_all_requests() {
    let recorder = recorder();
    let (device, scheduler) = ScheduledDevice::new(recorder.clone(), &HELD, 1);
    thread::scope(|scope| {
        scope.spawn(|| device.write_at(&[1; 512], 0, Durability::Cached).unwrap());
        scheduler.wait_for(1);
        drop(scheduler);
    });
    device.flush().unwrap();
    assert_eq!(recorder.position(), 2);
}
