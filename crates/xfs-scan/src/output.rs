//! Encodes rows as bytes in the four output formats.
//!
//! Owns: encoding, which many threads do in parallel, and appending, which the calling thread does
//! in order. Does **not** own: file names.
//!
//! An encoder fills one [`OutputPiece`]. Pieces are appended in inode order, so the same volume
//! gives the same output for any number of threads.

#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod facts;
pub(crate) mod json;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
pub(crate) mod table;

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use xfs_sync::{Mutex, Volume};

#[cfg(feature = "parquet")]
pub(crate) use self::parquet::output_error;
#[cfg(feature = "arrow")]
pub use arrow::arrow_schema;
pub use facts::FactsFormat;
pub(crate) use facts::{Fact, Facts};

use crate::accounting::Account;
use crate::diff::{EntryBatch, EntryEncoder};
use crate::row::{RowView, VolumeLabel};
use crate::{Fields, Finding, Format, ScanError};

/// Version of the output schema. It is raised when a reader written for the old schema would
/// misunderstand the new one.
pub const SCHEMA_VERSION: u32 = 2;

/// The data at the start of an output, about the scan as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Start of the scan, in nanoseconds since 1970.
    pub scan_time: i64,
}

/// The totals at the end of an output. Their presence proves that the output was not cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Number of inode rows.
    pub inodes: u64,
    /// Number of findings.
    pub findings: u64,
    /// Number of inodes that have no row because of a finding.
    pub missing_inodes: u64,
}

/// Encoded rows, ready to be appended.
pub(crate) struct OutputPiece {
    /// The encoded rows. `None` if the piece has only facts.
    pub(crate) rows: Option<Rows>,
    /// Findings and accounts, kept apart from the rows because the format has only rows of inodes.
    pub(crate) facts: Vec<Fact>,
}

/// The encoded rows of a piece, in the form that its output format needs.
pub(crate) enum Rows {
    /// Lines of text.
    Lines(Vec<u8>),
    /// A row group of a Parquet file.
    #[cfg(feature = "parquet")]
    RowGroup(self::parquet::RowGroup),
    /// Record batches of Arrow.
    #[cfg(feature = "arrow")]
    Batches(Vec<arrow_array::RecordBatch>),
    /// Rows in memory, for a comparison.
    Entries(Box<EntryBatch>),
}

/// Encodes rows, findings and accounts into one piece.
pub(crate) trait RowEncoder: Send {
    /// Adds the row of an inode.
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError>;
    /// Adds a finding.
    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError>;
    /// Adds the row of an account: the space that one owner, project or directory uses.
    fn account(&mut self, account: &Account) -> Result<(), ScanError>;
    /// Returns the number of bytes that are encoded or wait to be encoded.
    fn size_bytes(&self) -> usize;
    /// Ends the encoding, and returns the encoded piece.
    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError>;
}

/// State that is the same for all encoders of an output. Workers create their encoders from it.
pub(crate) enum Encoding {
    Lines {
        format: LineFormat,
        fields: Fields,
        buffers: Arc<Buffers>,
    },
    #[cfg(feature = "parquet")]
    Parquet(self::parquet::ParquetEncoding),
    #[cfg(feature = "arrow")]
    Arrow(self::arrow::ColumnLayout),
    /// The rows stay in memory, for a comparison.
    Entries,
}

/// Empty buffers for lines, kept for reuse: fresh memory from the operating system takes longer to
/// get than a buffer takes to fill.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>, Volume>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.0.lock().push(buffer);
    }
}

/// The output formats that consist of lines of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Table,
    Ndjson,
    Csv,
}

impl Encoding {
    /// Creates an encoder for rows of this volume.
    pub(crate) fn encoder<'a>(
        &'a self,
        volume: &'a VolumeLabel,
    ) -> Result<Box<dyn RowEncoder + 'a>, ScanError> {
        let (format, fields, out) = match self {
            Self::Lines { format, fields, buffers } => (*format, *fields, buffers.take()),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoding) => return Ok(Box::new(encoding.encoder(volume)?)),
            #[cfg(feature = "arrow")]
            Self::Arrow(layout) => {
                return Ok(Box::new(self::arrow::ArrowEncoder::new(layout, volume)));
            }
            Self::Entries => return Ok(Box::new(EntryEncoder::new())),
        };
        Ok(match format {
            LineFormat::Table => Box::new(table::TableEncoder::new(fields, out)),
            LineFormat::Ndjson => Box::new(ndjson::NdjsonEncoder::new(fields, volume, out)),
            LineFormat::Csv => Box::new(csv::CsvEncoder::new(fields, volume, out)),
        })
    }

    /// Returns the number of units of work per piece: more for Parquet, whose readers prefer large
    /// row groups, than for lines of text, which are kept small to save memory.
    pub(crate) const fn units_per_piece(&self) -> usize {
        match self {
            Self::Lines { .. } | Self::Entries => 1,
            #[cfg(feature = "arrow")]
            Self::Arrow(_) => 4,
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => 16,
        }
    }
}

/// An output whose first part is written already. It takes the rows of one volume after another.
pub struct Output<'w> {
    pub(crate) encoding: Encoding,
    pub(crate) appender: Appender<'w>,
}

/// Writes the finished pieces of an output to its destination, in order.
pub(crate) struct Appender<'w> {
    rows: RowAppender<'w>,
    facts: Facts<'w>,
}

