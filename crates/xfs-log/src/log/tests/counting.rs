//! Checks that a commit, with all the work that it causes, rarely writes to memory that all threads
//! of the volume share.

use std::sync::Arc;

use xfs_device::{BlockDevice, MemoryDevice};
use xfs_sync::thread_counts;

use super::rig::{Rig, UNIT_BYTES};
use crate::item::LogItem;
use crate::log::LogConfig;
use crate::testing::item::TestItem;

/// The least number of commits, on average, for each write to memory that all threads of the volume
/// share.
const BUDGET: u64 = 64;

/// The length of an item in bytes: a little more than an inode logs.
const ITEM_BYTES: usize = 256;

#[test]
fn commits_rarely_write_words_of_volume_scope() {
    let rig = Rig::new(32 << 11);
    // Without threads everything happens on this one, and the work of other tests is not counted.
    let log = rig.open(&LogConfig { threads: 0, slots: 8, ..rig.config() });
    let place: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 25));
    let items: Vec<_> = (0..1 << 15)
        .map(|index| TestItem::large_in_place(index, ITEM_BYTES, Arc::clone(&place)))
        .collect();
    let before = thread_counts().volume.total();
    let mut commits = 0;
    for (round, item) in (0..2).flat_map(|round| items.iter().map(move |item| (round, item))) {
        let mut ticket = log.reserve(UNIT_BYTES, 1).unwrap();
        let lock = item.lock();
        item.set(0, round);
        let committed = log.commit(&mut ticket, &[Arc::clone(item) as Arc<dyn LogItem>]).unwrap();
        drop(lock);
        log.release(ticket);
        log.settle(committed).unwrap();
        commits += 1;
        if log.ail().target().is_some() {
            log.ail().push(log.ail().head());
        }
    }
    log.force_all().unwrap();
    let writes = thread_counts().volume.total() - before;
    assert!(log.durable_sequence() > 4, "only {} checkpoints", log.durable_sequence());
    assert!(writes * BUDGET <= commits, "{writes} in {commits} commits");
}
