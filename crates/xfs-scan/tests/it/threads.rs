//! Checks scans on a simulated system that grants fewer threads than requested.

use xfs_testkit::{golden, run_with_threads};

use crate::support::{options, scan_image};

/// Checks I3 of `xfs_scan::parallel`: a scan that gets fewer threads than requested, or none at
/// all, has the same output as a scan that gets all of them.
#[test]
fn scan_works_with_fewer_threads_than_requested() {
    run_with_threads("threads::scan_works_with_fewer_threads_than_requested", |limit| {
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
