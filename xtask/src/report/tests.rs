use std::time::Duration;

use super::Report;
use crate::error::Error;

#[test]
fn lines_of_test_binaries_are_added_up() {
    let mut report = Report::default();
    for line in [
        "running 4 tests",
        "test agf::tests::round_trip ... ok",
        "test agf::tests::bad_magic ... FAILED",
        "skipped: kernel: needs root",
        "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out",
        "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    ] {
        report.test_line(line);
    }
    report.check("tidy", Ok(()));
    assert_eq!(
        report.to_string(),
        "failed: agf::tests::bad_magic\n\
         skipped: kernel: needs root\n\
         43 passed, 1 failed, 1 skipped"
    );
}

#[test]
fn failed_check_is_counted_and_named() {
    let mut report = Report::default();
    report.check("tidy", Err(Error::Untidy(3)));
    report.skip("oracles", "no network");
    report.took("everything", Duration::from_millis(671_900));
    assert_eq!(
        report.to_string(),
        "11:11 everything\n\
         failed: tidy: tidy: 3 finding(s)\n\
         skipped: oracles: no network\n\
         0 passed, 1 failed, 1 skipped"
    );
}
