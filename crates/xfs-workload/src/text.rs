//! Formats a benchmark report as text: tables that are readable in a terminal and valid in
//! Markdown.

use std::fmt::Write;

use crate::facts::facts;
use crate::report::Report;
use crate::tables::{Table, tables};

/// Returns the report as text. Tables with details are left out unless `with_details` is true.
#[must_use]
pub fn text(report: &Report, with_details: bool) -> String {
    let mut out = String::new();
    for (name, value) in facts(report) {
        line(&mut out, &format!("{name}: {value}"));
    }
    for section in report.sections() {
        for table in tables(report, section) {
            if with_details || !table.is_detail {
                draw(&mut out, &table);
            }
        }
    }
    if !report.not_measured.is_empty() {
        line(&mut out, "\nNot measured:\n");
        for note in &report.not_measured {
            line(&mut out, &format!("- {}: {}", note.what, note.why));
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    _ = writeln!(out, "{text}");
}

fn draw(out: &mut String, table: &Table) {
    let all = || std::iter::once(&table.head).chain(&table.rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    line(out, &format!("\n{}\n", table.title));
    for (number, row) in all().enumerate() {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        line(out, &format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
        if number == 0 {
            let rules = widths.iter().enumerate().map(|(column, width)| match column {
                0 => "-".repeat(width + 2),
                _ => format!("{}:", "-".repeat(width + 1)),
            });
            line(out, &format!("|{}|", rules.collect::<Vec<_>>().join("|")));
        }
    }
}

#[cfg(test)]
mod tests;
