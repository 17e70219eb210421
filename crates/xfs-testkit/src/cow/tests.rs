//! Checks that forks of a device differ only by the writes made to them.

use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};

use super::{CHUNK_BYTES, CowDevice};
use crate::prng::Prng;

const LENGTH: usize = 3 * CHUNK_BYTES + 1000;

fn counting() -> Vec<u8> {
    (0..LENGTH).map(|index| (index % 251) as u8).collect()
}

fn device() -> CowDevice {
    CowDevice::new(Arc::new(MemoryDevice::from_bytes(&counting()).unwrap()))
}

fn contents(device: &CowDevice) -> Vec<u8> {
    let mut bytes = vec![0xaa; LENGTH];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn writes_and_discards_behave_as_on_a_plain_array() {
    let (device, mut model, mut prng) = (device(), counting(), Prng::new(1));
    for round in 0..500_u16 {
        let start = prng.within(0..LENGTH);
        let end = prng.within(start..LENGTH + 1);
        if prng.within(0..4) == 0 {
            device.discard(start as u64, (end - start) as u64).unwrap();
            model[start..end].fill(0);
        } else {
            let bytes = vec![round as u8; end - start];
            device.write_at(&bytes, start as u64, Durability::Cached).unwrap();
            model[start..end].copy_from_slice(&bytes);
        }
        assert_eq!(contents(&device), model, "round {round}");
    }
}

#[test]
fn fork_and_origin_do_not_see_each_others_writes() {
    let origin = device();
    origin.write_at(&[1; 5000], 10, Durability::Cached).unwrap();
    let before = contents(&origin);
    let fork = origin.fork();
    fork.write_at(&[2; 200], 4000, Durability::Cached).unwrap();
    assert_eq!(contents(&origin), before);
    origin.write_at(&[3; 200], 4100, Durability::Cached).unwrap();
    let mut expected = before;
    expected[4000..4200].fill(2);
    assert_eq!(contents(&fork), expected);
}

#[test]
fn requests_past_the_end_fail() {
    let device = device();
    let length = LENGTH as u64;
    assert!(device.read_at(&mut [0; 2], length - 1).is_err());
    assert!(device.write_at(&[1], length, Durability::Cached).is_err());
    assert!(device.write_at(&[1, 2], u64::MAX, Durability::Cached).is_err());
    assert!(device.discard(1, length).is_err());
    assert_eq!(contents(&device), counting());
}
