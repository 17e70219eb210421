use super::{escape, html};
use crate::samples::report;

/// Checks that elements are properly nested, and that text has entities in place of `<` and `&`.
/// Returns the number of elements.
fn check_well_formed(page: &str) -> usize {
    let body = page.strip_prefix("<!DOCTYPE html>").expect("the doctype");
    let (mut open, mut count) = (Vec::new(), 0);
    let mut rest = body;
    while let Some((text, after)) = rest.split_once('<') {
        check_text(text, open.last().copied());
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "the innermost element is closed");
        } else if !tag.ends_with('/') {
            open.push(tag.split([' ', '\n']).next().unwrap());
            count += 1;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty(), "left open: {open:?}");
    count
}

fn check_text(text: &str, element: Option<&str>) {
    if element == Some("style") {
        return;
    }
    assert!(!text.contains('>'), "{text}");
    for entity in text.split('&').skip(1) {
        let name = entity.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot"].contains(&name), "{text}");
    }
}

#[test]
fn page_is_well_formed() {
    let count = check_well_formed(&html(&report()));
    assert!(count > 100, "{count} elements");
}

#[test]
fn page_has_every_series_and_figure() {
    let report = report();
    let page = html(&report);
    for section in report.sections() {
        for step in report.steps(section) {
            assert!(page.contains(&format!(r#"aria-label="{step}, per second, by threads""#)));
        }
    }
    for one in &report.measurements {
        let place = crate::tables::threads_on(&report, one.threads);
        let rate = crate::tables::rate(one.rate());
        let mark = format!("<title>{}, {place}: {rate} per second</title>", one.variant.name());
        assert!(page.contains(&mark), "{mark}");
    }
    for note in &report.not_measured {
        assert!(page.contains(&note.what) && page.contains(&note.why));
    }
}

/// Checks that the page loads no resources and has no scripts.
#[test]
fn page_loads_and_runs_nothing() {
    let page = html(&report());
    for word in ["<script", "<link", "<img", "http:", "https:", "url(", "@import", " src="] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn text_of_the_machine_is_escaped() {
    assert_eq!(escape(r#"a<b & "c">"#), "a&lt;b &amp; &quot;c&quot;&gt;");
    let page = html(&report());
    assert!(page.contains("A &lt;fast&gt; one") && !page.contains("<fast>"));
}

/// Checks that the class of every variant's line has a colour in the light and in the dark scheme.
#[test]
fn variant_has_a_colour_in_both_schemes() {
    for class in ["ours", "kernel", "one-list", "one-slot", "intents", "no-parents", "lock-pointer"]
    {
        assert_eq!(super::STYLE.matches(&format!("--{class}: #")).count(), 2, "{class}");
        assert!(
            super::STYLE.contains(&format!(".{class} {{ color: var(--{class}); }}")),
            "{class}"
        );
    }
}

#[test]
fn latencies_have_one_chart_of_all_steps() {
    let mut report = report();
    report.measurements.retain(|one| one.threads == 1);
    for one in &mut report.measurements {
        one.latency = Some(crate::Latency { median_seconds: 1e-5, worst_seconds: 1e-3 });
    }
    let page = html(&report);
    check_well_formed(&page);
    assert_eq!(page.matches("<svg").count(), 1);
    assert!(page.contains("<title>kernel, create: 10.0 microseconds, median</title>"));
}
