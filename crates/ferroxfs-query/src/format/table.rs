//! The table for people.

use std::fmt::Write as _;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

use crate::failure::Failure;
use crate::output::Output;
use crate::rows::{Kind, Rows};

/// The number of rows that decide how wide the columns are.
const SAMPLE: usize = 1000;

/// A writer of aligned columns. The first rows decide their widths.
pub(super) struct TableWriter<'o> {
    output: &'o mut Output,
    waiting: Rows,
    /// The widths; empty until the first rows are known.
    widths: Vec<usize>,
}

impl<'o> TableWriter<'o> {
    pub(super) fn new(schema: &SchemaRef, output: &'o mut Output) -> Self {
        Self { output, waiting: Rows::new(schema), widths: Vec::new() }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.waiting.add(batch)?;
        match self.waiting.rows.len() < SAMPLE {
            true => Ok(()),
            false => self.flush(),
        }
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }

    /// Writes the rows that wait, and before the first one the names of the columns.
    fn flush(&mut self) -> Result<(), Failure> {
        let columns = &self.waiting.columns;
        let shown = |row: &Vec<_>| -> Vec<String> {
            let cells = row.iter().zip(columns);
            cells.map(|(cell, column): (&crate::rows::Cell, _)| cell.shown(column.kind)).collect()
        };
        let rows: Vec<Vec<String>> = self.waiting.rows.iter().map(shown).collect();
        let mut text = String::new();
        if self.widths.is_empty() {
            let names: Vec<String> = columns.iter().map(|it| it.name.clone()).collect();
            self.widths = names.iter().map(|name| name.chars().count()).collect();
            for row in &rows {
                for (width, cell) in self.widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.chars().count());
                }
            }
            self.line(&names, &mut text);
        }
        for row in &rows {
            self.line(row, &mut text);
        }
        self.waiting.rows.clear();
        self.output.write(text.as_bytes())
    }

    fn line(&self, cells: &[String], text: &mut String) {
        let columns = self.widths.iter().zip(&self.waiting.columns).zip(cells);
        let mut line = String::new();
        for ((&width, column), cell) in columns {
            let written = match column.kind {
                Kind::Text => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
            written.expect("a string takes everything");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
