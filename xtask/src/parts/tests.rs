use std::process::Command;

use clap::ValueEnum;

use super::{BESIDE_TESTS, Part, REPORT, print_block, run_beside, run_logged, split};
use crate::report::Report;

/// Runs a shell script as the part `style` and returns its report, without the line of its time.
fn run_script(script: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    let report = run_logged("style", shell, &place.path().join("parts/style.log")).to_string();
    let (time, rest) = report.split_once('\n').unwrap();
    assert!(time.ends_with(" style, beside the tests"), "{time}");
    rest.replace("exit status: 3", "status 3")
}

/// Returns a script that prints lines, then `report`, and ends with `status`.
fn script(report: &str, status: u8) -> String {
    format!("echo checked; echo a warning >&2; echo '{REPORT}{report}'; exit {status}")
}

const PASSED: &str =
    r#"{"passed":3,"failed":0,"skipped":1,"failures":[],"reasons":["doc: none"],"times":[]}"#;
const FAILED: &str =
    r#"{"passed":2,"failed":1,"skipped":0,"failures":["clippy"],"reasons":[],"times":[]}"#;

#[test]
fn every_part_except_the_tests_runs_beside_them_once() {
    let parts: Vec<_> =
        Part::value_variants().iter().filter(|part| **part != Part::Tests).collect();
    assert_eq!(parts, BESIDE_TESTS.iter().collect::<Vec<_>>());
}

#[test]
fn report_of_a_part_is_taken_from_its_last_line() {
    assert_eq!(run_script(&script(PASSED, 0)), "skipped: doc: none\n3 passed, 0 failed, 1 skipped");
    assert_eq!(run_script(&script(FAILED, 3)), "failed: clippy\n2 passed, 1 failed, 0 skipped");
}

#[test]
fn part_with_a_failure_status_or_without_a_report_fails() {
    let failed = run_script(&script(PASSED, 3));
    assert!(failed.contains("failed: style: sh -c"), "{failed}");
    assert!(
        failed.ends_with("status 3\nskipped: doc: none\n3 passed, 1 failed, 1 skipped"),
        "{failed}"
    );
    for script in ["echo words", "", &script("{}", 0)] {
        let failed = run_script(script);
        assert_eq!(
            failed,
            "failed: style: the part ended without a report\n0 passed, 1 failed, 0 skipped"
        );
    }
    assert!(run_script("kill -9 $$").contains("signal: 9"));
}

#[test]
fn output_of_a_part_is_kept_whole_without_its_report() {
    let output = format!("one\ntwo\n{REPORT}{PASSED}\n");
    let (text, report) = split(&output);
    assert_eq!(text, "one\ntwo");
    assert_eq!(report.unwrap().counts(), (3, 0, 1));
    let (text, report) = split("one\ntwo\n");
    assert_eq!((text, report.is_none()), ("one\ntwo", true));
    print_block("style", text);
}

#[test]
fn results_of_the_tests_are_added_to_those_of_the_parts() {
    let place = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    run_beside(place.path(), &mut report, &[], &[], |report, beside, _| {
        report.check("tests", Ok(()));
        assert_eq!(beside.take_last(), None);
    });
    assert_eq!(report.counts(), (1, 0, 0));
}
