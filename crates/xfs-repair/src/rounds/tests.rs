use std::sync::Arc;

use xfs_check::Report;
use xfs_device::{BlockDevice, Durability};
use xfs_testkit::{CowDevice, golden};

use super::{Before, check_device};
use crate::options::RehearsalOptions;
use crate::testing::superblock_of;

/// Returns the checker's report on the golden image after these sectors were zeroed.
fn report(zeroed: &[u64]) -> Report {
    let device = CowDevice::new(Arc::new(golden()));
    for sector in zeroed {
        device.write_at(&[0; 512], sector * 512, Durability::Cached).unwrap();
    }
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    check_device(&device, &superblock_of(&sector), &RehearsalOptions::default(), &()).unwrap()
}

#[test]
fn score_of_new_damage_is_worse_than_that_of_the_old_damage() {
    let (agf, agi) = (report(&[1]), report(&[2]));
    let before = Before::of(&agf);
    assert!(!before.score(&agf).is_worse);
    assert!(before.score(&agi).is_worse);
    assert!(before.score(&agi) > before.score(&agf));
    assert!(before.score(&report(&[1, 2])) > before.score(&agf));
    assert!(before.score(&report(&[])) < before.score(&agf));
}
