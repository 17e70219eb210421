//! Tests of chains of transactions: rolling, deferred work and its order, and intents.

use std::sync::{Arc, Mutex};

use xfs_buffer::{Error, Result};
use xfs_format::FsBlock;
use xfs_format::log_item::{ExtentFree, ItemKind, LoggedItem, RefcountExtent};
use xfs_log::{LogDevice, LogReader, find_head_and_tail};

use super::{begin, root};
use crate::testing::{change_core, crashed, make, open, recover, superblock};
use crate::{Deferred, Finish, IntentPayload, Journal, Transaction};

/// The names of the tasks that did their work, in order. A task that takes several steps appears
/// once for each step.
type CallLog = Arc<Mutex<Vec<String>>>;

/// Deferred work of a test. A task that is done records its name. A task may defer other work, or
/// need several steps.
struct Task {
    name: String,
    payload: Option<IntentPayload>,
    steps: u32,
    defers: Vec<Task>,
    call_log: CallLog,
    fails: bool,
}

fn extent(start: u64) -> IntentPayload {
    IntentPayload::ExtentFree(ExtentFree { start: FsBlock(start), length_blocks: 1 })
}

fn count(start: u64) -> IntentPayload {
    IntentPayload::Refcount(RefcountExtent { start: FsBlock(start), length_blocks: 1, flags: 1 })
}

impl Task {
    fn new(name: &str, payload: Option<IntentPayload>, call_log: &CallLog) -> Self {
        let (name, call_log) = (name.to_owned(), Arc::clone(call_log));
        Self { name, payload, steps: 1, defers: Vec::new(), call_log, fails: false }
    }

    fn boxed(self) -> Box<Self> {
        Box::new(self)
    }
}

impl Deferred for Task {
    fn intent_payload(&self) -> Option<IntentPayload> {
        self.payload.clone()
    }

    fn finish(mut self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        self.call_log.lock().unwrap().push(self.name.clone());
        if self.fails {
            return Err(Error::Shutdown);
        }
        for task in self.defers.drain(..) {
            tx.defer(task.boxed());
        }
        self.steps -= 1;
        Ok(if self.steps == 0 { Finish::Done } else { Finish::Again(self) })
    }
}

fn calls(call_log: &CallLog) -> String {
    call_log.lock().unwrap().join(" ")
}

/// Returns the kind and ID of all intents and completions in the log, as one list for each
/// transaction in the log.
fn logged(journal: &Journal) -> Vec<Vec<(ItemKind, u64)>> {
    let device = Arc::clone(journal.cache().device());
    let log = LogDevice::new(device, journal.superblock()).unwrap();
    let state = find_head_and_tail(&log).unwrap();
    let mut reader = LogReader::new(&log, &state);
    let mut found = Vec::new();
    while let Some(transaction) = reader.next_transaction().unwrap() {
        let items = transaction.items().unwrap().map(Result::unwrap);
        let named = items.filter_map(|item: LoggedItem<'_>| Some((item.kind(), item.intent_id()?)));
        found.push(named.collect());
    }
    found
}

#[test]
fn deferred_work_runs_in_order_and_its_own_deferred_work_before_the_rest() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let mut tx = begin(&journal);
    let mut first = Task::new("a", Some(extent(100)), &call_log);
    first.defers = vec![
        Task::new("a1", Some(count(5)), &call_log),
        Task::new("a2", Some(extent(6)), &call_log),
    ];
    let mut long = Task::new("b", Some(count(7)), &call_log);
    long.steps = 3;
    tx.defer(first.boxed());
    tx.defer(long.boxed());
    tx.defer(Task::new("c", None, &call_log).boxed());
    let _ = tx.commit().unwrap();
    assert_eq!(calls(&call_log), "a a1 a2 b b b c");
    assert!(!journal.is_shut_down());
}

#[test]
fn intent_completed_in_its_checkpoint_is_not_written() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.defer(Task::new("a", Some(extent(100)), &call_log).boxed());
    let _ = tx.commit().unwrap();
    journal.force_all().unwrap();
    assert!(logged(&journal).concat().is_empty());
}

/// Deferred work that forces the log, and then does the work of a [`Task`].
struct Forced(Task);

impl Deferred for Forced {
    fn intent_payload(&self) -> Option<IntentPayload> {
        self.0.intent_payload()
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        tx.journal().force_all()?;
        Box::new(self.0).finish(tx)
    }
}

