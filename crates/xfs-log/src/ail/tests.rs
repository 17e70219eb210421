#![cfg(not(shuttle))]

use std::sync::Arc;

use xfs_format::Lsn;

use super::in_place::SWEEP_WRITES;
use super::{Ail, CommitRecord, DurableCheckpoint, DurableItems, InPlace};
use crate::item::LogItem;
use crate::mutant::ActiveMutant;
use crate::space::{LogSpace, SpaceUse, Urgency};
use crate::state::LogState;
use crate::testing::item::TestItem;

const BLOCKS: u32 = 1000;
const BLOCK: u64 = 512;

fn empty() -> Ail {
    let space =
        Arc::new(LogSpace::new(u64::from(BLOCKS) * BLOCK, 1, u64::MAX, ActiveMutant::default()));
    space.take(990 * BLOCK, Urgency::Roll, &Default::default(), &|| {}).unwrap();
    let head = Lsn::new(3, 100);
    let (last_record, buffer_bytes) = (98, 32 << 10);
    let state = LogState {
        head,
        tail: head,
        clean: true,
        last_record,
        buffer_bytes,
        torn: None,
        is_blank: false,
    };
    Ail::new(space, BLOCKS, 250 * BLOCK, &state)
}

fn item(item: &Arc<TestItem>) -> Arc<dyn LogItem> {
    Arc::clone(item) as Arc<dyn LogItem>
}

fn place(ail: &Ail, placed: &Arc<TestItem>, lsn: Lsn) {
    ail.insert_durable(&mut DurableItems {
        placed: vec![(item(placed), lsn)],
        leaving: Vec::new(),
    });
}

/// Adds `items` to the AIL at the LSN `start`, and completes their checkpoint, which was granted
/// `granted_blocks` blocks of the log. The checkpoint's START is at `start`, and the record with
/// its COMMIT ends at `end`.
fn complete(ail: &Ail, start: Lsn, end: Lsn, granted_blocks: u64, items: &[&Arc<TestItem>]) {
    items.iter().for_each(|item| place(ail, item, start));
    let (record, granted) = (CommitRecord { start, end }, granted_blocks * BLOCK);
    ail.complete(&DurableCheckpoint { sequence: 1, record, granted });
}

/// Marks an item as written to disk with the contents that it had at `lsn`, and sweeps the item
/// from the AIL.
fn leave(ail: &Ail, item: &TestItem, lsn: Lsn) {
    let mut in_place = InPlace::default();
    in_place.note(item.state(), lsn);
    ail.sweep(&mut in_place);
}

fn blocks(ail: &Ail) -> (u64, u64) {
    let SpaceUse { used, granted } = ail.space.in_use();
    (used / BLOCK, granted / BLOCK)
}

#[test]
fn tail_follows_the_oldest_item_around_the_end_of_the_log() {
    let ail = empty();
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 400), 310, &[&first]);
    assert_eq!(blocks(&ail), (300, 680));
    complete(&ail, Lsn::new(3, 900), Lsn::new(4, 50), 360, &[&second]);
    assert_eq!((ail.tail(), blocks(&ail)), (Lsn::new(3, 100), (950, 30)));
    leave(&ail, &first, Lsn::new(3, 100));
    assert_eq!((ail.tail(), blocks(&ail)), (Lsn::new(3, 900), (150, 30)));
    leave(&ail, &second, Lsn::new(3, 900));
    // The list is empty: the tail is the record with the last COMMIT.
    assert_eq!((ail.tail(), ail.is_empty()), (Lsn::new(3, 900), true));
}

/// Checks that a list with more items than the most names the LSN up to which items must be
/// written, and that items which have left or moved do not count.
#[test]
fn excess_names_the_oldest_items_over_the_limit() {
    let ail = empty().with_most_items(4);
    let items: Vec<_> = (0..6).map(TestItem::new).collect();
    let lsn = |block| Lsn::new(3, block);
    for (item, block) in items.iter().zip([100, 100, 200, 300]) {
        place(&ail, item, lsn(block));
    }
    assert_eq!((ail.count(), ail.excess()), (4, None));
    // The item moves, and counts once.
    place(&ail, &items[3], lsn(400));
    assert_eq!((ail.count(), ail.excess()), (4, None));
    place(&ail, &items[4], lsn(400));
    assert_eq!((ail.count(), ail.excess()), (5, Some(lsn(100))));
    place(&ail, &items[5], lsn(500));
    assert_eq!((ail.count(), ail.excess()), (6, Some(lsn(200))));
    leave(&ail, &items[0], lsn(100));
    leave(&ail, &items[2], lsn(200));
    assert_eq!((ail.count(), ail.excess()), (4, None));
    ail.abandon();
    assert_eq!((ail.count(), ail.excess()), (0, None));
}

