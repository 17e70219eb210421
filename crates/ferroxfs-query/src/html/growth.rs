//! The chart of growth over time.
//!
//! The line is SVG that stretches with the page. Labels and points are HTML beside it, so that they
//! keep their size on each screen.

use super::Escaped;
use crate::size;

/// A date and the space used on it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) date: String,
    pub(super) bytes: i128,
}

/// The greatest number of labels below the chart.
const LABELS: usize = 8;

/// Returns the chart. It starts at zero, so that the height of the area is the space.
pub(super) fn chart(samples: &[Sample]) -> String {
    let top = ceiling(samples.iter().map(|it| it.bytes).max().unwrap_or_default());
    let last = samples.len().saturating_sub(1);
    let across = |at: usize| if last == 0 { 50.0 } else { at as f64 * 100.0 / last as f64 };
    let down = |bytes: i128| 100.0 - bytes as f64 * 100.0 / top as f64;
    let points: Vec<(f64, f64)> =
        samples.iter().enumerate().map(|(at, it)| (across(at), down(it.bytes))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    let path = path.join(" ");
    let mut html = String::from("<div class=chart role=img aria-label=\"");
    html.push_str(&format!("{}\">", Escaped(&summary(samples))));
    for quarter in 0..=4_i128 {
        let bytes = top * quarter / 4;
        let shown = size::human(bytes);
        html.push_str(&format!(
            "<div class=rule style=\"top:{:.1}%\"><span>{shown}</span></div>",
            down(bytes)
        ));
    }
    html.push_str(&format!(
        "<svg viewBox=\"0 0 100 100\" preserveAspectRatio=none aria-hidden=true>\
         <polygon class=area points=\"{:.2},100 {path} {:.2},100\"/>\
         <polyline class=stroke points=\"{path}\"/></svg>",
        across(0),
        across(last)
    ));
    let step = samples.len().div_ceil(LABELS).max(1);
    for (at, (sample, (x, y))) in samples.iter().zip(points).enumerate() {
        let about = format!("{}: {}", sample.date, size::human(sample.bytes));
        html.push_str(&format!(
            "<span class=dot style=\"left:{x:.2}%;top:{y:.2}%\" title=\"{}\"></span>",
            Escaped(&about)
        ));
        if at % step == 0 && at + step <= last || at == last || at == 0 {
            html.push_str(&day(&sample.date, x, at, last));
        }
    }
    html.push_str("</div>");
    html
}

/// Returns the label of the date with this number, of those up to `last`.
fn day(date: &str, x: f64, at: usize, last: usize) -> String {
    let class = match at {
        _ if last == 0 => "day",
        0 => "day first",
        _ if at == last => "day last",
        _ => "day",
    };
    format!("<span class=\"{class}\" style=\"left:{x:.2}%\">{}</span>", Escaped(date))
}

fn summary(samples: &[Sample]) -> String {
    match (samples.first(), samples.last()) {
        (Some(first), Some(last)) => format!(
            "Space used, from {} on {} to {} on {}",
            size::human(first.bytes),
            first.date,
            size::human(last.bytes),
            last.date
        ),
        _ => "No scans".to_owned(),
    }
}

/// Returns a round number of bytes that is not less: 1, 2, 4 or 8 times a power of 1024, 10240 or
/// 102400.
fn ceiling(bytes: i128) -> i128 {
    let mut unit: i128 = 4;
    loop {
        for scale in [1, 10, 100] {
            for step in [1, 2, 4, 8] {
                if unit * scale * step >= bytes {
                    return unit * scale * step;
                }
            }
        }
        unit *= 1024;
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, ceiling, chart};

    #[test]
    fn ceiling_is_round_and_not_less() {
        assert_eq!(ceiling(0), 4);
        assert_eq!(ceiling(33), 40);
        assert_eq!(ceiling(4096), 4096);
        assert_eq!(ceiling(5 << 30), 8 << 30);
        for bytes in [1, 999, 123_456_789, i128::from(u64::MAX)] {
            assert!(ceiling(bytes) >= bytes);
        }
    }

    #[test]
    fn every_date_has_a_point() {
        let sample = |day: u32| Sample { date: format!("2026-11-{day:02}"), bytes: 1 << day };
        let samples: Vec<Sample> = (1..=30).map(sample).collect();
        let html = chart(&samples);
        assert_eq!(html.matches("class=dot").count(), 30);
        assert!(html.matches("<span class=\"day").count() <= 10);
        assert!(chart(&samples[..1]).contains("2026-11-01"));
    }
}
