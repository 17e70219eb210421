//! Tests of transactions on a volume in memory.

mod chains;
mod crashes;
mod quota;
mod smallest;
mod threads;

use xfs_buffer::{Buffer, Error, PosixError};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgNumber, BlockKind, InodeNumber};

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::testing::{change_core, crashed, is_clean, make, open, recover};
use crate::{InodeRecord, Journal, Transaction, TransactionCounts};

/// The byte range of the label in the superblock. The tests change the label, because nothing else
/// depends on it.
const LABEL: std::ops::Range<usize> = 108..120;

/// Begins a transaction whose reservation is large enough for the tests.
fn begin(journal: &Arc<Journal>) -> Transaction<'_> {
    journal.begin(TransactionKind::Write, 0).unwrap()
}

/// Returns the record of the root directory.
fn root(journal: &Arc<Journal>) -> Arc<InodeRecord> {
    journal.inode(journal.superblock().root_inode).unwrap()
}

/// Returns the record of one of the unused inodes in the inode chunk of the root directory. `index`
/// selects the inode.
fn spare(journal: &Arc<Journal>, index: u64) -> Arc<InodeRecord> {
    let InodeNumber(root) = journal.superblock().root_inode;
    journal.inode(InodeNumber(root + 8 + index)).unwrap()
}

/// Returns a buffer that no other code reads: the copy of the superblock in group 1.
fn copy_of_superblock(tx: &mut Transaction<'_>) -> Buffer {
    let geometry = tx.geometry();
    let at = geometry.header_disk_addr(AgNumber(1), 0);
    tx.read(at, geometry.sector_size, BlockKind::Superblock).unwrap()
}

#[test]
fn clean_transaction_logs_nothing() {
    let device = make();
    let journal = open(&device, 0);
    let used = journal.log().space().used;
    let mut tx = begin(&journal);
    tx.join(&root(&journal));
    let _ = copy_of_superblock(&mut tx);
    assert_eq!(tx.commit().unwrap().sequence, 0);
    begin(&journal).cancel();
    drop(begin(&journal));
    assert_eq!(journal.log().space().used, used);
    assert_eq!(journal.transactions(), TransactionCounts { synchronous: 0, empty: 1 });
    assert!(root(&journal).latch().try_lock_exclusive());
}

#[test]
fn synchronous_transaction_is_durable_when_commit_returns() {
    let device = make();
    let journal = open(&device, 0);
    let mut tx = begin(&journal);
    tx.set_synchronous();
    let buffer = copy_of_superblock(&mut tx);
    tx.change(&buffer, LABEL, |label| label.copy_from_slice(b"hello label!"));
    let _ = tx.commit().unwrap();
    assert_eq!(journal.transactions(), TransactionCounts { synchronous: 1, empty: 0 });
    let (recovered, _) = recover(&crashed(&device));
    let mut tx = begin(&recovered);
    let buffer = copy_of_superblock(&mut tx);
    assert_eq!(&buffer.bytes()[LABEL], b"hello label!");
}

#[test]
fn forced_commit_survives_a_crash_and_an_unforced_one_does_not() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let before = record.core().unwrap();
    for uid in [7, 8] {
        let mut tx = begin(&journal);
        tx.join(&record);
        change_core(&mut tx, &record, |core| core.uid = uid);
        let committed = tx.commit().unwrap();
        if uid == 7 {
            journal.force(committed.sequence).unwrap();
        }
    }
    let copy = crashed(&device);
    let (recovered, open) = recover(&copy);
    assert!(open.is_empty());
    let core = root(&recovered).core().unwrap();
    assert_eq!((core.uid, core.nlink), (7, before.nlink));
    recovered.unmount().unwrap();
    assert!(is_clean(&copy));
    drop(journal);
}

#[test]
fn unmount_writes_everything_in_place() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.gid = 99);
    tx.count_inodes(64, 63);
    let _ = tx.commit().unwrap();
    drop(record);
    journal.unmount().unwrap();
    assert!(is_clean(&device));
    let journal = open(&device, 0);
    assert_eq!(root(&journal).core().unwrap().gid, 99);
    assert_eq!(journal.superblock().inode_count, 128);
    assert_eq!(journal.superblock().free_inodes, 61 + 63);
}

#[test]
fn forced_buffer_change_is_recovered() {
    let device = make();
    let journal = open(&device, 0);
    let mut tx = begin(&journal);
    let buffer = copy_of_superblock(&mut tx);
    tx.change(&buffer, LABEL, |bytes| bytes.copy_from_slice(b"hello label!"));
    assert!(tx.is_dirty());
    let _ = tx.commit().unwrap();
    journal.force_all().unwrap();
    let (recovered, _) = recover(&crashed(&device));
    let mut tx = begin(&recovered);
    let buffer = copy_of_superblock(&mut tx);
    assert_eq!(&buffer.bytes()[LABEL], b"hello label!");
}

#[test]
fn unused_reserved_blocks_are_returned_by_commit() {
    let device = make();
    let journal = open(&device, 0);
    let free = journal.counts().free_blocks;
    let refused = journal.begin(TransactionKind::Write, free + 1);
    assert!(matches!(refused, Err(Error::Posix(PosixError::NoSpace))));
    let mut tx = journal.begin(TransactionKind::Write, free).unwrap();
    assert!(journal.begin(TransactionKind::Write, 1).is_err());
    tx.use_blocks(10);
    tx.free_blocks(4);
    assert_eq!(tx.blocks_left(), free - 10);
    let _ = tx.commit().unwrap();
    assert_eq!(journal.counts().free_blocks, free - 6);
}