#[test]
fn neighbours_of_one_kind_share_an_intent_sorted_by_group() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let far = journal.geometry().join_block(xfs_format::AgNumber(1), xfs_format::AgBlock(9)).0;
    let mut tx = begin(&journal);
    for (name, payload) in [("far", extent(far)), ("near", extent(50)), ("count", count(50))] {
        tx.defer(Box::new(Forced(Task::new(name, Some(payload), &call_log))));
    }
    let _ = tx.commit().unwrap();
    journal.force_all().unwrap();
    assert_eq!(calls(&call_log), "near far count");
    let kinds: Vec<_> = logged(&journal).concat().into_iter().map(|(kind, _)| kind).collect();
    let expected = [
        ItemKind::ExtentFree,
        ItemKind::Refcount,
        ItemKind::ExtentFreeDone,
        ItemKind::RefcountDone,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn intent_holds_at_most_sixteen_payloads() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let mut tx = begin(&journal);
    for index in 0..17 {
        let task = Task::new("x", Some(extent(100 + index)), &call_log);
        tx.defer(Box::new(Forced(task)));
    }
    let _ = tx.commit().unwrap();
    journal.force_all().unwrap();
    let done = logged(&journal).concat();
    let intents = done.iter().filter(|(kind, _)| *kind == ItemKind::ExtentFree).count();
    assert_eq!((intents, done.len()), (2, 4));
}

#[test]
fn unfinished_rest_of_an_intent_gets_a_new_intent() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let mut tx = begin(&journal);
    for (name, start) in [("a", 100), ("b", 200)] {
        let mut task = Task::new(name, Some(extent(start)), &call_log);
        task.steps = 2;
        tx.defer(Box::new(Forced(task)));
    }
    let _ = tx.commit().unwrap();
    journal.force_all().unwrap();
    assert_eq!(calls(&call_log), "a a b b");
    let copy = crashed(&device);
    let (recovered, open) = recover(&copy);
    assert!(open.is_empty(), "every intent has its completion");
    recovered.unmount().unwrap();
}

#[test]
fn failed_work_shuts_the_volume_down_and_is_left_for_recovery() {
    let device = make();
    let journal = open(&device, 0);
    let call_log = CallLog::default();
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 3);
    let mut task = Task::new("a", Some(extent(100)), &call_log);
    task.fails = true;
    tx.defer(Box::new(Forced(task)));
    tx.defer(Task::new("b", Some(count(7)), &call_log).boxed());
    assert!(tx.commit().is_err());
    assert!(journal.is_shut_down());
    assert!(record.latch().try_lock_exclusive());

    let copy = crashed(&device);
    let (recovered, open) = recover(&copy);
    let payloads: Vec<_> = open.iter().flat_map(|open| open.payloads().to_vec()).collect();
    assert_eq!(payloads, [extent(100), count(7)]);
    assert_eq!(root(&recovered).core().unwrap().uid, 3);
    let call_log = CallLog::default();
    let kind = xfs_format::reservation::TransactionKind::Truncate;
    let mut captured = Vec::new();
    for (open, name) in open.iter().zip(["a", "b"]) {
        let mut task = Task::new(name, open.payloads().first().cloned(), &call_log);
        task.defers = vec![Task::new(&format!("{name}'"), Some(extent(9)), &call_log)];
        captured.push(recovered.resume(open, vec![task.boxed()], kind, 0).unwrap());
    }
    assert_eq!(calls(&call_log), "a b");
    for captured in captured {
        let _ = captured.finish(&recovered).unwrap();
    }
    assert_eq!(
        calls(&call_log),
        "a b a' b'",
        "their deferred work waits until all intents are taken up"
    );
    recovered.unmount().unwrap();
    let (again, open) = recover(&copy);
    assert!(open.is_empty());
    drop(again);
    assert_eq!(superblock(&copy).root_inode, journal.superblock().root_inode);
}

#[test]
fn roll_keeps_inodes_latched_and_relogs_them() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.roll().unwrap();
    assert!(!record.latch().try_lock_exclusive());
    journal.force_all().unwrap();
    let first = record.sequence();
    tx.roll().unwrap();
    assert!(record.sequence() > first, "relogged, or the inode would hold the tail (I1)");
    let _ = tx.commit().unwrap();
    assert!(record.latch().try_lock_exclusive());
}

#[test]
fn left_inode_is_unlatched_and_not_relogged() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.leave(&record);
    tx.roll().unwrap();
    assert!(!tx.is_joined(&record));
    assert!(record.latch().try_lock_exclusive());
    record.latch().unlock_exclusive();
    journal.force_all().unwrap();
    let first = record.sequence();
    tx.roll().unwrap();
    let _ = tx.commit().unwrap();
    assert_eq!(record.sequence(), first);
}

#[test]
fn on_commit_call_receives_the_checkpoint_of_its_step() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let sequences = Arc::new(Mutex::new(Vec::new()));
    let mut tx = begin(&journal);
    tx.join(&record);
    for uid in 1..3 {
        change_core(&mut tx, &record, |core| core.uid = uid);
        let sequences = Arc::clone(&sequences);
        tx.on_commit(move |committed| sequences.lock().unwrap().push(committed.sequence));
        tx.roll().unwrap();
        journal.force_all().unwrap();
    }
    let _ = tx.commit().unwrap();
    assert_eq!(*sequences.lock().unwrap(), [1, 2]);
}

#[test]
fn chain_commits_with_the_checkpoint_of_its_last_logged_step() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.leave(&record);
    tx.roll().unwrap();
    let committed = tx.commit().unwrap();
    assert_eq!(committed.sequence, record.sequence());
    assert_ne!(committed.sequence, 0);
}
