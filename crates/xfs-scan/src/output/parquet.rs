//! Apache Parquet: one column chunk per field, with row groups encoded in parallel.
//!
//! Integers are delta-packed: inode numbers, times and constant columns shrink to a fraction, in
//! less time than building a dictionary takes. Columns of repeated words use a dictionary. Paths
//! are compressed with LZ4, which costs less than writing the saved bytes. A column that has one
//! value in a row group, or a few in long runs, is encoded run by run instead of row by row.

mod columns;
mod runs;

use std::io::Write;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use self::columns::properties;
use self::runs::{ColumnRuns, RunsChunk};
use super::arrow::{ColumnLayout, RowColumns, TakenColumn};
use super::facts::{Fact, Facts, MetadataFacts};
use super::{
    Appender, Encoding, Header, Output, OutputPiece, RowAppender, RowEncoder, Rows, Trailer,
};
use crate::accounting::Account;
use crate::row::{RowView, VolumeLabel};
use crate::{Fields, Finding, ScanError};

type Writer<'w> = Box<dyn Write + Send + 'w>;

/// The encoded columns of one row group.
pub(crate) struct RowGroup(Vec<ColumnChunk>);

/// An encoded column of one row group.
enum ColumnChunk {
    Encoded(Box<ArrowColumnChunk>),
    Runs(RunsChunk),
}

/// The state from which workers create their encoders.
pub(crate) struct ParquetEncoding {
    layout: ColumnLayout,
    /// The descriptors of the columns in the file.
    descriptors: Vec<ColumnDescPtr>,
    factory: ArrowRowGroupWriterFactory,
}

/// The file to which row groups are appended.
pub(crate) struct ParquetAppender<'w>(SerializedFileWriter<Writer<'w>>);

/// Returns the I/O error inside `error` unchanged, and other errors as a failure to encode rows.
pub(crate) fn output_error(error: ParquetError) -> ScanError {
    if let ParquetError::External(source) = error
        && let Ok(error) = source.downcast::<std::io::Error>()
    {
        return ScanError::Output(*error);
    }
    ScanError::Output(std::io::Error::other("the rows cannot be encoded as Parquet"))
}

/// Starts a Parquet file.
pub(super) fn begin<'w>(
    fields: Fields,
    header: Header,
    writer: Writer<'w>,
) -> Result<Output<'w>, ScanError> {
    let layout = ColumnLayout::new(fields);
    let options = ArrowWriterOptions::new().with_properties(properties(&layout.columns, header));
    let arrow = ArrowWriter::try_new_with_options(writer, Arc::clone(&layout.schema), options)
        .map_err(output_error)?;
    let (file, factory) = arrow.into_serialized_writer().map_err(output_error)?;
    let descriptors = file.schema_descr().columns().to_vec();
    Ok(Output {
        encoding: Encoding::Parquet(ParquetEncoding { layout, descriptors, factory }),
        appender: Appender {
            rows: RowAppender::Parquet(ParquetAppender(file)),
            facts: Facts::new(header, true),
        },
    })
}

impl ParquetAppender<'_> {
    pub(super) fn append(&mut self, group: RowGroup) -> Result<(), ScanError> {
        let mut writer = self.0.next_row_group().map_err(output_error)?;
        for chunk in group.0 {
            let appended = match chunk {
                ColumnChunk::Encoded(chunk) => chunk.append_to_row_group(&mut writer),
                ColumnChunk::Runs(chunk) => chunk.append_to_row_group(&mut writer),
            };
            appended.map_err(output_error)?;
        }
        writer.close().map(drop).map_err(output_error)
    }

    /// Completes the file. Its metadata contains the facts of the scan.
    pub(super) fn finish(
        mut self,
        trailer: Trailer,
        facts: MetadataFacts,
    ) -> Result<(), ScanError> {
        let text = |lines: Vec<u8>| String::from_utf8_lossy(&lines).into_owned();
        let facts = [
            ("ferroxfs.inodes", trailer.inodes.to_string()),
            ("ferroxfs.errors", trailer.findings.to_string()),
            ("ferroxfs.missing_inodes", trailer.missing_inodes.to_string()),
            ("ferroxfs.complete", (trailer.findings == 0).to_string()),
            ("ferroxfs.volumes", text(facts.volumes)),
            ("ferroxfs.facts", text(facts.lines)),
            ("ferroxfs.facts_omitted", facts.omitted.to_string()),
        ];
        for (key, value) in facts {
            self.0.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self.0.close().map(drop).map_err(output_error)
    }
}

