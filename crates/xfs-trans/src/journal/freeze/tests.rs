use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xfs_buffer::Error;
use xfs_format::reservation::TransactionKind;
use xfs_log::Shutdown;

use crate::Journal;
use crate::testing::{change_core, crashed, make, make_with, open, recovered_parts};

/// The time for which a test waits before it concludes that a thread is blocked. A thread that is
/// not blocked finishes much sooner.
const A_WHILE: Duration = Duration::from_millis(30);

/// Changes the owner of the root directory. Returns the sequence number of the checkpoint that has
/// the change.
fn change(journal: &Arc<Journal>, uid: u32) -> xfs_buffer::Result<u64> {
    let record = journal.inode(journal.superblock().root_inode)?;
    let mut tx = journal.begin(TransactionKind::Write, 0)?;
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = uid);
    tx.commit().map(|committed| committed.sequence)
}

#[test]
fn copy_of_a_frozen_volume_has_everything_in_place() {
    for threads in [0, 1] {
        let device = make();
        let journal = open(&device, threads);
        change(&journal, 7).unwrap();
        journal.freeze().unwrap();
        assert!(journal.log().ail().is_empty() && !journal.log().needs_cover());
        let (_, replayed) = recovered_parts(&crashed(&device));
        assert_eq!(replayed.summary().items, 2, "only the superblock, twice");
        journal.thaw();
        change(&journal, 8).unwrap();
        journal.unmount().unwrap();
    }
}

/// Checks that freezing a volume that has not changed since it was opened does not write to the
/// log.
#[test]
fn freeze_of_an_idle_volume_writes_nothing() {
    let device = make();
    let journal = open(&device, 1);
    journal.freeze().unwrap();
    assert!(crate::testing::is_clean(&device));
    journal.thaw();
    journal.unmount().unwrap();
}

/// Checks that threads that change inodes make no commit while the volume is frozen, and continue
/// after the thaw. The test uses two logs. One is so small that no slot keeps log space for later
/// transactions. In the other one, slots keep such space.
#[test]
fn begin_on_a_frozen_volume_waits_for_thaw() {
    for options in ["-l size=16m", "-l size=64m"] {
        let device = make_with(options);
        let journal = open(&device, 1);
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for uid in 0..4 {
                let (journal, stop, done) = (&journal, &stop, &done);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        change(journal, uid).unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..10 {
                journal.freeze().unwrap();
                let before = done.load(Ordering::Relaxed);
                let commits = journal.log().counts().commits;
                thread::sleep(A_WHILE);
                assert!(
                    done.load(Ordering::Relaxed) <= before + 4,
                    "at most four threads had committed and not counted"
                );
                assert_eq!(journal.log().counts().commits, commits);
                assert!(journal.log().ail().is_empty());
                assert_eq!(journal.log().space().granted, 0);
                journal.thaw();
                let thawed = done.load(Ordering::Relaxed);
                while done.load(Ordering::Relaxed) < thawed + 10 {
                    thread::yield_now();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        journal.unmount().unwrap();
    }
}

#[test]
fn freeze_waits_for_transactions_in_progress() {
    let journal = open(&make(), 1);
    let frozen = AtomicBool::new(false);
    let tx = journal.begin(TransactionKind::Write, 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            journal.freeze().unwrap();
            frozen.store(true, Ordering::SeqCst);
        });
        thread::sleep(A_WHILE);
        assert!(!frozen.load(Ordering::SeqCst));
        tx.cancel();
    });
    journal.thaw();
    journal.unmount().unwrap();
}

#[test]
fn shutdown_wakes_threads_that_wait_for_thaw() {
    let journal = open(&make(), 1);
    journal.freeze().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| change(&journal, 1));
        thread::sleep(A_WHILE);
        journal.shut_down(Shutdown::Flush).unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Shutdown)));
    });
    journal.thaw();
    assert!(matches!(journal.freeze(), Err(Error::Shutdown)));
    assert!(matches!(change(&journal, 1), Err(Error::Shutdown)));
}