/// Checks I2 of `xfs_log::ail` (the head moves and grant is given back in one step) and I3 of
/// `xfs_log::ail`. The first of two checkpoints gives back more grant than it had, and the later
/// one gives back less by the same amount.
#[test]
fn checkpoint_gives_back_as_much_grant_as_the_head_moves() {
    let ail = empty();
    // Records of the second checkpoint lie before the COMMIT of the first, which has 20 blocks
    // itself.
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 20, &[&TestItem::new(8)]);
    assert_eq!(blocks(&ail), (100, 890));
    complete(&ail, Lsn::new(3, 110), Lsn::new(3, 210), 130, &[&TestItem::new(16)]);
    assert_eq!(blocks(&ail), (110, 840));
}

#[test]
fn item_logged_again_after_its_write_stays_in_the_list() {
    let ail = empty();
    let item = TestItem::new(8);
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 100, &[&item]);
    let written = item.lsn().unwrap();
    complete(&ail, Lsn::new(3, 200), Lsn::new(3, 300), 100, &[&item]);
    leave(&ail, &item, written);
    assert_eq!((item.lsn(), ail.tail()), (Some(Lsn::new(3, 200)), Lsn::new(3, 200)));
    leave(&ail, &item, Lsn::new(3, 200));
    assert!(ail.is_empty());
}

#[test]
fn item_in_place_may_be_inserted_again_before_the_sweep() {
    let ail = empty();
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 100, &[&first]);
    let mut in_place = InPlace::default();
    in_place.note(first.state(), Lsn::new(3, 100));
    // The item is clean at once, and the tail waits.
    assert_eq!((first.lsn(), ail.tail()), (None, Lsn::new(3, 100)));
    complete(&ail, Lsn::new(3, 200), Lsn::new(3, 300), 100, &[&second, &first]);
    ail.sweep(&mut in_place);
    assert_eq!((first.lsn(), ail.count()), (Some(Lsn::new(3, 200)), 2));
    assert_eq!(ail.tail(), Lsn::new(3, 200));
}

#[test]
fn positions_are_swept_once_for_many_writes() {
    // Each item is pushed twice, like the inodes of a cluster after one of them has written all of
    // them.
    let ail = empty();
    let count = 3 * SWEEP_WRITES + 4;
    let items: Vec<_> = (0..count).map(|number| TestItem::new(8 * number as u64)).collect();
    let items: Vec<_> = items.iter().collect();
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 100, &items);
    let mut in_place = InPlace::default();
    let due = items.iter().flat_map(|item| [item, item]).filter(|item| {
        in_place.note(item.state(), Lsn::new(3, 100));
        let is_due = in_place.end_push();
        if is_due {
            ail.sweep(&mut in_place);
        }
        is_due
    });
    assert_eq!(due.count(), 3);
    assert_eq!(ail.count(), 4);
}

#[test]
fn target_frees_a_sixteenth_of_the_log_beyond_the_limit() {
    let ail = empty();
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 800), 700, &[&TestItem::new(8)]);
    assert_eq!(ail.target(), None);
    complete(&ail, Lsn::new(3, 800), Lsn::new(3, 900), 0, &[&TestItem::new(16)]);
    // 50 blocks, and a sixteenth of the log.
    assert_eq!(ail.target(), Some(Lsn::new(3, 213)));
}

#[test]
fn tail_waits_for_a_checkpoint_that_is_being_written() {
    let ail = empty();
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    ail.begin(1, Lsn::new(3, 100));
    ail.begin(2, Lsn::new(3, 150));
    let record = CommitRecord { start: Lsn::new(3, 200), end: Lsn::new(3, 300) };
    let durable = DurableCheckpoint { sequence: 1, record, granted: 200 * BLOCK };
    place(&ail, &first, Lsn::new(3, 100));
    ail.complete(&durable);
    leave(&ail, &first, Lsn::new(3, 100));
    // START of the second checkpoint lies before COMMIT of the first, the last that is durable.
    assert_eq!((ail.tail(), blocks(&ail).0), (Lsn::new(3, 150), 150));
    let record = CommitRecord { start: Lsn::new(3, 300), end: Lsn::new(3, 310) };
    let durable = DurableCheckpoint { sequence: 2, record, granted: 10 * BLOCK };
    place(&ail, &second, Lsn::new(3, 150));
    ail.complete(&durable);
    assert_eq!(ail.tail(), Lsn::new(3, 150));
    leave(&ail, &second, Lsn::new(3, 150));
    assert_eq!(ail.tail(), Lsn::new(3, 300));
}
