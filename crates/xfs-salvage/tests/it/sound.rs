//! A volume without damage is delivered whole.

use xfs_salvage::{SalvageOptions, Status};
use xfs_testkit::golden;

use crate::support::salvage;

#[test]
fn whole_volume_is_delivered_complete() {
    let delivered = salvage(&golden(), SalvageOptions::default());
    assert!(delivered.totals.is_whole(), "{:?}", delivered.totals);
    assert_eq!(delivered.totals.missing_bytes, 0);
    assert!(delivered.notes.is_empty(), "{:?}", delivered.notes);
    assert!(delivered.files.len() > 1700, "{}", delivered.files.len());
    assert!(delivered.files.contains_key("deep/1/2/3/4/5/6/7/8"));
    assert!(!delivered.files.contains_key("orphans"));
    assert_eq!(delivered.files["short/bb"].size, 3);
    assert_eq!(delivered.files["attr-node"].attributes, 120);
    // A shared block is no block of two files.
    assert_eq!(delivered.reports["files/shared"].status, Status::Complete);
    assert_eq!(delivered.files["files/shared"].hash, delivered.files["files/original"].hash);
    for (path, report) in &delivered.reports {
        assert!(report.reasons.is_empty(), "{path}: {:?}", report.reasons);
    }
}
