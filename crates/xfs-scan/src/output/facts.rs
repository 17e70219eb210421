//! The facts of a scan (volumes, findings, accounts, totals), for formats that have only rows of
//! inodes.
//!
//! CSV and Parquet are read into tables, where each row must be of the same kind. Volumes,
//! findings, accounts and totals go to a second output, the side output. The metadata of a Parquet
//! file also contains these facts.
//!
//! Owns: the destination of facts, and their limit in the metadata. Does **not** own: the form of a
//! line ([`NdjsonEncoder`], [`TableEncoder`]).

use std::io::Write;

use super::ndjson::{self, NdjsonEncoder};
use super::table::TableEncoder;
use super::{Header, RowEncoder, Rows, Trailer};
use crate::accounting::Account;
use crate::row::VolumeLabel;
use crate::{Field, Fields, Finding, ScanError};

/// Most bytes of facts in the metadata of a Parquet file. A reader loads all metadata to open the
/// file.
const METADATA_BYTES: usize = 1 << 20;

/// The format of the side output of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactsFormat {
    /// The rows other than those of inodes, as NDJSON.
    Ndjson,
    /// Lines for people: only findings and accounts, as in the table format.
    Text,
}

/// A fact (a finding or an account) that an encoder keeps apart from its rows of inodes.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Finding(Finding),
    Account(Account),
}

/// The destinations of facts.
pub(crate) struct Facts<'w> {
    header: Header,
    /// The side output. Without it, the facts of a CSV output appear only in the report of the
    /// scan.
    side: Option<SideOutput<'w>>,
    /// The facts collected for the metadata of a Parquet file. `None` if the format has no
    /// metadata.
    metadata: Option<MetadataFacts>,
    volume: Option<VolumeLabel>,
}

struct SideOutput<'w> {
    format: FactsFormat,
    writer: Box<dyn Write + Send + 'w>,
}

/// The facts for the metadata of a Parquet file.
#[derive(Default)]
pub(crate) struct MetadataFacts {
    /// The facts as whole lines of NDJSON.
    pub(super) lines: Vec<u8>,
    /// Number of lines that did not fit in the metadata.
    pub(super) omitted: u64,
    /// The rows about volumes. There is no limit on their size.
    pub(super) volumes: Vec<u8>,
}

impl<'w> Facts<'w> {
    pub(super) fn new(header: Header, has_metadata: bool) -> Self {
        let metadata = has_metadata.then(MetadataFacts::default);
        Self { header, side: None, metadata, volume: None }
    }

    /// Sets `writer` as the side output and writes its first line.
    pub(super) fn write_to(
        &mut self,
        format: FactsFormat,
        writer: Box<dyn Write + Send + 'w>,
    ) -> Result<(), ScanError> {
        let side = self.side.insert(SideOutput { format, writer });
        side.row(&ndjson::head(self.header))
    }

    /// Writes the row about a volume, before its other facts.
    pub(super) fn begin_volume(&mut self, volume: &VolumeLabel) -> Result<(), ScanError> {
        let row = ndjson::volume(volume);
        if let Some(metadata) = &mut self.metadata {
            metadata.volumes.extend_from_slice(&row);
            metadata.append(&row);
        }
        self.volume = Some(volume.clone());
        self.side.as_mut().map_or(Ok(()), |side| side.row(&row))
    }

    pub(super) fn append(&mut self, facts: &[Fact]) -> Result<(), ScanError> {
        if facts.is_empty() {
            return Ok(());
        }
        let fields = Fields::EMPTY.with(Field::VolumeUuid).with(Field::VolumeLabel);
        let volume = self.volume.as_ref().expect("a volume begins before its facts");
        let side_format = self.side.as_ref().map(|side| side.format);
        let needs_ndjson = self.metadata.is_some() || side_format == Some(FactsFormat::Ndjson);
        if needs_ndjson {
            let lines = encode(Box::new(NdjsonEncoder::new(fields, volume, Vec::new())), facts)?;
            if let Some(metadata) = &mut self.metadata {
                metadata.append(&lines);
            }
            if let Some(side) = &mut self.side {
                side.row(&lines)?;
            }
        }
        match &mut self.side {
            Some(side) if side.format == FactsFormat::Text => {
                side.write(&encode(Box::new(TableEncoder::new(fields, Vec::new())), facts)?)
            }
            _ => Ok(()),
        }
    }

    /// Writes the totals at the end of the side output. Returns the facts for the metadata of the
    /// file, or `None` if the format has no metadata.
    pub(super) fn finish(self, trailer: Trailer) -> Result<Option<MetadataFacts>, ScanError> {
        if let Some(mut side) = self.side {
            side.row(&ndjson::tail(trailer))?;
            side.writer.flush().map_err(ScanError::Facts)?;
        }
        Ok(self.metadata)
    }
}

impl SideOutput<'_> {
    /// Writes a row of NDJSON. Does nothing if the facts are text for people.
    fn row(&mut self, row: &[u8]) -> Result<(), ScanError> {
        match self.format {
            FactsFormat::Ndjson => self.write(row),
            FactsFormat::Text => Ok(()),
        }
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), ScanError> {
        self.writer.write_all(lines).map_err(ScanError::Facts)
    }
}

fn encode(mut encoder: Box<dyn RowEncoder + '_>, facts: &[Fact]) -> Result<Vec<u8>, ScanError> {
    for fact in facts {
        match fact {
            Fact::Finding(finding) => encoder.finding(finding)?,
            Fact::Account(account) => encoder.account(account)?,
        }
    }
    match encoder.finish()?.rows {
        Some(Rows::Lines(lines)) => Ok(lines),
        _ => unreachable!("an encoder of lines makes lines"),
    }
}

impl MetadataFacts {
    /// Adds whole lines of facts until a line exceeds the limit of the metadata. Counts the lines
    /// that are left out.
    fn append(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            // After the first line that does not fit, none is added, so the metadata has the
            // beginning of the facts.
            let fits = self.omitted == 0 && self.lines.len() + line.len() <= METADATA_BYTES;
            match fits {
                true => self.lines.extend_from_slice(line),
                false => self.omitted += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
