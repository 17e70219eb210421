//! Tests with one thread: each commit is in the log, once and in order, and the log space is
//! counted correctly.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_device::MemoryDevice;
use xfs_format::Lsn;
use xfs_format::log_record::MAX_RECORD_BYTES;

use super::rig::{Rig, check_settled, commit, commit_number};
use crate::item::LogItem;
use crate::log::LogConfig;
use crate::testing::decode;
use crate::testing::item::TestItem;

#[test]
fn forced_commits_are_in_the_log() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    commit_number(&log, &first, 11).unwrap();
    let committed = commit_number(&log, &second, 22).unwrap();
    assert_eq!((first.pins(), second.pins()), (1, 1));
    log.force(committed.sequence).unwrap();
    assert_eq!((first.pins(), second.pins()), (0, 0));
    let transactions = rig.transactions();
    assert_eq!(transactions.len(), 1);
    assert_eq!(transactions[0].numbers(), [(8, 11), (16, 22)]);
    assert_eq!(log.ail().tail(), transactions[0].start);
}

#[test]
fn checkpoint_holds_an_item_once_with_its_last_contents() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    commit_number(&log, &first, 1).unwrap();
    commit_number(&log, &second, 2).unwrap();
    commit_number(&log, &first, 3).unwrap();
    assert_eq!(first.pins(), 1);
    log.force_all().unwrap();
    commit_number(&log, &second, 4).unwrap();
    log.force_all().unwrap();
    let numbers: Vec<_> = rig.transactions().iter().map(|found| found.numbers()).collect();
    // Relogging has moved the first item behind the second.
    assert_eq!(numbers, [vec![(16, 2), (8, 3)], vec![(16, 4)]]);
}

#[test]
fn force_without_commits_writes_nothing() {
    let rig = Rig::new(4000);
    let before = rig.state();
    let log = rig.open(&rig.config());
    log.force_all().unwrap();
    log.force(0).unwrap();
    drop(log);
    assert_eq!(rig.state(), before);
}

#[test]
fn ordered_item_logs_no_bytes_and_enters_the_ail() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let (ordered, plain) = (TestItem::ordered(8), TestItem::new(16));
    commit(&log, &[&ordered, &plain]).unwrap();
    log.force_all().unwrap();
    assert_eq!(rig.transactions()[0].numbers(), [(16, 0)]);
    assert_eq!(ordered.lsn(), plain.lsn());
    assert!(ordered.lsn().is_some());
}

#[test]
fn intent_finished_in_its_checkpoint_is_not_written() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let intent = TestItem::new(8);
    let done = TestItem::finishing(16, &intent);
    commit_number(&log, &intent, 1).unwrap();
    commit_number(&log, &TestItem::new(24), 2).unwrap();
    commit_number(&log, &done, 3).unwrap();
    log.force_all().unwrap();
    assert_eq!(rig.transactions()[0].numbers(), [(24, 2)]);
    assert!(intent.was_cancelled());
    assert_eq!((intent.pins(), done.pins(), intent.lsn()), (0, 0, None));
    check_settled(&log);
}

#[test]
fn intent_finished_later_is_written_with_its_completion() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let intent = TestItem::new(8);
    let done = TestItem::finishing(16, &intent);
    commit_number(&log, &intent, 1).unwrap();
    log.force_all().unwrap();
    commit_number(&log, &done, 3).unwrap();
    log.force_all().unwrap();
    let numbers: Vec<_> = rig.transactions().iter().map(|found| found.numbers()).collect();
    assert_eq!(numbers, [[(8, 1)], [(16, 3)]]);
}

