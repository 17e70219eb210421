//! A table of an answer, with a bar for the first column of bytes.

use super::Escaped;
use crate::rows::{Cell, Column, Kind, Rows};

/// Returns the table. `anchor` gives each row the identifier `anchor-N`.
pub(super) fn table(title: &str, rows: &Rows, anchor: Option<&str>) -> String {
    if rows.rows.is_empty() {
        return "<p class=quiet>No rows.</p>".to_owned();
    }
    let bar = bar_column(rows);
    let mut html =
        format!("<div class=scroll tabindex=0 role=region aria-label=\"{}\">", Escaped(title));
    html.push_str("<table><thead><tr>");
    for (number, column) in rows.columns.iter().enumerate() {
        let class = if column.kind == Kind::Text { "" } else { " class=number" };
        let name = heading(column);
        html.push_str(&format!("<th scope=col{class}><button>{}</button></th>", Escaped(&name)));
        if bar == Some(number) {
            html.push_str("<td aria-hidden=true></td>");
        }
    }
    html.push_str("</tr></thead>\n<tbody>");
    let most = bar.map_or(0, |number| most(rows, number));
    for (number, row) in rows.rows.iter().enumerate() {
        match anchor {
            Some(anchor) => html.push_str(&format!("<tr id={anchor}-{number}>")),
            None => html.push_str("<tr>"),
        }
        for (place, (cell, column)) in row.iter().zip(&rows.columns).enumerate() {
            html.push_str(&cell_html(cell, column));
            if bar == Some(place) {
                html.push_str(&bar_html(cell, most));
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Returns the name of a column for people.
fn heading(column: &Column) -> String {
    let name = column.name.strip_suffix("_bytes").unwrap_or(&column.name);
    name.replace("_bytes_", " ").replace('_', " ")
}

fn cell_html(cell: &Cell, column: &Column) -> String {
    let shown = cell.shown(column.kind);
    match (cell, column.kind) {
        (Cell::Null, _) => "<td></td>".to_owned(),
        (Cell::Number(number), _) => {
            format!("<td class=number data-value={number}>{}</td>", Escaped(&shown))
        }
        (Cell::Text(_), _) if is_identity(&column.name) => {
            format!("<td class=id>{}</td>", Escaped(&shown))
        }
        (Cell::Text(_), _) if column.name.ends_with("path") || column.name.contains("director") => {
            format!("<td class=text>{}</td>", Escaped(&shown))
        }
        (Cell::Text(_), _) => format!("<td>{}</td>", Escaped(&shown)),
    }
}

fn is_identity(name: &str) -> bool {
    name.ends_with("uuid") || name.ends_with("date") || matches!(name, "modified" | "accessed")
}

/// Returns the column that gets bars: the last one of bytes without negative numbers.
fn bar_column(rows: &Rows) -> Option<usize> {
    let is_of_bytes = |number: &usize| {
        let column = rows.columns.get(*number);
        column.is_some_and(|column| column.kind == Kind::Bytes)
            && rows.rows.iter().all(|row| value(row, *number) >= 0)
    };
    (0..rows.columns.len()).rev().find(is_of_bytes)
}

fn value(row: &[Cell], number: usize) -> i128 {
    match row.get(number) {
        Some(Cell::Number(number)) => *number,
        _ => 0,
    }
}

fn most(rows: &Rows, number: usize) -> i128 {
    rows.rows.iter().map(|row| value(row, number)).max().unwrap_or_default()
}

fn bar_html(cell: &Cell, most: i128) -> String {
    match cell {
        Cell::Number(number) if most > 0 => {
            let share = *number as f64 * 100.0 / most as f64;
            format!("<td class=bar aria-hidden=true><i style=\"width:{share:.1}%\"></i></td>")
        }
        _ => "<td class=bar aria-hidden=true></td>".to_owned(),
    }
}
