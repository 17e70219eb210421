use std::io::Read;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::{Gauge, Measure, Subject, SummaryWhen, Tally, Work, duration, grouped, time_left};

fn work(subject: Subject, measure: Measure) -> Work {
    Work { doing: "importing", done: "imported", subject, summary: SummaryWhen::Always, measure }
}

fn tally(files: u64, directories: u64, bytes: u64) -> Tally {
    let tally = Tally::default();
    tally.files.add(files);
    tally.directories.add(directories);
    tally.add_bytes(bytes);
    tally
}

#[track_caller]
fn check_summary(subject: Subject, tally: &Tally, milliseconds: u64, expected: &Expect) {
    let elapsed = Duration::from_millis(milliseconds);
    expected.assert_eq(&work(subject, Measure::Unknown).summary(tally, elapsed, 0));
}

#[test]
fn summary_names_counts_time_and_rate() {
    let many = tally(58_012, 6_000, 519 << 20);
    let text = expect!["imported 58,012 files, 519 MiB in 3.2 s (162 MiB/s)"];
    check_summary(Subject::Contents, &many, 3_200, &text);
    let text = expect!["imported 1 file, 5 B in 0.02 s (250 B/s)"];
    check_summary(Subject::Contents, &tally(1, 0, 5), 20, &text);
    let text = expect!["imported 2 directories, 0 B in 1 min 1 s (0 B/s)"];
    check_summary(Subject::Contents, &tally(0, 2, 0), 61_999, &text);
    let text = expect!["imported 3 files in 2 s (1/s)"];
    check_summary(Subject::Files, &tally(2, 1, 0), 2_000, &text);
    let text = expect!["imported 1.5 KiB in 1 s (1.5 KiB/s)"];
    check_summary(Subject::Bytes, &tally(0, 0, 1536), 1_000, &text);
}

#[test]
fn summary_names_failures() {
    let text =
        work(Subject::Files, Measure::Unknown).summary(&tally(1, 0, 0), Duration::from_secs(1), 2);
    assert_eq!(text, "imported 1 file in 1 s (1/s); 2 failed");
}

#[test]
fn line_with_known_end_shows_time_left() {
    let counted = tally(10, 0, 1 << 20);
    counted.expected.set(40);
    let line = work(Subject::Files, Measure::Files(40)).line(&counted, Duration::from_secs(5));
    assert_eq!(line.text, "importing: 10 files, 2/s, 15 s left");
    assert_eq!(line.fraction, Some((10, 40)));
    let line = work(Subject::Contents, Measure::Unknown).line(&counted, Duration::from_secs(2));
    assert_eq!(line.text, "importing: 10 files, 1.0 MiB, 512 KiB/s");
    assert_eq!(line.fraction, None);
    let line = work(Subject::Step, Measure::Unknown).line(&counted, Duration::from_secs(2));
    assert_eq!(line.text, "importing, 2 s");
}

#[test]
fn line_past_the_expected_amount_shows_no_time_left() {
    let counted = tally(50, 0, 0);
    counted.expected.set(40);
    let line = work(Subject::Files, Measure::Files(40)).line(&counted, Duration::from_secs(5));
    assert_eq!((line.text.as_str(), line.fraction), ("importing: 50 files, 10/s", Some((40, 40))));
}

#[test]
fn gauge_counts_read_bytes() {
    let gauge = Gauge::new(8);
    let mut reader = gauge.follow(&b"12345678"[..]);
    reader.read_exact(&mut [0; 6]).unwrap();
    let second = Gauge::new(16);
    let line = work(Subject::Contents, Measure::Inputs(vec![gauge, second.clone()]));
    let line = |elapsed| line.line(&tally(0, 0, 0), elapsed);
    assert_eq!(line(Duration::ZERO).fraction, Some((6, 24)));
    std::io::copy(&mut second.follow(&[0; 6][..]), &mut std::io::sink()).unwrap();
    let text = line(Duration::from_secs(8)).text;
    assert!(text.ends_with(", 8 s left"), "half is done: {text}");
}

#[test]
fn description_has_the_keys_of_its_subject() {
    let object = work(Subject::Contents, Measure::Unknown).describe(
        &tally(1, 2, 3),
        Duration::from_nanos(4),
        5,
    );
    let text = serde_json::to_string(&object).unwrap();
    assert_eq!(text, r#"{"files":1,"directories":2,"bytes":3,"failures":5,"duration_ns":4}"#);
    let object =
        work(Subject::Files, Measure::Unknown).describe(&tally(1, 2, 3), Duration::ZERO, 0);
    assert_eq!(object["imported"], 3);
}

#[test]
fn numbers_and_durations_are_short() {
    let numbers = [0, 999, 1_000, 58_012, 1_234_567].map(grouped);
    assert_eq!(numbers, ["0", "999", "1,000", "58,012", "1,234,567"]);
    let durations = [0.0, 0.256, 3.21, 59.94, 61.0, 3_723.0]
        .map(|seconds| duration(Duration::from_secs_f64(seconds)));
    assert_eq!(durations, ["0.00 s", "0.26 s", "3.2 s", "59.9 s", "1 min 1 s", "1 h 2 min"]);
    assert_eq!(time_left(0, 10, Duration::from_secs(9)), None);
    assert_eq!(time_left(9, 10, Duration::from_secs(9)), Some(Duration::from_secs(1)));
}