impl ParquetEncoding {
    pub(super) fn encoder<'a>(
        &'a self,
        volume: &VolumeLabel,
    ) -> Result<ParquetEncoder<'a>, ScanError> {
        // The number of the row group matters only for encryption.
        let writers = self.factory.create_column_writers(0).map_err(output_error)?;
        let columns = writers.into_iter().map(|writer| EncodedColumn { writer, runs: None });
        Ok(ParquetEncoder {
            encoding: self,
            columns: columns.collect(),
            rows: RowColumns::new(self.layout.fields, volume),
            facts: Vec::new(),
            row_count: 0,
            encoded_bytes: 0,
        })
    }
}

/// A column of the row group that is being encoded.
struct EncodedColumn {
    writer: ArrowColumnWriter,
    /// The rows so far, if they are a few values in long runs. The writer does not have them yet.
    runs: Option<ColumnRuns>,
}

impl EncodedColumn {
    /// Adds the next rows of the column. `is_first` says that the row group has no rows yet.
    fn push(
        &mut self,
        field: &FieldRef,
        rows: TakenColumn<'_>,
        is_first: bool,
    ) -> Result<(), ScanError> {
        if is_first {
            self.runs = Some(ColumnRuns::default());
        }
        if let Some(mut runs) = self.runs.take() {
            if rows.runs().is_some_and(|next| runs.extend(&next)) {
                self.runs = Some(runs);
                return Ok(());
            }
            for (value, count) in runs.iter() {
                self.write(field, &value.to_array(count))?;
            }
        }
        self.write(field, &rows.into_array())
    }

    fn write(&mut self, field: &FieldRef, array: &ArrayRef) -> Result<(), ScanError> {
        // Every column of this schema has one leaf.
        for leaf in compute_leaves(field, array).map_err(output_error)? {
            self.writer.write(&leaf).map_err(output_error)?;
        }
        Ok(())
    }

    fn finish(self, column: ColumnDescPtr) -> Result<ColumnChunk, ScanError> {
        match self.runs {
            Some(runs) => Ok(ColumnChunk::Runs(RunsChunk::new(column, runs))),
            None => {
                let chunk = self.writer.close().map_err(output_error)?;
                Ok(ColumnChunk::Encoded(Box::new(chunk)))
            }
        }
    }
}

/// Encodes rows of one volume into one row group.
pub(super) struct ParquetEncoder<'a> {
    encoding: &'a ParquetEncoding,
    columns: Vec<EncodedColumn>,
    rows: RowColumns,
    facts: Vec<Fact>,
    /// Number of rows that the columns have.
    row_count: usize,
    /// Number of bytes of names that were encoded, before compression.
    encoded_bytes: usize,
}

impl ParquetEncoder<'_> {
    fn flush_inodes(&mut self) -> Result<(), ScanError> {
        self.encoded_bytes += self.rows.name_bytes();
        let is_first = self.row_count == 0;
        self.row_count += self.rows.count();
        let Self { encoding: ParquetEncoding { layout, .. }, columns, rows, .. } = self;
        rows.take_columns(layout, |index, rows| {
            match (layout.schema.fields().get(index), columns.get_mut(index)) {
                (Some(field), Some(column)) => column.push(field, rows, is_first),
                _ => Ok(()),
            }
        })
    }
}

impl RowEncoder for ParquetEncoder<'_> {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        if self.rows.push(view) { self.flush_inodes() } else { Ok(()) }
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        self.facts.push(Fact::Finding(finding.clone()));
        Ok(())
    }

    fn account(&mut self, account: &Account) -> Result<(), ScanError> {
        self.facts.push(Fact::Account(account.clone()));
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.encoded_bytes
    }

    fn finish(mut self: Box<Self>) -> Result<OutputPiece, ScanError> {
        self.flush_inodes()?;
        if self.row_count == 0 {
            return Ok(OutputPiece { rows: None, facts: self.facts });
        }
        let descriptors = self.encoding.descriptors.iter().cloned();
        let columns = self.columns.into_iter().zip(descriptors);
        let chunks = columns.map(|(column, descriptor)| column.finish(descriptor));
        let chunks = chunks.collect::<Result<_, _>>()?;
        Ok(OutputPiece { rows: Some(Rows::RowGroup(RowGroup(chunks))), facts: self.facts })
    }
}
