use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xfs_format::reservation::TransactionKind;
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};

use super::Upkeep;
use crate::Journal;
use crate::testing::{change_core, crashed, log_device, make, open, recovered_parts};

const NEVER: Duration = Upkeep::LONGEST;
const SOON: Duration = Upkeep::SHORTEST;
/// Longest time for which a test waits for a condition before it fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the condition `is_so` holds. Fails the test if that takes longer than `LIMIT`, with
/// `what`, the name of the condition, in the message.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(SOON);
    }
}

/// Changes the owner of an inode. Returns the sequence number of the checkpoint that has the
/// change.
fn change(journal: &Arc<Journal>, uid: u32) -> u64 {
    let record = journal.inode(journal.superblock().root_inode).unwrap();
    let mut tx = journal.begin(TransactionKind::Write, 0).unwrap();
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = uid);
    tx.commit().unwrap().sequence
}

#[test]
fn upkeep_makes_unforced_changes_durable() {
    let journal = open(&make(), 1);
    journal.start_upkeep(Upkeep::new(SOON, NEVER)).unwrap();
    for uid in 1..4 {
        let sequence = change(&journal, uid);
        wait_until("durable", || journal.log().durable_sequence() >= sequence);
        assert!(!journal.log().ail().is_empty(), "no operation needs the log space");
    }
    journal.unmount().unwrap();
}

#[test]
fn idle_log_is_covered_once() {
    let device = make();
    let journal = open(&device, 1);
    journal.start_upkeep(Upkeep::new(NEVER, SOON)).unwrap();
    for uid in 1..4 {
        // The change itself, and the superblock twice.
        let sequence = change(&journal, uid);
        wait_until("covered", || journal.log().durable_sequence() >= sequence + 2);
        wait_until("idle", || journal.log().ail().is_empty() && !journal.log().needs_cover());
        let durable = journal.log().durable_sequence();
        thread::sleep(20 * SOON);
        assert_eq!(journal.log().durable_sequence(), durable, "an idle log is not written to");
    }
    let (_, replayed) = recovered_parts(&crashed(&device));
    assert_eq!(replayed.summary().items, 2, "the superblock twice, and no item that is in place");
    journal.unmount().unwrap();
}

#[test]
fn stopped_upkeep_does_nothing() {
    let device = make();
    let journal = open(&device, 1);
    journal.start_upkeep(Upkeep::new(SOON, SOON)).unwrap();
    journal.stop_upkeep();
    let sequence = change(&journal, 1);
    thread::sleep(20 * SOON);
    assert!(journal.log().durable_sequence() < sequence);
    assert!(xfs_log::find_head_and_tail(&log_device(&device)).unwrap().clean);
    journal.unmount().unwrap();
}

/// Checks that the upkeep thread ends when the journal is dropped. The thread holds a reference to
/// the journal while it works, so it may itself drop the last one.
#[test]
fn dropped_journal_ends_its_upkeep() {
    let device = make();
    for _ in 0..20 {
        let journal = open(&device, 1);
        journal.start_upkeep(Upkeep::new(SOON, SOON)).unwrap();
        thread::sleep(SOON);
        drop(journal);
        wait_until("released", || Arc::strong_count(&device) == 1);
    }
}

#[test]
fn failed_upkeep_shuts_the_volume_down() {
    let device = Arc::new(FailingDevice::new(make(), 1));
    let journal = open(&(Arc::clone(&device) as _), 1);
    device.set_fault(Some(Fault {
        kind: RequestKind::Write,
        nth: 1,
        persistence: Persistence::Forever,
    }));
    journal.start_upkeep(Upkeep::new(SOON, SOON)).unwrap();
    let _ = change(&journal, 1);
    wait_until("shut down", || journal.is_shut_down());
    assert!(journal.unmount().is_err());
}
