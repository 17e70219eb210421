//! From rows to bytes: the four forms of output.
//!
//! Owns: the split between encoding, which any number of threads do at once, and appending, which
//! the calling thread does in order. Does **not** own: names of files.
//!
//! An encoder fills one [`Piece`]; pieces are appended in the order of the inodes, so the same volume
//! gives the same output whatever the number of threads.

mod csv;
mod facts;
mod json;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod table;

use std::io::Write;
use std::sync::Arc;

use xfs_sync::{Mutex, Volume};

pub use facts::FactsFormat;
pub(crate) use facts::{Fact, Facts};

use crate::accounting::Account;
use crate::row::{RowView, VolumeLabel};
use crate::{Fields, Finding, Format, ScanError};

/// Version of the output's schema. It changes when a reader of the old one would be misled.
pub const SCHEMA_VERSION: u32 = 2;

/// What stands once at the head of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When the scan began, in nanoseconds since 1970.
    pub scan_time: i64,
}

/// What stands once at the end of an output: who finds it knows that nothing was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Rows of inodes.
    pub inodes: u64,
    /// Findings.
    pub findings: u64,
    /// Inode numbers that have no row because of a finding.
    pub missing_inodes: u64,
}

/// Encoded rows, ready to be appended.
pub(crate) struct OutputPiece {
    /// `None` where there are only facts.
    pub(crate) rows: Option<Rows>,
    /// Facts that the form has no rows for.
    pub(crate) facts: Vec<Fact>,
}

/// The rows of a piece.
pub(crate) enum Rows {
    /// Lines.
    Lines(Vec<u8>),
    /// A row group of a Parquet file.
    #[cfg(feature = "parquet")]
    RowGroup(self::parquet::RowGroup),
}

/// Encodes rows into one piece.
pub(crate) trait RowEncoder: Send {
    /// Adds the row of an inode.
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError>;
    /// Adds a finding.
    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError>;
    /// Adds a row of accounting.
    fn account(&mut self, account: &Account) -> Result<(), ScanError>;
    /// Bytes that were encoded or wait to be.
    fn size_bytes(&self) -> usize;
    /// Ends the piece.
    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError>;
}

/// What a worker needs to make encoders.
pub(crate) enum Encoding {
    Lines {
        format: LineFormat,
        fields: Fields,
        buffers: Arc<Buffers>,
    },
    #[cfg(feature = "parquet")]
    Parquet(self::parquet::ParquetEncoding),
}

/// Buffers of lines that were appended, to be filled again: memory fresh from the host costs more
/// than filling it.
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

/// The forms that are lines of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Table,
    Ndjson,
    Csv,
}

impl Encoding {
    /// An encoder for rows of this volume.
    pub(crate) fn encoder<'a>(
        &'a self,
        volume: &'a VolumeLabel,
    ) -> Result<Box<dyn RowEncoder + 'a>, ScanError> {
        let (format, fields, out) = match self {
            Self::Lines { format, fields, buffers } => (*format, *fields, buffers.take()),
            #[cfg(feature = "parquet")]
            Self::Parquet(encoding) => return Ok(Box::new(encoding.encoder(volume)?)),
        };
        Ok(match format {
            LineFormat::Table => Box::new(table::TableEncoder::new(fields, out)),
            LineFormat::Ndjson => Box::new(ndjson::NdjsonEncoder::new(fields, volume, out)),
            LineFormat::Csv => Box::new(csv::CsvEncoder::new(fields, volume, out)),
        })
    }

    /// Units of rows that make one piece: large row groups serve readers of Parquet, small pieces of
    /// lines save memory.
    pub(crate) const fn units_per_piece(&self) -> usize {
        match self {
            Self::Lines { .. } => 1,
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => 4,
        }
    }
}

/// An output that was begun.
pub struct Output<'w> {
    pub(crate) encoding: Encoding,
    pub(crate) appender: Appender<'w>,
}

/// The place where pieces are appended.
pub(crate) struct Appender<'w> {
    rows: RowAppender<'w>,
    facts: Facts<'w>,
}

/// The place where rows are appended.
pub(crate) enum RowAppender<'w> {
    Lines {
        format: LineFormat,
        writer: Box<dyn Write + Send + 'w>,
        buffers: Arc<Buffers>,
    },
    #[cfg(feature = "parquet")]
    Parquet(self::parquet::ParquetAppender<'w>),
}

impl<'w> Output<'w> {
    /// Begins an output: writes what stands at its head.
    ///
    /// # Errors
    ///
    /// What the writer says; [`ScanError::FormatNotBuilt`] for Parquet without the feature.
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

    /// Has the facts of a form whose rows are inodes alone ([`Format::has_facts_apart`]) written there as well. NDJSON
    /// and tables hold their facts themselves, and write nothing there.
    ///
    /// # Errors
    ///
    /// [`ScanError::Facts`] with what the writer says.
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
    /// Whether facts are no rows of the form.
    fn has_facts_apart(&self) -> bool {
        match &self.rows {
            RowAppender::Lines { format, .. } => *format == LineFormat::Csv,
            #[cfg(feature = "parquet")]
            RowAppender::Parquet(_) => true,
        }
    }

    /// Says which volume the pieces are of that come now.
    pub(crate) fn begin_volume(&mut self, volume: &VolumeLabel) -> Result<(), ScanError> {
        match &mut self.rows {
            RowAppender::Lines { format: LineFormat::Ndjson, writer, .. } => {
                writer.write_all(&ndjson::volume(volume)).map_err(ScanError::Output)
            }
            _ => self.facts.begin_volume(volume),
        }
    }

    /// Appends a piece.
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
            #[cfg(feature = "parquet")]
            (RowAppender::Lines { .. }, Some(Rows::RowGroup(_)))
            | (RowAppender::Parquet(_), Some(Rows::Lines(_))) => {
                unreachable!("an output makes pieces of its own form only")
            }
        }
    }

    /// Ends the output: writes what stands at its end, and flushes.
    pub(crate) fn finish(self, trailer: Trailer) -> Result<(), ScanError> {
        let metadata = self.facts.finish(trailer)?;
        match self.rows {
            RowAppender::Lines { format, mut writer, .. } => {
                assert!(metadata.is_none(), "a form of lines has no metadata");
                if format == LineFormat::Ndjson {
                    writer.write_all(&ndjson::tail(trailer)).map_err(ScanError::Output)?;
                }
                writer.flush().map_err(ScanError::Output)
            }
            #[cfg(feature = "parquet")]
            RowAppender::Parquet(appender) => {
                appender.finish(trailer, metadata.unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests;