/// Commits items of many sizes until a log with this length and stripe unit has wrapped, and
/// compares the contents of the log with the commits. `config` changes the log's configuration.
fn check_layout(length_blocks: u32, stripe_unit_bytes: u32, config: impl Fn(&mut LogConfig)) {
    let rig = Rig::with_stripe_unit(length_blocks, stripe_unit_bytes);
    let mut settings = rig.config();
    settings.largest_bytes = 80 << 10;
    config(&mut settings);
    let log = rig.open(&settings);
    for round in 0..60 {
        let items: Vec<_> = (1..=20_u64)
            .map(|number| {
                TestItem::with_length(1000 * number, 512 * (number * 5 % 11 + 1) as usize)
            })
            .collect();
        for (number, item) in items.iter().enumerate() {
            let lock = item.lock();
            item.set(0, round * 100 + number as u64);
            let mut ticket = log.reserve(70 << 10, 1).unwrap();
            let committed = log.commit(&mut ticket, &[Arc::clone(item) as _]).unwrap();
            drop(lock);
            log.settle(committed).unwrap();
            log.release(ticket);
        }
        log.force_all().unwrap();
        let last = rig.transactions().pop().unwrap();
        let expected: Vec<_> =
            (0..20).map(|number| (1000 * (number + 1), round * 100 + number)).collect();
        assert_eq!(last.numbers(), expected);
        for (header, _) in decode::records(&rig.log_device(), &rig.state()) {
            let unit = stripe_unit_bytes.max(512) / 512;
            assert_eq!(header.total_blocks() % unit, 0);
            assert_eq!(header.lsn.block() % unit, 0);
        }
        check_settled(&log);
    }
    assert!(rig.state().head.cycle() > 1, "the log has wrapped");
}

#[test]
fn records_of_every_layout_are_read_back() {
    check_layout(4096, 1, |_| {});
    check_layout(4096 + 7, 1, |config| config.buffer_bytes = 64 << 10);
    check_layout(4096, 1, |config| config.buffer_bytes = MAX_RECORD_BYTES);
}

#[test]
fn records_fill_stripe_units() {
    check_layout(4096, 4096, |_| {});
    check_layout(8192, 32 << 10, |_| {});
    check_layout(16384, 256 << 10, |_| {});
    check_layout(96 * 96, 48 << 10, |config| config.buffer_bytes = 64 << 10);
}

#[test]
fn chain_may_roll_beyond_its_reservation() {
    let rig = Rig::new(4096);
    let log = rig.open(&rig.config());
    let item = TestItem::new(8);
    let mut ticket = log.reserve(2048, 3).unwrap();
    for number in 0..200 {
        item.set(0, number);
        let committed = log.commit(&mut ticket, &[Arc::clone(&item) as _]).unwrap();
        log.settle(committed).unwrap();
        log.roll(&mut ticket).unwrap();
    }
    log.release(ticket);
    log.force_all().unwrap();
    assert_eq!(rig.transactions().last().unwrap().numbers(), [(8, 199)]);
    check_settled(&log);
}

/// Checks I4 of `xfs_log::space`: new transactions leave an eighth of the log to chains. A chain
/// must be able to continue although other tickets hold all log space that new transactions can
/// get.
#[test]
fn chain_rolls_while_other_tickets_hold_all_they_can_get() {
    const BYTES: u64 = 90 << 10;
    let rig = Rig::new(2048);
    let log = rig.open(&LogConfig { largest_bytes: 1 << 20, ..rig.config() });
    let place = Arc::new(xfs_device::MemoryDevice::new(1 << 16));
    let item = TestItem::large_in_place(8, 16 << 10, place);
    let mut chain = log.reserve(BYTES, 1).unwrap();
    let one = log.space().granted;
    let mut others = Vec::new();
    while log.space().granted + one <= (2048 * 512) / 8 * 7 {
        others.push(log.reserve(BYTES, 1).unwrap());
    }
    assert!(others.len() > 5);
    for number in 0..100 {
        item.set(0, number);
        let committed = log.commit(&mut chain, &[Arc::clone(&item) as _]).unwrap();
        log.settle(committed).unwrap();
        log.roll(&mut chain).unwrap();
    }
    log.release(chain);
    others.into_iter().for_each(|ticket| log.release(ticket));
    check_settled(&log);
}