#[test]
fn use_of_more_blocks_than_reserved_shuts_the_volume_down() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = journal.begin(TransactionKind::Write, 2).unwrap();
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.use_blocks(3);
    assert!(matches!(tx.commit(), Err(Error::Shutdown)));
    assert!(journal.is_shut_down());
}

#[test]
fn cancel_of_a_dirty_inode_shuts_the_volume_down_and_loses_the_change() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
    tx.cancel();
    assert!(journal.is_shut_down());
    assert!(record.latch().try_lock_exclusive(), "the latch is released nevertheless");
    assert!(journal.begin(TransactionKind::Write, 0).is_err());
    let (recovered, _) = recover(&crashed(&device));
    assert_eq!(root(&recovered).core().unwrap().uid, 0);
}

#[test]
fn commit_or_break_commits_a_result_and_cancels_a_break() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let broken = begin(&journal).commit_or_break(|tx| {
        tx.join(&record);
        Ok(ControlFlow::<u8, ()>::Break(3))
    });
    assert_eq!(broken.unwrap(), ControlFlow::Break(3));
    assert!(!journal.is_shut_down(), "the cancelled transaction was clean");
    let done = begin(&journal).commit_or_break(|tx| {
        tx.join(&record);
        change_core(tx, &record, |core| core.uid = 5);
        Ok(ControlFlow::<(), u8>::Continue(7))
    });
    assert_eq!(done.unwrap(), ControlFlow::Continue(7));
    assert_eq!(record.core().unwrap().uid, 5);
    let failed = begin(&journal).commit_or_break(|tx| {
        tx.join(&record);
        change_core(tx, &record, |core| core.uid = 6);
        Err::<ControlFlow<()>, _>(PosixError::NotFound.into())
    });
    assert!(matches!(failed, Err(Error::Posix(PosixError::NotFound))));
    assert!(journal.is_shut_down(), "the cancelled transaction was dirty");
}

#[test]
fn commit_or_cancel_commits_success_and_cancels_failure() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let set_owner = |tx: &mut Transaction<'_>, uid| {
        tx.join(&record);
        change_core(tx, &record, |core| core.uid = uid);
    };
    let done = begin(&journal).commit_or_cancel(|tx| {
        set_owner(tx, 1);
        Ok(7)
    });
    assert_eq!(done.unwrap(), 7);
    assert_eq!(record.core().unwrap().uid, 1);
    let refused = begin(&journal).commit_or_cancel(|tx| {
        tx.join(&record);
        Err::<(), _>(PosixError::NotFound.into())
    });
    assert!(matches!(refused, Err(Error::Posix(PosixError::NotFound))));
    assert!(!journal.is_shut_down(), "the cancelled transaction was clean");
    let failed = begin(&journal).commit_or_cancel(|tx| {
        set_owner(tx, 2);
        Err::<(), _>(PosixError::NotFound.into())
    });
    assert!(matches!(failed, Err(Error::Posix(PosixError::NotFound))));
    assert!(journal.is_shut_down(), "the cancelled transaction was dirty (I3)");
    assert!(record.latch().try_lock_exclusive());
}

#[test]
#[should_panic(expected = "neither committed nor cancelled")]
fn drop_of_a_dirty_transaction_panics() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 1);
}

#[test]
fn commit_of_an_unencodable_time_is_refused() {
    let device = make();
    let journal = open(&device, 0);
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| {
        core.modify_time = Timestamp::new(i64::MAX, 0).unwrap();
    });
    assert!(matches!(tx.commit(), Err(Error::Posix(PosixError::OutOfRange))));
    assert!(journal.is_shut_down());
}

#[test]
fn idle_log_is_covered_once() {
    let device = make();
    let journal = open(&device, 0);
    assert!(!journal.cover_if_idle().unwrap(), "nothing was written");
    let record = root(&journal);
    let mut tx = begin(&journal);
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 5);
    let _ = tx.commit().unwrap();
    assert!(!journal.cover_if_idle().unwrap(), "the log is not idle");
    journal.log().quiesce().unwrap();
    assert!(journal.cover_if_idle().unwrap());
    assert!(!journal.cover_if_idle().unwrap(), "a covered log is not covered again");
    // Read without the log: everything is in place.
    let kind = BlockKind::InodeCluster;
    let place = journal.geometry().inode_location(record.number()).unwrap();
    let on_disk = journal.cache().read_fresh(place.cluster, place.cluster_bytes, kind).unwrap();
    let bytes = on_disk.bytes();
    assert_eq!(bytes[place.offset_bytes as usize + 11], 5, "the last byte of the owner");
}

#[test]
fn durable_sequence_is_that_of_the_last_forced_commit() {
    let device = make();
    let journal = open(&device, 0);
    for uid in 1..4 {
        let before = journal.durable_sequence();
        let mut tx = begin(&journal);
        tx.join(&root(&journal));
        change_core(&mut tx, &root(&journal), |core| core.uid = uid);
        let sequence = tx.commit().unwrap().sequence;
        assert!(before < sequence);
        assert_eq!(journal.durable_sequence(), before, "it is only in memory");
        journal.force(sequence).unwrap();
        assert_eq!(journal.durable_sequence(), sequence);
    }
}
