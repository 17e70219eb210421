//! Checks that a recording contains every request in order and can be replayed to any point.

use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};

use super::{RecordingDevice, Request};

const LENGTH: usize = 16 << 10;

fn device() -> RecordingDevice {
    RecordingDevice::new(Arc::new(MemoryDevice::new(LENGTH as u64)))
}

fn contents(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0xaa; LENGTH];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn write(offset: u64, byte: u8, durability: Durability) -> Request {
    Request::Write { offset, bytes: vec![byte; 512].into(), durability }
}

#[test]
fn requests_are_recorded_in_order() {
    let device = device();
    device.write_at(&[1; 512], 512, Durability::Cached).unwrap();
    device.flush().unwrap();
    device.write_at(&[2; 512], 0, Durability::Durable).unwrap();
    device.discard(512, 512).unwrap();
    assert_eq!(device.position(), 4);
    let expected = [
        write(512, 1, Durability::Cached),
        Request::Flush,
        write(0, 2, Durability::Durable),
        Request::Discard { offset: 512, length: 512 },
    ];
    assert_eq!(device.recording().requests(), expected);
}

#[test]
fn reads_and_failed_requests_are_not_recorded() {
    let device = device();
    device.read_at(&mut [0; 512], 0).unwrap();
    assert!(device.write_at(&[1; 512], LENGTH as u64, Durability::Cached).is_err());
    assert!(device.discard(0, LENGTH as u64 + 1).is_err());
    assert_eq!(device.position(), 0);
}

#[test]
fn replay_restores_the_device_at_any_point() {
    let device = device();
    let mut states = vec![contents(&device)];
    for round in 0..20_u8 {
        let offset = u64::from(round) * 700;
        match round % 4 {
            3 => device.discard(offset / 2, 1000).unwrap(),
            2 => device.flush().unwrap(),
            _ => device.write_at(&[round + 1; 900], offset, Durability::Cached).unwrap(),
        }
        states.push(contents(&device));
    }
    let recording = device.recording();
    for (count, state) in states.iter().enumerate() {
        assert_eq!(contents(&recording.replay(count)), *state, "after {count} requests");
    }
}

#[test]
fn later_writes_change_neither_recording_nor_base() {
    let base = Arc::new(MemoryDevice::new(LENGTH as u64));
    let device = RecordingDevice::new(Arc::<MemoryDevice>::clone(&base));
    device.write_at(&[1; 512], 0, Durability::Cached).unwrap();
    let recording = device.recording();
    device.write_at(&[2; 512], 0, Durability::Cached).unwrap();
    assert_eq!(recording.requests().len(), 1);
    assert_eq!(contents(&*base), vec![0; LENGTH]);
}

#[test]
fn requests_of_threads_are_recorded_in_the_order_of_their_effects() {
    let device = device();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let device = &device;
            scope.spawn(move || {
                for _ in 0..50 {
                    device.write_at(&[thread; 512], 0, Durability::Cached).unwrap();
                }
            });
        }
    });
    let recording = device.recording();
    assert_eq!(recording.requests().len(), 200);
    assert_eq!(contents(&recording.replay(200)), contents(&device));
}

#[test]
fn partial_sector_write_is_recorded_as_a_whole_sector() {
    let device = device();
    device.write_at(&[1; 300], 100, Durability::Cached).unwrap();
    device.write_at(&[2; 200], 400, Durability::Cached).unwrap();
    let recording = device.recording();
    let [_, Request::Write { offset, bytes, .. }] = recording.requests() else {
        panic!("two writes");
    };
    let expected = [vec![0; 100], vec![1; 300], vec![2; 200], vec![0; 424]].concat();
    assert_eq!((*offset, bytes.to_vec()), (0, expected));
}