/// Checks I4 of `xfs_log::space`: new transactions leave an eighth of the log. After an intent that
/// only recovery can finish, they use up the rest. Recovery must still be able to reserve space.
#[test]
fn recovery_may_use_the_space_that_new_transactions_leave() {
    let rig = Rig::new(2048);
    let size_bytes = 2048 * 512;
    let log = rig.open(&LogConfig { slots: 1, largest_bytes: 1 << 20, ..rig.config() });
    commit_number(&log, &TestItem::open(8), 1).unwrap();
    log.force_all().unwrap();
    let item = TestItem::large_in_place(9, 16 << 10, Arc::new(MemoryDevice::new(1 << 16)));
    let mut chain = log.reserve(24 << 10, 1).unwrap();
    let mut number = 0;
    while log.space().used + log.space().granted <= size_bytes / 8 * 7 {
        number += 1;
        item.set(0, number);
        let committed = log.commit(&mut chain, &[Arc::clone(&item) as _]).unwrap();
        log.settle(committed).unwrap();
        log.force_all().unwrap();
        log.roll(&mut chain).unwrap();
    }
    log.release(chain);
    assert!(log.space().used > size_bytes / 8 * 6, "{:?}", log.space());

    let mut tickets = Vec::new();
    let refused = loop {
        assert!(tickets.len() < 100, "{:?}", log.space());
        match log.reserve_for_recovery(8 << 10) {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Posix(PosixError::NoSpace)), "{refused}");
    assert!(log.space().used + log.space().granted > size_bytes / 16 * 15, "{:?}", log.space());
    // A chain of recovery does not wait either when it rolls.
    let mut chain = tickets.pop().unwrap();
    let refused = loop {
        assert!(number < 1000, "{:?}", log.space());
        let open: Vec<_> = (0..8)
            .map(|_| {
                number += 1;
                TestItem::open(16 * number) as Arc<dyn LogItem>
            })
            .collect();
        let committed = log.commit(&mut chain, &open).unwrap();
        log.settle(committed).unwrap();
        if let Err(error) = log.roll(&mut chain) {
            break error;
        }
    };
    assert!(matches!(refused, Error::Posix(PosixError::NoSpace)), "{refused}");
    tickets.into_iter().for_each(|ticket| log.release(ticket));
}

/// Checks that a chain rolls without waiting even if other tickets have used up the log. The chain
/// reserved the space of its next transaction earlier, when it decided which intents to log again.
#[test]
fn chain_with_a_secured_step_rolls_without_waiting() {
    let rig = Rig::new(2048);
    let log = rig.open(&LogConfig { slots: 1, largest_bytes: 1 << 20, ..rig.config() });
    let mut chain = log.reserve(8 << 10, 1).unwrap();
    commit_number(&log, &TestItem::open(8), 1).unwrap();
    log.force_all().unwrap();
    assert_eq!(log.relog_before(&mut chain), None);
    let mut others = Vec::new();
    let mut use_up = || {
        while let Ok(ticket) = log.reserve_for_recovery(8 << 10) {
            others.push(ticket);
        }
    };
    use_up();
    log.roll(&mut chain).unwrap();
    use_up();
    assert_eq!(log.relog_before(&mut chain), Some(Lsn(u64::MAX)), "it will have to wait");
    others.into_iter().for_each(|ticket| log.release(ticket));
    log.release(chain);
}

#[test]
fn unmounted_log_is_clean_and_continues_where_it_ended() {
    let rig = Rig::new(4096);
    for round in 0..30 {
        let log = rig.open(&rig.config());
        let item = TestItem::in_place(8, Arc::new(xfs_device::MemoryDevice::new(1 << 16)));
        for number in 0..10 {
            commit_number(&log, &item, round * 100 + number).unwrap();
            log.force_all().unwrap();
        }
        log.unmount().unwrap();
        assert!(rig.state().clean, "{:?}", rig.state());
    }
}

#[test]
fn covered_log_replays_only_the_covering_item() {
    let rig = Rig::new(4096);
    let log = rig.open(&rig.config());
    commit_number(&log, &TestItem::new(8), 1).unwrap();
    log.quiesce().unwrap();
    assert!(log.needs_cover());
    let cover = TestItem::new(0);
    assert!(log.cover(&(Arc::clone(&cover) as _), 4096).unwrap());
    assert!(!log.needs_cover());
    assert!(rig.transactions().iter().all(|found| found.numbers() == [(0, 0)]));
    commit_number(&log, &TestItem::new(8), 2).unwrap();
    log.quiesce().unwrap();
    assert!(log.needs_cover());
}

