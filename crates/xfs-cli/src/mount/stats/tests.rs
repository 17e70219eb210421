use super::{Figures, parse, print};

const TEXT: &str = "\
# TYPE ferroxfs_request_seconds histogram
ferroxfs_request_seconds_bucket{request=\"read\",le=\"0.000001\"} 0
ferroxfs_request_seconds_bucket{request=\"read\",le=\"0.000004\"} 3
ferroxfs_request_seconds_bucket{request=\"read\",le=\"+Inf\"} 4
ferroxfs_request_seconds_sum{request=\"read\"} 0.001
ferroxfs_request_seconds_count{request=\"read\"} 4
ferroxfs_request_failures_total{request=\"read\"} 1
# TYPE ferroxfs_commits_total counter
ferroxfs_commits_total 17
# TYPE ferroxfs_buffer_bytes gauge
ferroxfs_buffer_bytes 4096
";

/// Prints the figures and their growth since `before`. Returns the words of each printed line.
fn lines(figures: &Figures, before: &Figures) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    print(figures, before, &mut out).expect("printed");
    let text = String::from_utf8(out).expect("text");
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn table_shows_requests_and_what_the_volume_counts() {
    let shown = lines(&parse(TEXT), &Figures::default());
    // Two of three below 4 us, spread evenly from 1 us on; the last took longer than any bucket
    // with an end.
    assert_eq!(shown[1], ["read", "4", "1", "250.0", "3.0", "4.0"]);
    assert_eq!(shown[3..], [vec!["commits", "17"], vec!["buffer", "bytes", "4096"]]);
}

#[test]
fn table_shows_what_came_since() {
    let before = parse(TEXT);
    let now = parse(&TEXT.replace(" 17", " 20").replace(" 4096", " 1024"));
    let shown = lines(&now, &before);
    assert_eq!(shown[1..], [vec![], vec!["commits", "3"], vec!["buffer", "bytes", "1024"]]);
}

/// Returns the median and the 99 % quantile that the table shows for requests of these durations.
/// All times are in microseconds.
fn shown_quantiles(durations: &[f64]) -> [f64; 2] {
    let mut text = String::new();
    for end in [4096.0, 16384.0, f64::INFINITY] {
        let count = durations.iter().filter(|duration| **duration <= end).count();
        let end = if end.is_finite() { (end / 1e6).to_string() } else { "+Inf".to_owned() };
        text +=
            &format!("ferroxfs_request_seconds_bucket{{request=\"read\",le=\"{end}\"}} {count}\n");
    }
    let (sum, count) = (durations.iter().sum::<f64>() / 1e6, durations.len());
    text += &format!("ferroxfs_request_seconds_sum{{request=\"read\"}} {sum}\n");
    text += &format!("ferroxfs_request_seconds_count{{request=\"read\"}} {count}\n");
    let shown = lines(&parse(&text), &Figures::default());
    [4, 5].map(|column| shown[1][column].parse().unwrap())
}

#[test]
fn quantile_of_a_single_request_is_its_time() {
    for duration in [7.0, 4347.0, 16000.0, 99_000.0] {
        assert_eq!(shown_quantiles(&[duration]), [duration; 2]);
    }
}

#[test]
fn quantile_stays_within_the_bounds_that_the_sum_sets() {
    // All requests are near the lower end of their bucket, or near the upper one.
    assert_eq!(shown_quantiles(&[4100.0; 10])[0], 4102.7);
    assert!(shown_quantiles(&[16380.0; 10])[0] >= 16375.0);
    let [median, most] = shown_quantiles(&[10.0, 20.0, 5000.0]);
    assert!(median < most && most <= 5030.0, "{median} {most}");
}
