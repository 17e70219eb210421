//! Checks that a failing device fails the requests that its fault selects, and is then in a state
//! that the contract of `BlockDevice` allows.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use xfs_device::{BlockDevice, Durability, MemoryDevice};

use super::{FailingDevice, Fault, Persistence, RequestKind};

fn device(seed: u64) -> FailingDevice {
    FailingDevice::new(Arc::new(MemoryDevice::new(1 << 20)), seed)
}

fn fail(device: &FailingDevice, kind: RequestKind, nth: u64, persistence: Persistence) {
    device.set_fault(Some(Fault { kind, nth, persistence }));
}

fn request(device: &FailingDevice, kind: RequestKind) -> io::Result<()> {
    match kind {
        RequestKind::Read => device.read_at(&mut [0; 512], 0),
        RequestKind::Write => device.write_at(&[1; 512], 0, Durability::Cached),
        RequestKind::Flush => device.flush(),
        RequestKind::Discard => device.discard(0, 512),
    }
}

fn byte(device: &FailingDevice, sector: u64) -> u8 {
    let mut bytes = [0xaa; 512];
    device.read_at(&mut bytes, sector * 512).unwrap();
    assert_eq!(bytes, [bytes[0]; 512]);
    bytes[0]
}

const KINDS: [RequestKind; 4] =
    [RequestKind::Read, RequestKind::Write, RequestKind::Flush, RequestKind::Discard];

#[test]
fn nth_request_of_a_kind_fails() {
    for failing in KINDS {
        for persistence in [Persistence::Once, Persistence::Forever] {
            let device = device(1);
            fail(&device, failing, 3, persistence);
            for round in 1..=5 {
                for kind in KINDS {
                    let outcome = request(&device, kind);
                    let lasts = persistence == Persistence::Forever && round > 3;
                    let expected = kind == failing && (round == 3 || lasts);
                    assert_eq!(outcome.is_err(), expected, "{kind:?} {round}, {failing:?}");
                    if let Err(error) = outcome {
                        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
                    }
                }
            }
            let expected = if persistence == Persistence::Once { 1 } else { 3 };
            assert_eq!(device.failures(), expected);
            device.set_fault(None);
            KINDS.into_iter().for_each(|kind| request(&device, kind).unwrap());
        }
    }
}

#[test]
fn failed_read_leaves_random_bytes() {
    let device = device(1);
    fail(&device, RequestKind::Read, 1, Persistence::Once);
    let mut buffer = [0; 512];
    device.read_at(&mut buffer, 0).unwrap_err();
    assert_ne!(buffer, [0; 512]);
}

#[test]
fn failed_write_may_take_effect_and_is_not_durable() {
    let outcomes: BTreeSet<u8> = (0..50)
        .map(|seed| {
            let device = device(seed);
            fail(&device, RequestKind::Write, 1, Persistence::Once);
            device.write_at(&[7; 512], 0, Durability::Durable).unwrap_err();
            byte(&device, 0)
        })
        .collect();
    assert_eq!(outcomes, BTreeSet::from([0, 7]));
}

/// Returns a device after a failed flush. Before that, sector 9 was written and flushed. Sectors 0
/// to 7 were written after this flush, and only the write of sector 3 was durable.
fn after_failed_flush(seed: u64) -> FailingDevice {
    let device = device(seed);
    device.write_at(&[9; 512], 9 * 512, Durability::Cached).unwrap();
    device.flush().unwrap();
    for sector in 0..8_u8 {
        let durability = if sector == 3 { Durability::Durable } else { Durability::Cached };
        device.write_at(&[sector + 1; 512], u64::from(sector) * 512, durability).unwrap();
    }
    fail(&device, RequestKind::Flush, 1, Persistence::Once);
    device.flush().unwrap_err();
    device
}

#[test]
fn failed_flush_may_lose_any_unflushed_write() {
    let (mut lost, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..50 {
        let device = after_failed_flush(seed);
        assert_eq!(byte(&device, 9), 9, "a write that an earlier flush covered stays");
        assert_eq!(byte(&device, 3), 4, "a durable write stays");
        for sector in 0..8 {
            match byte(&device, sector) {
                0 => lost.insert(sector),
                found => {
                    assert_eq!(u64::from(found), sector + 1);
                    kept.insert(sector)
                }
            };
        }
    }
    assert_eq!(lost, BTreeSet::from([0, 1, 2, 4, 5, 6, 7]));
    assert_eq!(kept, (0..8).collect());
}

#[test]
fn next_flush_does_not_restore_lost_writes() {
    let device = after_failed_flush(5);
    let before: Vec<u8> = (0..10).map(|sector| byte(&device, sector)).collect();
    device.flush().unwrap();
    let after: Vec<u8> = (0..10).map(|sector| byte(&device, sector)).collect();
    assert_eq!(before, after);
    // A second failure loses nothing that the flush has covered.
    fail(&device, RequestKind::Flush, 1, Persistence::Once);
    device.flush().unwrap_err();
    let after: Vec<u8> = (0..10).map(|sector| byte(&device, sector)).collect();
    assert_eq!(before, after);
}

#[test]
fn same_seed_fails_in_the_same_way() {
    let bytes = |seed| -> Vec<u8> {
        let device = after_failed_flush(seed);
        (0..10).map(|sector| byte(&device, sector)).collect()
    };
    assert_eq!(bytes(11), bytes(11));
    assert!((0..20).any(|seed| bytes(seed) != bytes(11)));
}

#[test]
fn failed_flush_undoes_overlapping_writes_in_reverse_order() {
    for seed in 0..50 {
        let device = device(seed);
        for version in 1..=3 {
            device.write_at(&[version; 512], 0, Durability::Cached).unwrap();
        }
        fail(&device, RequestKind::Flush, 1, Persistence::Once);
        device.flush().unwrap_err();
        assert!(byte(&device, 0) <= 3);
    }
}
