//! A volume without damage: tests that everything is delivered.

use std::cell::RefCell;
use std::rc::Rc;

use xfs_evidence::find_superblock;
use xfs_salvage::{Salvage, SalvageOptions, Status};
use xfs_testkit::{NeverWritten, golden};

use crate::support::salvage;

/// Checks S1 and S3 of the crate, with a device that panics when it is written: every file is
/// delivered complete.
#[test]
fn whole_volume_is_delivered_complete() {
    let device = NeverWritten::new(golden());
    let delivered = salvage(&device, SalvageOptions::default());
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

/// Drops one file without reading it, one after reading a part of it, and one after
/// `set_copied`. Only the last may be reported as complete.
#[test]
fn file_whose_copy_is_not_finished_is_reported_as_not_copied() {
    let device = golden();
    let superblock = find_superblock(&device).unwrap().unwrap().superblock;
    let salvage = Salvage::survey(&device, &superblock, SalvageOptions::default(), &()).unwrap();
    let statuses: Rc<RefCell<Vec<Status>>> = Rc::default();
    let sink = Rc::clone(&statuses);
    salvage.report_to(move |report| sink.borrow_mut().push(report.status));
    let files = salvage.find(b"files", &()).unwrap().unwrap();
    let find = |name: &[u8]| files.entries().find(|(found, _)| found == name).unwrap().1;
    let (first, second, third) = (find(b"original"), find(b"shared"), find(b"sparse"));
    statuses.borrow_mut().clear();
    drop(first);
    assert!(second.read_at(&mut [0; 512], 0) > 0);
    drop(second);
    third.set_copied();
    drop(third);
    let expected = [Status::NotCopied, Status::NotCopied, Status::Complete];
    assert_eq!(*statuses.borrow(), expected);
    assert!(salvage.totals().not_copied >= 2, "{:?}", salvage.totals());
}
