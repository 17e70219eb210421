use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_testkit::{FailingDevice, Fault, Persistence, Prng, RequestKind};

use super::RepairOverlay;

const LENGTH: usize = 200_000;

fn base() -> Arc<MemoryDevice> {
    let bytes: Vec<u8> = (0..LENGTH).map(|index| (index / 7) as u8).collect();
    Arc::new(MemoryDevice::from_bytes(&bytes).unwrap())
}

/// Applies the same random writes to an overlay with this memory bound and to an array. Checks that
/// reads of the overlay return the bytes of the array, and that the changed runs of the overlay are
/// the differences between the array and the device below.
fn check_random_writes(memory_bytes: u64, seed: u64) {
    let base = base();
    let spill = tempfile::tempfile().unwrap();
    let overlay = RepairOverlay::new(base.clone(), memory_bytes, Some(spill));
    let mut old = vec![0; LENGTH];
    base.read_at(&mut old, 0).unwrap();
    let mut model = old.clone();
    let mut prng = Prng::new(seed);
    for _ in 0..60 {
        let length = prng.within(1..9000);
        let offset = prng.within(0..LENGTH - length);
        let bytes: Vec<u8> = (0..length).map(|_| prng.number() as u8).collect();
        overlay.write_at(&bytes, offset as u64, Durability::Cached).unwrap();
        model[offset..offset + length].copy_from_slice(&bytes);
    }
    let mut read = vec![0; LENGTH];
    overlay.read_at(&mut read, 0).unwrap();
    assert_eq!(read, model);
    let mut rebuilt = old.clone();
    let mut end = 0;
    overlay
        .for_each_change(512, &mut |change| {
            assert!(change.offset >= end && change.old.len() == change.new.len());
            end = change.offset + change.old.len() as u64;
            assert!(change.offset >= 512 || end <= 512, "a run crosses the superblock's end");
            let range = change.offset as usize..end as usize;
            assert_eq!(&old[range.clone()], change.old);
            rebuilt[range].copy_from_slice(change.new);
            Ok(())
        })
        .unwrap();
    assert_eq!(rebuilt, model);
    let mut untouched = vec![0; LENGTH];
    base.read_at(&mut untouched, 0).unwrap();
    assert_eq!(untouched, old, "the device below was written");
}

#[test]
fn overlay_in_memory_equals_an_array() {
    check_random_writes(1 << 20, 1);
}

#[test]
fn overlay_that_spills_equals_an_array() {
    check_random_writes(3 * 4096, 2);
    check_random_writes(0, 3);
}

#[test]
fn write_past_the_bound_without_a_spill_file_fails() {
    let overlay = RepairOverlay::new(base(), 4096, None);
    overlay.write_at(&[1; 4096], 0, Durability::Cached).unwrap();
    overlay.write_at(&[2; 10], 100, Durability::Cached).unwrap();
    assert!(overlay.write_at(&[1; 1], 4096, Durability::Cached).is_err());
}

#[test]
fn write_of_equal_bytes_changes_nothing() {
    let base = base();
    let overlay = RepairOverlay::new(base.clone(), 1 << 20, None);
    let mut bytes = [0; 9000];
    base.read_at(&mut bytes, 1000).unwrap();
    overlay.write_at(&bytes, 1000, Durability::Cached).unwrap();
    overlay.for_each_change(512, &mut |change| panic!("{} changed", change.offset)).unwrap();
}

#[test]
fn unreadable_range_is_remembered() {
    let failing = FailingDevice::new(base(), 1);
    failing.set_fault(Some(Fault {
        kind: RequestKind::Read,
        nth: 1,
        persistence: Persistence::Once,
    }));
    let overlay = RepairOverlay::new(Arc::new(failing), 1 << 20, None);
    assert!(overlay.read_at(&mut [0; 512], 4096).is_err());
    assert!(overlay.read_at(&mut [0; 512], 4096).is_ok());
    let ranges: Vec<_> = overlay.unreadable().into_iter().map(|(range, _)| range).collect();
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0], 4096..4608);
}
