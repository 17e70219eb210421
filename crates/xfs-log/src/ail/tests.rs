#![cfg(not(shuttle))]

use std::sync::Arc;

use xfs_format::Lsn;

use super::{Ail, CommitRecord, DurableCheckpoint, DurableItems};
use crate::item::LogItem;
use crate::plant::Plants;
use crate::space::{Space, SpaceUse, Urgency};
use crate::state::LogState;
use crate::testing::item::TestItem;

const BLOCKS: u32 = 1000;
const BLOCK: u64 = 512;

fn empty() -> Ail {
    let space = Arc::new(Space::new(u64::from(BLOCKS) * BLOCK, 1, u64::MAX, Plants::default()));
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
    Ail::new(space, BLOCKS, &state)
}

fn item(item: &Arc<TestItem>) -> Arc<dyn LogItem> {
    Arc::clone(item) as Arc<dyn LogItem>
}

fn place(ail: &Ail, placed: &Arc<TestItem>, lsn: Lsn) {
    ail.settle(&mut DurableItems { placed: vec![(item(placed), lsn)], leaving: Vec::new() });
}

/// A checkpoint from one LSN to another, with these items.
fn complete(ail: &Ail, start: Lsn, end: Lsn, granted_blocks: u64, items: &[&Arc<TestItem>]) {
    items.iter().for_each(|item| place(ail, item, start));
    let (record, granted) = (CommitRecord { start, end }, granted_blocks * BLOCK);
    ail.complete(&DurableCheckpoint { sequence: 1, record, granted });
}

fn blocks(ail: &Ail) -> (u64, u64) {
    let SpaceUse { used, granted } = ail.space.in_use();
    (used / BLOCK, granted / BLOCK)
}

#[test]
fn the_tail_is_the_oldest_item_and_goes_on_around_the_end() {
    let ail = empty();
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 400), 310, &[&first]);
    assert_eq!(blocks(&ail), (300, 680));
    complete(&ail, Lsn::new(3, 900), Lsn::new(4, 50), 360, &[&second]);
    assert_eq!((ail.tail(), blocks(&ail)), (Lsn::new(3, 100), (950, 30)));
    ail.remove(&[item(&first)]);
    assert_eq!((ail.tail(), blocks(&ail)), (Lsn::new(3, 900), (150, 30)));
    ail.remove(&[item(&second)]);
    // Nothing is left: the record with the last COMMIT.
    assert_eq!((ail.tail(), ail.is_empty()), (Lsn::new(3, 900), true));
}

#[test]
fn a_checkpoint_gives_back_as_much_as_the_head_has_moved() {
    let ail = empty();
    // Records of the second lie before the COMMIT of the first, which has 20 blocks itself.
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 20, &[&TestItem::new(8)]);
    assert_eq!(blocks(&ail), (100, 890));
    complete(&ail, Lsn::new(3, 110), Lsn::new(3, 210), 130, &[&TestItem::new(16)]);
    assert_eq!(blocks(&ail), (110, 840));
}

#[test]
fn what_was_logged_again_since_it_was_written_stays() {
    let ail = empty();
    let item = TestItem::new(8);
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 200), 100, &[&item]);
    let written = item.lsn().unwrap();
    complete(&ail, Lsn::new(3, 200), Lsn::new(3, 300), 100, &[&item]);
    ail.remove_at([(item.state(), written)]);
    assert_eq!((item.lsn(), ail.tail()), (Some(Lsn::new(3, 200)), Lsn::new(3, 200)));
    ail.remove_at([(item.state(), Lsn::new(3, 200))]);
    assert!(ail.is_empty());
}

#[test]
fn a_quarter_of_the_log_is_to_be_free() {
    let ail = empty();
    complete(&ail, Lsn::new(3, 100), Lsn::new(3, 800), 700, &[&TestItem::new(8)]);
    assert_eq!(ail.target(), None);
    complete(&ail, Lsn::new(3, 800), Lsn::new(3, 900), 0, &[&TestItem::new(16)]);
    assert_eq!(ail.target(), Some(Lsn::new(3, 150)));
}

#[test]
fn the_tail_waits_for_a_checkpoint_that_is_being_written() {
    let ail = empty();
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    ail.begin(1, Lsn::new(3, 100));
    ail.begin(2, Lsn::new(3, 150));
    let record = CommitRecord { start: Lsn::new(3, 200), end: Lsn::new(3, 300) };
    let durable = DurableCheckpoint { sequence: 1, record, granted: 200 * BLOCK };
    place(&ail, &first, Lsn::new(3, 100));
    ail.complete(&durable);
    ail.remove(&[item(&first)]);
    // START of the second lies before COMMIT of the first, which is the last that is durable.
    assert_eq!((ail.tail(), blocks(&ail).0), (Lsn::new(3, 150), 150));
    let record = CommitRecord { start: Lsn::new(3, 300), end: Lsn::new(3, 310) };
    let durable = DurableCheckpoint { sequence: 2, record, granted: 10 * BLOCK };
    place(&ail, &second, Lsn::new(3, 150));
    ail.complete(&durable);
    assert_eq!(ail.tail(), Lsn::new(3, 150));
    ail.remove(&[item(&second)]);
    assert_eq!(ail.tail(), Lsn::new(3, 300));
}