/// The destination of encoded rows.
pub(crate) enum RowAppender<'w> {
    Lines {
        format: LineFormat,
        writer: Box<dyn Write + Send + 'w>,
        buffers: Arc<Buffers>,
    },
    #[cfg(feature = "parquet")]
    Parquet(self::parquet::ParquetAppender<'w>),
    #[cfg(feature = "arrow")]
    Arrow(self::arrow::BatchSink<'w>),
    /// The rows go to a comparison of two states, which holds the other end of this channel.
    Entries(SyncSender<Box<EntryBatch>>),
}

impl<'w> Output<'w> {
    /// Starts an output and writes its head.
    ///
    /// # Errors
    ///
    /// The writer's error, or [`ScanError::FormatNotBuilt`] for Parquet without the feature.
    pub fn begin(
        format: Format,
        fields: Fields,
        header: Header,
        mut writer: Box<dyn Write + Send + 'w>,
    ) -> Result<Self, ScanError> {
        let (format, head) = match format {
            Format::Table => (LineFormat::Table, table::head(fields)),
            Format::Ndjson => (LineFormat::Ndjson, ndjson::head(header)),
            Format::Csv => (LineFormat::Csv, csv::head(fields)),
            #[cfg(feature = "parquet")]
            Format::Parquet => return self::parquet::begin(fields, header, writer),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(ScanError::FormatNotBuilt("Parquet")),
        };
        writer.write_all(&head).map_err(ScanError::Output)?;
        let buffers = Arc::new(Buffers::default());
        let encoding = Encoding::Lines { format, fields, buffers: Arc::clone(&buffers) };
        let rows = RowAppender::Lines { format, writer, buffers };
        Ok(Self { encoding, appender: Appender { rows, facts: Facts::new(header, false) } })
    }

    /// Starts an output for a comparison of two states: batches of rows, with their findings, go to
    /// `sender`.
    pub(crate) fn of_entries(header: Header, sender: SyncSender<Box<EntryBatch>>) -> Self {
        let facts = Facts::new(header, false);
        let appender = Appender { rows: RowAppender::Entries(sender), facts };
        Self { encoding: Encoding::Entries, appender }
    }

    /// Makes `writer` the destination of the facts (findings, accounts, totals) if the rows of the
    /// format are inodes only ([`Format::has_facts_apart`]). NDJSON and the table have the facts
    /// among their rows, and write nothing to `writer`.
    ///
    /// # Errors
    ///
    /// [`ScanError::Facts`] with the writer's error.
    pub fn facts_to(
        mut self,
        format: FactsFormat,
        writer: Box<dyn Write + Send + 'w>,
    ) -> Result<Self, ScanError> {
        if self.appender.has_facts_apart() {
            self.appender.facts.write_to(format, writer)?;
        }
        Ok(self)
    }
}

impl Appender<'_> {
    /// Returns whether the format of this output has only rows of inodes, so that facts need
    /// another destination.
    fn has_facts_apart(&self) -> bool {
        match &self.rows {
            RowAppender::Lines { format, .. } => *format == LineFormat::Csv,
            #[cfg(feature = "parquet")]
            RowAppender::Parquet(_) => true,
            #[cfg(feature = "arrow")]
            RowAppender::Arrow(_) => true,
            RowAppender::Entries(_) => true,
        }
    }

    /// Writes the part of the output that precedes the rows of a volume.
    pub(crate) fn begin_volume(&mut self, volume: &VolumeLabel) -> Result<(), ScanError> {
        match &mut self.rows {
            RowAppender::Lines { format: LineFormat::Ndjson, writer, .. } => {
                writer.write_all(&ndjson::volume(volume)).map_err(ScanError::Output)
            }
            _ => self.facts.begin_volume(volume),
        }
    }

    /// Writes the rows and facts of one piece of the output.
    pub(crate) fn append(&mut self, piece: OutputPiece) -> Result<(), ScanError> {
        let OutputPiece { rows, facts } = piece;
        self.facts.append(&facts)?;
        match (&mut self.rows, rows) {
            (_, None) => Ok(()),
            (RowAppender::Lines { writer, buffers, .. }, Some(Rows::Lines(lines))) => {
                writer.write_all(&lines).map_err(ScanError::Output)?;
                buffers.give_back(lines);
                Ok(())
            }
            #[cfg(feature = "parquet")]
            (RowAppender::Parquet(appender), Some(Rows::RowGroup(group))) => appender.append(group),
            #[cfg(feature = "arrow")]
            (RowAppender::Arrow(sink), Some(Rows::Batches(batches))) => {
                batches.into_iter().try_for_each(sink)
            }
            // A receiver that is gone has ended the comparison.
            (RowAppender::Entries(sender), Some(Rows::Entries(batch))) => {
                sender.send(batch).map_err(|_| ScanError::Cancelled)
            }
            (_, Some(_)) => {
                unreachable!("the encoder of an output makes pieces of the same format")
            }
        }
    }

    /// Writes the totals at the end of the output and flushes it.
    pub(crate) fn finish(self, trailer: Trailer) -> Result<(), ScanError> {
        let metadata = self.facts.finish(trailer)?;
        match self.rows {
            RowAppender::Lines { format, mut writer, .. } => {
                assert!(metadata.is_none(), "a format of lines has no metadata");
                if format == LineFormat::Ndjson {
                    writer.write_all(&ndjson::tail(trailer)).map_err(ScanError::Output)?;
                }
                writer.flush().map_err(ScanError::Output)
            }
            #[cfg(feature = "parquet")]
            RowAppender::Parquet(appender) => {
                appender.finish(trailer, metadata.unwrap_or_default())
            }
            #[cfg(feature = "arrow")]
            RowAppender::Arrow(_) => Ok(()),
            RowAppender::Entries(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
