//! Column chunks of a few values in long runs.
//!
//! Owns: collecting the runs, and the pages of such a chunk. They are a dictionary with the values,
//! and one data page with the runs of their indexes. So the chunk takes time for each run, where
//! the writer of `parquet` encodes row by row.
//!
//! ```text
//! dictionary page:  the values, as PLAIN
//! data page:        bit width of the indexes (1)
//!                   for each run: number of rows << 1 (LEB128), index (0 or 1)
//! ```
//!
//! The index of a dictionary with one value has no bits, and takes no byte.

use std::io::Write;

use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::AsBytes as _;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::output::arrow::RunValue;

/// The greatest number of values of such a column. It is small, because a value is looked up by
/// comparing it with all of them. An index takes at most one byte.
const MOST_VALUES: usize = 64;

/// The rows of a column as runs of a few values. No value is null.
#[derive(Default)]
pub(super) struct ColumnRuns {
    values: Vec<RunValue>,
    /// The index of the value, and the number of rows, of each run.
    runs: Vec<(u8, usize)>,
    rows: usize,
}

impl ColumnRuns {
    /// Adds runs of rows. Returns `false`, and adds none, if the column would have too many values.
    pub(super) fn extend(&mut self, runs: &[(RunValue, usize)]) -> bool {
        let before = (self.values.len(), self.runs.len(), self.rows);
        for (value, rows) in runs {
            let found = self.values.iter().position(|known| known == value);
            let index = found.unwrap_or(self.values.len());
            if found.is_none() {
                self.values.push(value.clone());
            }
            let Some(index) = u8::try_from(index).ok().filter(|_| index < MOST_VALUES) else {
                self.values.truncate(before.0);
                self.runs.truncate(before.1);
                self.rows = before.2;
                return false;
            };
            self.runs.push((index, *rows));
            self.rows += rows;
        }
        true
    }

    /// Returns the runs: the value of each and its number of rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&RunValue, usize)> {
        self.runs.iter().map(|&(index, rows)| {
            let value = self.values.get(usize::from(index));
            (value.expect("a run has the index of a value"), rows)
        })
    }
}

/// A column chunk of a few values in long runs.
pub(super) struct RunsChunk {
    column: ColumnDescPtr,
    column_runs: ColumnRuns,
    rows: u32,
}

impl RunsChunk {
    /// Creates the chunk of a row group.
    pub(super) fn new(column: ColumnDescPtr, column_runs: ColumnRuns) -> Self {
        let rows = u32::try_from(column_runs.rows);
        let rows = rows.expect("a row group has the rows of a few units");
        Self { column, column_runs, rows }
    }

    pub(super) fn append_to_row_group<W: Write + Send>(
        self,
        writer: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let values = self.plain_values();
        let length = values.len();
        let dictionary = pages.write_page(CompressedPage::new(
            Page::DictionaryPage {
                buf: values.into(),
                num_values: self.column_runs.values.len() as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            },
            length,
        ))?;
        let runs = self.index_runs();
        let length = runs.len();
        let data = pages.write_page(CompressedPage::new(
            Page::DataPageV2 {
                buf: runs.into(),
                num_values: self.rows,
                encoding: Encoding::RLE_DICTIONARY,
                num_nulls: 0,
                num_rows: self.rows,
                def_levels_byte_len: 0,
                rep_levels_byte_len: 0,
                is_compressed: false,
                statistics: None,
            },
            length,
        ))?;
        let bytes = sink.into_inner()?;
        let size = i64::try_from(bytes.len()).expect("memory has less than 2^63 bytes");
        let mut metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE_DICTIONARY])
            .set_num_values(self.rows.into())
            .set_total_compressed_size(size)
            .set_total_uncompressed_size(size)
            .set_dictionary_page_offset(Some(dictionary.offset.cast_signed()))
            .set_data_page_offset(data.offset.cast_signed());
        if let Some(statistics) = self.statistics() {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows.into(),
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        writer.append_column(&bytes::Bytes::from(bytes), close)
    }

    /// Returns the values in the encoding PLAIN.
    fn plain_values(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        for value in &self.column_runs.values {
            match value {
                RunValue::Narrow(number) => {
                    plain.extend_from_slice(number.cast_signed().as_bytes())
                }
                RunValue::Wide(number) => plain.extend_from_slice(number.cast_signed().as_bytes()),
                RunValue::Text(text) => {
                    let length = i32::try_from(text.len());
                    let length = length.expect("the values of such columns are short");
                    plain.extend_from_slice(length.as_bytes());
                    plain.extend_from_slice(text.as_bytes());
                }
            }
        }
        plain
    }

    /// Returns the data page: the bit width of the indexes, and the runs.
    fn index_runs(&self) -> Vec<u8> {
        let bit_width = self.column_runs.values.len().saturating_sub(1).checked_ilog2();
        let bit_width = bit_width.map_or(0, |last| last as u8 + 1);
        let mut page = vec![bit_width];
        for &(index, rows) in &self.column_runs.runs {
            let mut header = (rows as u64) << 1;
            while header >= 0x80 {
                page.push(header as u8 | 0x80);
                header >>= 7;
            }
            page.push(header as u8);
            if bit_width != 0 {
                page.push(index);
            }
        }
        page
    }

    /// Returns minimum and maximum of the column. Columns of text have none. Numbers are unsigned,
    /// and are stored as signed ones.
    fn statistics(&self) -> Option<Statistics> {
        let narrow = self.column_runs.values.iter().map(|value| match value {
            RunValue::Narrow(number) => Some(*number),
            _ => None,
        });
        if let Some(Some((least, greatest))) =
            narrow.collect::<Option<Vec<_>>>().map(least_and_greatest)
        {
            return Some(Statistics::Int32(bounds(least.cast_signed(), greatest.cast_signed())));
        }
        let wide = self.column_runs.values.iter().map(|value| match value {
            RunValue::Wide(number) => Some(*number),
            _ => None,
        });
        let (least, greatest) = least_and_greatest(wide.collect::<Option<Vec<_>>>()?)?;
        Some(Statistics::Int64(bounds(least.cast_signed(), greatest.cast_signed())))
    }
}

fn least_and_greatest<T: Copy + Ord>(values: Vec<T>) -> Option<(T, T)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

fn bounds<T>(least: T, greatest: T) -> ValueStatistics<T> {
    ValueStatistics::new(Some(least), Some(greatest), None, Some(0), false)
}
