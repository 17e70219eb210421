use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xfs_check::{Progress, Report};
use xfs_device::{Durability, SharedDevice};
use xfs_testkit::{CowDevice, golden};

use super::{Before, Rehearsed, check_device, run};
use crate::error::RepairError;
use crate::options::RehearsalOptions;
use crate::testing::superblock_of;

/// Returns the checker's report on the golden image after these sectors were zeroed.
fn report(zeroed: &[u64]) -> Report {
    let device: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden())));
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

/// A caller that counts how often the repair asks whether to stop. After the first `stop` questions
/// it always requests a stop.
struct Stopper {
    stop: u64,
    asked: AtomicU64,
}

impl Progress for Stopper {
    fn advance(&self, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.stop
    }
}

/// Repairs a golden image whose first AGI was zeroed. `stopper` decides when the repair is stopped.
fn rehearsed(stopper: &Stopper) -> Result<Rehearsed, RepairError> {
    let device: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden())));
    device.write_at(&[0; 512], 2 * 512, Durability::Cached).unwrap();
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    run(&device, &superblock_of(&sector), &RehearsalOptions::default(), stopper)
}

#[test]
fn rehearsal_that_is_stopped_says_so() {
    let whole = Stopper { stop: u64::MAX, asked: AtomicU64::new(0) };
    assert!(rehearsed(&whole).unwrap().report.is_clean());
    let asked = whole.asked.into_inner();
    assert!(asked > 16, "{asked}");
    // Threads of a check ask a varying number of times, so the last questions are left out.
    for part in 0..12 {
        let stopper = Stopper { stop: asked * part / 16, asked: AtomicU64::new(0) };
        match rehearsed(&stopper) {
            Ok(done) => assert!(done.report.is_stopped, "part {part}"),
            Err(error) => assert!(matches!(error, RepairError::Stopped), "part {part}: {error}"),
        }
    }
}
