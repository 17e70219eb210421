use std::collections::BTreeMap;

use super::{parse, print};

const TEXT: &str = "\
# TYPE ferroxfs_request_seconds histogram
ferroxfs_request_seconds_bucket{request=\"read\",le=\"+Inf\"} 4
ferroxfs_request_seconds_sum{request=\"read\"} 0.001
ferroxfs_request_seconds_count{request=\"read\"} 4
ferroxfs_request_failures_total{request=\"read\"} 1
";

#[test]
fn a_table_shows_what_came_since() {
    let rows = parse(TEXT);
    let mut out = Vec::new();
    print(&rows, &BTreeMap::new(), &mut out).expect("printed");
    let text = String::from_utf8(out).expect("text");
    let cells: Vec<_> = text.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(cells, ["read", "4", "1", "250.0"]);
    let mut out = Vec::new();
    print(&rows, &rows, &mut out).expect("printed");
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
}
