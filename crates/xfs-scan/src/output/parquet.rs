//! Apache Parquet: one column chunk per field, with row groups encoded in parallel.
//!
//! Integers are delta-packed: inode numbers, times and constant columns shrink to a fraction, in
//! less time than building a dictionary takes. Columns of repeated words use a dictionary. Paths
//! are compressed with LZ4, which costs less than writing the saved bytes.

mod columns;

use std::io::Write;
use std::sync::Arc;

use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use self::columns::properties;
use super::arrow::{ColumnLayout, RowColumns};
use super::facts::{Fact, Facts, MetadataFacts};
use super::{
    Appender, Encoding, Header, Output, OutputPiece, RowAppender, RowEncoder, Rows, Trailer,
};
use crate::accounting::Account;
use crate::row::{RowView, VolumeLabel};
use crate::{Fields, Finding, ScanError};

type Writer<'w> = Box<dyn Write + Send + 'w>;

/// The encoded columns of one row group.
pub(crate) struct RowGroup(Vec<ArrowColumnChunk>);

/// The state from which workers create their encoders.
pub(crate) struct ParquetEncoding {
    layout: ColumnLayout,
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
    Ok(Output {
        encoding: Encoding::Parquet(ParquetEncoding { layout, factory }),
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
            chunk.append_to_row_group(&mut writer).map_err(output_error)?;
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
        Ok(ParquetEncoder {
            layout: &self.layout,
            writers,
            rows: RowColumns::new(self.layout.fields, volume),
            facts: Vec::new(),
            has_rows: false,
            encoded_bytes: 0,
        })
    }
}

/// Encodes rows of one volume into one row group.
pub(super) struct ParquetEncoder<'a> {
    layout: &'a ColumnLayout,
    writers: Vec<ArrowColumnWriter>,
    rows: RowColumns,
    facts: Vec<Fact>,
    has_rows: bool,
    /// Number of bytes of names that were encoded, before compression.
    encoded_bytes: usize,
}

impl ParquetEncoder<'_> {
    fn flush_inodes(&mut self) -> Result<(), ScanError> {
        self.encoded_bytes += self.rows.name_bytes();
        self.has_rows |= self.rows.count() > 0;
        let Self { layout, writers, rows, .. } = self;
        rows.take_columns(layout, |index, array| {
            // Every column of this schema has one leaf.
            let (Some(field), Some(writer)) =
                (layout.schema.fields().get(index), writers.get_mut(index))
            else {
                return Ok(());
            };
            for leaf in compute_leaves(field, &array).map_err(output_error)? {
                writer.write(&leaf).map_err(output_error)?;
            }
            Ok(())
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
        if !self.has_rows {
            return Ok(OutputPiece { rows: None, facts: self.facts });
        }
        let closed = self.writers.into_iter().map(ArrowColumnWriter::close);
        let chunks = closed.collect::<Result<_, _>>().map_err(output_error)?;
        Ok(OutputPiece { rows: Some(Rows::RowGroup(RowGroup(chunks))), facts: self.facts })
    }
}
