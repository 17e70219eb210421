//! Model tests of items that leave the AIL while the AIL is not locked, as soon as the items are
//! written, while other threads insert them again.

use std::sync::Arc;

use xfs_format::Lsn;

use xfs_sync::schedules::{check_found, explore};

use super::{open, run};
use crate::ail::DurableItems;
use crate::item::LogItem;
use crate::log::Log;
use crate::mutant::{ActiveMutant, Mutant};
use crate::testing::item::TestItem;

/// Runs two walks that write items to disk, while another thread moves the items to later LSNs in
/// the AIL and changes their order. Checks that the AIL is empty after one more walk.
fn walks_against_moves(mutant: ActiveMutant) {
    let (_, log) = open(mutant);
    let log = Arc::new(log);
    let head = log.ail().head();
    let [first, second, third] =
        [1, 2, 3].map(|blocks| Lsn::new(head.cycle(), head.block() + blocks));
    let items = [8, 16].map(TestItem::new);
    let placed = |order: [usize; 2], lsn: Lsn| {
        let placed = order.map(|index| (Arc::clone(&items[index]) as Arc<dyn LogItem>, lsn));
        DurableItems { placed: placed.to_vec(), leaving: Vec::new() }
    };
    log.ail().insert_durable(&mut placed([0, 1], first));
    let moves = {
        let log = Arc::clone(&log);
        let mut later = [placed([1, 0], second), placed([0, 1], third)];
        move || later.iter_mut().for_each(|items| log.ail().insert_durable(items))
    };
    let walk = |log: Arc<Log>| {
        Box::new(move || {
            let _ = log.ail().push(third);
        })
    };
    run(vec![walk(Arc::clone(&log)), walk(Arc::clone(&log)), Box::new(moves)]);
    log.ail().push(third);
    assert_eq!(log.ail().count(), 0, "positions are left of items in place");
}

#[test]
fn walks_and_moves_leave_the_list_empty() {
    explore(|| walks_against_moves(ActiveMutant::default()));
}

#[test]
fn number_read_late_is_found() {
    check_found("positions are left", || {
        walks_against_moves(ActiveMutant::with(Mutant::NumberReadLate));
    });
}