/// Checks that covering gives up if a concurrent commit adds an item that is never written to its
/// home location.
#[test]
fn covering_a_log_that_has_become_busy_gives_up() {
    let rig = Rig::new(4096);
    let log = rig.open(&rig.config());
    let (cover, item) = (TestItem::new(0), TestItem::new(8));
    commit_number(&log, &item, 1).unwrap();
    log.quiesce().unwrap();
    let busy = log.cover_with(|| {
        commit_number(&log, &cover, 0)?;
        commit_number(&log, &TestItem::open(16), 2).map(drop)
    });
    assert!(!busy.unwrap());
    assert!(!log.needs_cover(), "it is not idle");
}

#[test]
fn commit_after_the_cover_is_not_covered() {
    let rig = Rig::new(4096);
    let log = rig.open(&rig.config());
    let (cover, item) = (TestItem::new(0), TestItem::new(8));
    commit_number(&log, &item, 1).unwrap();
    log.quiesce().unwrap();
    let covered = log.cover_with(|| {
        commit_number(&log, &cover, 0)?;
        log.force_all()?;
        commit_number(&log, &item, 2).map(drop)
    });
    assert!(!covered.unwrap());
    assert!(log.needs_cover());
}

/// Checks I1 in docs/internals/log.md: each checkpoint pins and writes an item once, even if
/// several threads with different slots commit the item one after another.
#[test]
fn item_committed_through_several_slots_is_written_once() {
    let rig = Rig::new(4000);
    let log = rig.open(&LogConfig { slots: 8, ..rig.config() });
    let (first, second) = (TestItem::new(8), TestItem::with_length(24, 1024));
    let mut number = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            number += 1;
            std::thread::scope(|scope| {
                let committing = scope.spawn(|| {
                    commit_number(&log, &first, number).unwrap();
                    commit_number(&log, &second, number).unwrap();
                });
                committing.join().unwrap();
            });
            assert_eq!((first.pins(), second.pins()), (1, 1));
        }
        log.force_all().unwrap();
        assert_eq!((first.pins(), second.pins()), (0, 0));
        let last = rig.transactions().pop().unwrap();
        assert_eq!(last.numbers(), [(8, number), (24, number)]);
    }
    check_settled(&log);
}

#[test]
fn intent_finished_through_another_slot_is_cancelled() {
    let rig = Rig::new(4000);
    let log = rig.open(&LogConfig { slots: 8, ..rig.config() });
    let intent = TestItem::new(8);
    let done = TestItem::finishing(16, &intent);
    commit_number(&log, &intent, 1).unwrap();
    for _ in 0..8 {
        // A thread in every slot, so at least one is in a slot that is not this thread's.
        std::thread::scope(|scope| {
            scope.spawn(|| commit_number(&log, &TestItem::new(24), 2).unwrap()).join().unwrap()
        });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| commit_number(&log, &done, 3).unwrap()).join().unwrap()
    });
    log.force_all().unwrap();
    let found = rig.transactions();
    assert!(found[0].numbers().iter().all(|(at, _)| *at == 24));
    assert!(intent.was_cancelled());
    assert_eq!((intent.pins(), done.pins(), intent.lsn()), (0, 0, None));
    check_settled(&log);
}

/// Checks that an item that is logged again in the open checkpoint counts once, in number and
/// bytes: the checkpoint writes each item only once.
#[test]
fn relogged_item_counts_once_in_its_checkpoint() {
    let rig = Rig::new(4000);
    let log = rig.open(&rig.config());
    let (first, second) = (TestItem::new(8), TestItem::new(16));
    let gathered = || (log.counts().gathered_items, log.counts().gathered_bytes);
    commit_number(&log, &first, 1).unwrap();
    let one = gathered();
    for number in 2..20 {
        commit_number(&log, &first, number).unwrap();
    }
    assert_eq!(gathered(), one);
    commit_number(&log, &second, 1).unwrap();
    assert_eq!(gathered(), (2 * one.0, 2 * one.1));
    log.force_all().unwrap();
    assert_eq!(gathered(), (0, 0));
}
