//! Tests of several threads on the smallest log: no thread waits for ever, and no change is lost.

use std::sync::Arc;
use std::thread;

use xfs_format::reservation::{TransactionKind, minimum_log_blocks};
use xfs_testkit::Prng;

use super::spare;
use crate::testing::{change_core, is_clean, make_with, open, superblock};

const THREADS: u64 = 4;
const INODES: u64 = 16;
/// The number of commits that a thread makes between two forces of the log.
const COMMITS: u32 = 3;
/// The number of times that the log wraps during the test: the threads write until its head has
/// passed the end of the log this often.
const WRAPS: u32 = 20;

/// Returns the mkfs options for a volume with the smallest valid log. The volume has none of the
/// optional btrees, because with them larger transactions would require a larger log.
fn smallest_log() -> String {
    let features = "-m rmapbt=0,reflink=0,finobt=0 -i nrext64=0";
    let superblock = superblock(&make_with(features));
    let stripe = superblock.log_stripe_unit_bytes;
    let blocks = minimum_log_blocks(&superblock.geometry, stripe);
    format!("{features} -l size={blocks}b")
}

#[test]
fn threads_wrap_the_smallest_log_without_a_hang() {
    let device = make_with(&smallest_log());
    let journal = open(&device, 1);
    let start = journal.log().ail().head().cycle();
    let workers: Vec<_> = (0..THREADS)
        .map(|seed| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                let mut prng = Prng::new(seed);
                let mut added = 0_u64;
                while journal.log().ail().head().cycle() < start + WRAPS {
                    for _ in 0..COMMITS {
                        let mut chosen =
                            [prng.within(0..INODES as usize), prng.within(0..INODES as usize)];
                        chosen.sort_unstable();
                        let kind = TransactionKind::ALL[prng.within(0..20)];
                        let mut tx = journal.begin(kind, 0).unwrap();
                        let records = chosen.map(|index| spare(&journal, index as u64));
                        records.iter().for_each(|record| tx.join(record));
                        for record in &records {
                            change_core(&mut tx, record, |core| core.size += 1);
                            added += 1;
                            if prng.within(0..8) == 0 {
                                tx.roll().unwrap();
                            }
                        }
                        let _ = tx.commit().unwrap();
                    }
                    journal.force_all().unwrap();
                }
                added
            })
        })
        .collect();
    let added: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    let total = |journal: &Arc<_>| -> u64 {
        (0..INODES).map(|index| spare(journal, index).core().unwrap().size).sum()
    };
    assert_eq!(total(&journal), added);
    journal.unmount().unwrap();
    assert!(is_clean(&device));
    assert_eq!(total(&open(&device, 0)), added);
}
