//! Formats a benchmark report as one HTML page: charts, and tables for readers who want the
//! numbers.
//!
//! Owns: the layout of the page. Does **not** own: charts ([`chart`]), tables ([`crate::tables`]).
//! The page is self-contained: it loads nothing and runs no scripts. It follows the reader's light
//! or dark colour scheme.

mod chart;

use std::fmt::Write;

use crate::facts::facts;
use crate::report::{Measurement, Report};
use crate::tables::{MICROSECONDS, Table, is_warm_beside, rate, tables, threads_on};
use crate::variant::Variant;
use chart::{Chart, ChartLine, draw};

const STYLE: &str = include_str!("html/style.css");

/// Returns the report as an HTML page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut page = Page { out: String::new() };
    page.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>");
    page.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
    page.put("<title>ferroxfs bench</title>");
    page.put(&format!("<style>\n{STYLE}</style>\n</head>\n<body>\n<main>"));
    page.put("<h1>ferroxfs performance on this machine</h1>");
    headlines(&mut page, report);
    for section in report.sections() {
        page.put(&format!("<section>\n<h2>{}</h2>", escape(section)));
        charts(&mut page, report, section);
        page.put("<details>\n<summary>Figures</summary>");
        for table in tables(report, section) {
            draw_table(&mut page, &table);
        }
        page.put("</details>\n</section>");
    }
    footer(&mut page, report);
    page.put("</main>\n</body>\n</html>");
    page.out
}

/// Escapes text for use in an element or a quoted attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

struct Page {
    out: String,
}

impl Page {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }
}

/// Adds the main figure of each step to the page: the figure for the largest number of threads that
/// does not exceed the number of processors.
fn headlines(page: &mut Page, report: &Report) {
    page.put("<div class=\"tiles\">");
    for section in report.sections() {
        let mut threads = report.threads(section);
        threads.retain(|threads| *threads <= report.machine.processors);
        let Some(most) = threads.into_iter().max() else { continue };
        for step in report.steps(section) {
            let find = |variant, threads| report.find(section, step, variant, threads);
            // A latency is not a rate.
            let ours = find(Variant::Ours, most).filter(|ours| ours.latency.is_none());
            let Some(ours) = ours else { continue };
            let mut notes = Vec::new();
            if let Some(theirs) = find(Variant::Kernel, most) {
                let warm = if is_warm_beside(theirs, ours) { ", which was warm" } else { "" };
                notes.push(format!("{:.1} × the kernel{warm}", ours.rate() / theirs.rate()));
            }
            if let Some(alone) = find(Variant::Ours, 1).filter(|_| most > 1) {
                notes.push(format!("{:.1} × one thread", ours.rate() / alone.rate()));
            }
            // Other sections have steps of the same names.
            let is_first = report.sections().first() == Some(&section);
            let title = if is_first { step.to_owned() } else { format!("{section}: {step}") };
            tile(page, &title, ours, &notes);
        }
    }
    page.put("</div>");
}

fn tile(page: &mut Page, title: &str, ours: &Measurement, notes: &[String]) {
    let threads = match ours.threads {
        1 => "one thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let mut lines = format!("<small>{threads}</small>");
    for note in notes {
        // Writing to a string does not fail.
        _ = write!(lines, "<small>{}</small>", escape(note));
    }
    page.put(&format!(
        "<div class=\"tile\"><h3>{}</h3><p>{}<span>/s</span></p>{lines}</div>",
        escape(title),
        rate(ours.rate())
    ));
}

/// Adds to the page a chart for each step of a section. A chart has a line for each variant.
fn charts(page: &mut Page, report: &Report, section: &str) {
    if report.of_section(section).any(|one| one.latency.is_some()) {
        return latency_chart(page, report, section);
    }
    let threads = report.threads(section);
    page.put("<div class=\"charts\">");
    for step in report.steps(section) {
        let line = |variant: &Variant| {
            let find = |threads: &usize| report.find(section, step, *variant, *threads);
            let values: Vec<_> =
                threads.iter().map(|threads| find(threads).map(Measurement::rate)).collect();
            let has_values = values.iter().any(Option::is_some);
            has_values.then(|| ChartLine { name: variant.name(), class: class(*variant), values })
        };
        let places = threads.iter().map(|threads| threads_on(report, *threads)).collect();
        let lines = report.variants(section).iter().filter_map(line).collect();
        let chart = Chart { title: step, unit: "per second", places_are: "threads", places, lines };
        page.put(&format!("<figure>\n{}</figure>", draw(&chart).svg));
    }
    page.put("</div>");
}

/// Adds to the page one chart of the latencies of a section. Each step has a position on the
/// horizontal axis.
fn latency_chart(page: &mut Page, report: &Report, section: &str) {
    let steps = report.steps(section);
    let lines = report.variants(section).into_iter().map(|variant| {
        let find = |step: &&str| {
            let one = report
                .of_section(section)
                .find(|one| one.step == *step && one.variant == variant)?;
            Some(one.latency?.median_seconds * MICROSECONDS)
        };
        ChartLine {
            name: variant.name(),
            class: class(variant),
            values: steps.iter().map(find).collect(),
        }
    });
    let chart = Chart {
        title: section,
        unit: "microseconds, median",
        places_are: "in the log",
        places: steps.iter().map(|step| (*step).to_owned()).collect(),
        lines: lines.collect(),
    };
    page.put(&format!("<div class=\"charts\"><figure>\n{}</figure></div>", draw(&chart).svg));
}

/// Returns the name of the style sheet's class for a variant.
const fn class(variant: Variant) -> &'static str {
    match variant {
        Variant::Ours => "ours",
        Variant::OneList => "one-list",
        Variant::OneSlot => "one-slot",
        Variant::Intents => "intents",
        Variant::NoParents => "no-parents",
        Variant::LockPointer => "lock-pointer",
        Variant::Apart => "apart",
        Variant::Kernel => "kernel",
    }
}

fn draw_table(page: &mut Page, table: &Table) {
    page.put(&format!("<h4>{}</h4>\n<div class=\"wide\"><table>", escape(&table.title)));
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    page.put(&format!("<thead>{}</thead>\n<tbody>", row(&table.head, "th")));
    for cells in &table.rows {
        page.put(&row(cells, "td"));
    }
    page.put("</tbody></table></div>");
}

fn footer(page: &mut Page, report: &Report) {
    page.put("<section class=\"conditions\">\n<h2>Conditions</h2>\n<dl>");
    for (name, value) in facts(report) {
        page.put(&format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value)));
    }
    page.put("</dl>");
    if !report.not_measured.is_empty() {
        page.put("<h2>Not measured</h2>\n<dl>");
        for note in &report.not_measured {
            page.put(&format!("<dt>{}</dt><dd>{}</dd>", escape(&note.what), escape(&note.why)));
        }
        page.put("</dl>");
    }
    page.put("</section>");
}

#[cfg(test)]
mod tests;
