//! Writes rows in the output formats of a scan, for a caller that has them from elsewhere.
//!
//! Owns: the order of volumes, rows and totals in the output. Does **not** own: where the rows come
//! from.

use crate::output::{Appender, Encoding, RowEncoder, Trailer};
use crate::row::{RowView, VolumeLabel};
use crate::{Finding, Output, ScanError, ScanReport};

/// Writes rows in the output formats of a scan, for a caller that gets them from a source other
/// than a scan.
pub struct RowWriter<'w> {
    encoding: Encoding,
    appender: Appender<'w>,
    volume: VolumeLabel,
    report: ScanReport,
}

/// Rows and findings that a caller adds one by one, and that are then written together.
pub struct RowPiece<'a> {
    encoder: Box<dyn RowEncoder + 'a>,
    report: &'a mut ScanReport,
    is_empty: bool,
}

impl<'w> RowWriter<'w> {
    /// Begins the rows of the first volume in an output that has been started.
    ///
    /// # Errors
    ///
    /// The errors of the writers of the output.
    pub fn begin(output: Output<'w>, volume: VolumeLabel) -> Result<Self, ScanError> {
        let Output { encoding, mut appender } = output;
        appender.begin_volume(&volume)?;
        Ok(Self { encoding, appender, volume, report: ScanReport::default() })
    }

    /// Begins the rows of another volume.
    ///
    /// # Errors
    ///
    /// The errors of the writers of the output.
    pub fn next_volume(&mut self, volume: VolumeLabel) -> Result<(), ScanError> {
        self.appender.begin_volume(&volume)?;
        self.volume = volume;
        Ok(())
    }

    /// Writes the rows and findings that `fill` adds. A piece should have some thousands of rows:
    /// it is kept in memory until it is written.
    ///
    /// # Errors
    ///
    /// The errors of `fill`, and those of the writers of the output.
    pub fn piece(
        &mut self,
        fill: impl FnOnce(&mut RowPiece<'_>) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        let Self { encoding, appender, volume, report } = self;
        let mut piece = RowPiece { encoder: encoding.encoder(volume)?, report, is_empty: true };
        fill(&mut piece)?;
        let RowPiece { encoder, is_empty, .. } = piece;
        match is_empty {
            true => Ok(()),
            false => appender.append(encoder.finish()?),
        }
    }

    /// Writes the totals, and returns them.
    ///
    /// # Errors
    ///
    /// The errors of the writers of the output.
    pub fn finish(self) -> Result<ScanReport, ScanError> {
        let Self { appender, report, .. } = self;
        let ScanReport { inodes, findings, missing_inodes, .. } = report;
        appender.finish(Trailer { inodes, findings, missing_inodes })?;
        Ok(report)
    }
}

impl RowPiece<'_> {
    /// Adds the row of an inode.
    ///
    /// # Errors
    ///
    /// The error of encoding the row in the output format.
    pub fn row(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        self.report.inodes += 1;
        self.is_empty = false;
        self.encoder.inode(view)
    }

    /// Adds a finding.
    ///
    /// # Errors
    ///
    /// The error of encoding the row in the output format.
    pub fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        self.report.findings += 1;
        self.report.corruptions += u64::from(finding.code.is_corruption());
        self.report.missing_inodes += u64::from(finding.inode_count);
        self.is_empty = false;
        self.encoder.finding(finding)
    }
}
