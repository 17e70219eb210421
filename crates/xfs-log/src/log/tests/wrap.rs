//! Tests that a new log wraps for the first time in an order that the kernel can recover.

use std::sync::Arc;

use xfs_format::Lsn;
use xfs_testkit::RecordingDevice;

use super::durability::commit_large;
use super::first_cycle::check_first_cycle;
use super::rig::Rig;
use crate::mutant::{ActiveMutant, Mutant};
use crate::testing::item::TestItem;

const LOG_BLOCKS: u32 = 2048;

/// Writes checkpoints of several records, without threads, until the log has wrapped. `small`
/// checkpoints of one record come first, so that different records reach the end of the log.
/// Returns the result of `check_first_cycle`.
fn wrap(small: u64, mutant: ActiveMutant) -> Result<bool, String> {
    let start = Rig::new(LOG_BLOCKS);
    let device = Arc::new(RecordingDevice::new(Arc::clone(&start.device)));
    let rig = start.on(device.clone());
    let log = rig.open_with(&rig.config(), mutant);
    let items: Vec<_> = (0..5)
        .map(|index| {
            let at = u64::from(LOG_BLOCKS) + 64 * index;
            TestItem::large_in_place(at, 16 << 10, device.clone())
        })
        .collect();
    for number in 1.. {
        let items = if number <= small { &items[..1] } else { &items[..] };
        log.force(commit_large(&log, items, number)).unwrap();
        log.quiesce().unwrap();
        if log.ail().head() > Lsn::new(2, 0) {
            break;
        }
    }
    check_first_cycle(&device.recording(), LOG_BLOCKS)
}

#[test]
fn first_cycle_is_durable_before_the_second_begins() {
    for small in 0..8 {
        assert_eq!(wrap(small, ActiveMutant::default()), Ok(true));
    }
}

#[test]
fn first_cycle_cached_mutant_is_found() {
    let found =
        (0..8).filter(|small| wrap(*small, ActiveMutant::with(Mutant::FirstCycleCached)).is_err());
    assert!(found.count() > 0, "no run has exposed the mutant");
}
