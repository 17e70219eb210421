use rustix::io::Errno;

use super::{Direction, Statistics};
use crate::transport::wire::Opcode;

#[test]
fn statistics_count_requests_and_failures() {
    let statistics = Statistics::new();
    for outcome in [Ok(()), Err(Errno::NOSYS), Err(Errno::NOENT)] {
        assert_eq!(statistics.measure(Opcode::Lookup, || outcome), outcome);
    }
    let text = statistics.to_prometheus();
    assert!(text.contains("ferroxfs_request_seconds_count{request=\"lookup\"} 3\n"), "{text}");
    assert!(text.contains("ferroxfs_request_failures_total{request=\"lookup\"} 1\n"), "{text}");
    assert!(text.contains("{request=\"lookup\",le=\"+Inf\"} 3\n"), "{text}");
    assert!(!text.contains("getattr"), "{text}");
}

#[test]
fn statistics_count_bytes() {
    let statistics = Statistics::new();
    statistics.add_bytes(Direction::Read, 5);
    statistics.add_bytes(Direction::Written, 1 << 20);
    statistics.add_bytes(Direction::Written, 7);
    let text = statistics.to_prometheus();
    assert!(text.contains("\nferroxfs_read_bytes_total 5\n"), "{text}");
    assert!(text.contains("\nferroxfs_written_bytes_total 1048583\n"), "{text}");
}

#[test]
fn prometheus_lines_of_a_metric_are_adjacent() {
    let statistics = Statistics::new();
    for opcode in [Opcode::Lookup, Opcode::Read] {
        statistics.measure(opcode, || Ok(())).expect("counted");
    }
    let text = statistics.to_prometheus();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut metrics: Vec<_> = lines.map(|line| line.starts_with("ferroxfs_request_s")).collect();
    metrics.dedup();
    assert_eq!(metrics, [true, false], "{text}");
}
