//! Scans on a system that does not give the threads that were asked for.

use xfs_testkit::{golden, run_with_threads};

use crate::support::{options, scan_image};

/// Fewer threads, or none, take longer and give the same table.
#[test]
fn threads_that_cannot_be_had_are_done_without() {
    run_with_threads("threads::threads_that_cannot_be_had_are_done_without", |limit| {
        let image = golden();
        limit.allow(0);
        assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "the limit has no effect");
        let alone = scan_image(&image, &options(4));
        assert!(alone.report.inodes > 700);
        assert_eq!(alone.report.findings, 0);
        for most in [1, 3, 4] {
            limit.allow(most);
            assert_eq!(scan_image(&image, &options(4)).text, alone.text, "{most} threads");
        }
    });
}
