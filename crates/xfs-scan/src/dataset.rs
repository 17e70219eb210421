//! The row about one scan in a dataset of many scans.
//!
//! A dataset has two tables: the inodes, as [`Format::Parquet`](crate::Format::Parquet) writes
//! them, and the scans, with one row for each. `docs/scan-schema.md` describes both. Does **not**
//! own: where the files of a dataset lie, and when they appear.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::ArrowWriter;

use crate::ScanError;
use crate::output::output_error;

/// The row about one scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRecord {
    /// The label of the volume.
    pub volume_label: String,
    /// The image or device, as the caller names it.
    pub image: String,
    /// The name of the host that scanned.
    pub host: String,
    /// The start of the scan, in nanoseconds since 1970.
    pub began: i64,
    /// The end of the scan, in nanoseconds since 1970.
    pub ended: i64,
    /// Number of rows of inodes.
    pub inodes: u64,
    /// Number of findings.
    pub errors: u64,
    /// Number of inodes without a row because of a finding.
    pub missing_inodes: u64,
    /// Which state of the volume the rows show, as in the row `volume`.
    pub log: String,
    /// The version of the schema of the rows.
    pub schema_version: u32,
    /// The version of the program that scanned.
    pub program_version: String,
}

impl ScanRecord {
    /// Writes a Parquet file with this row.
    ///
    /// # Errors
    ///
    /// [`ScanError::Output`] with the error of the writer.
    pub fn write(&self, writer: impl Write + Send) -> Result<(), ScanError> {
        let batch = self.to_batch();
        let arrow = ArrowWriter::try_new(writer, batch.schema(), None).map_err(output_error)?;
        let mut arrow = arrow;
        arrow.write(&batch).map_err(output_error)?;
        arrow.close().map(drop).map_err(output_error)
    }

    fn to_batch(&self) -> RecordBatch {
        let text = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
        let number = |value: u64| Arc::new(UInt64Array::from(vec![value])) as ArrayRef;
        let time = |value: i64| {
            let array = PrimitiveArray::<TimestampNanosecondType>::from(vec![value]);
            Arc::new(array.with_timezone_utc()) as ArrayRef
        };
        let columns = [
            ("volume_label", text(&self.volume_label)),
            ("image", text(&self.image)),
            ("host", text(&self.host)),
            ("began", time(self.began)),
            ("ended", time(self.ended)),
            ("inodes", number(self.inodes)),
            ("errors", number(self.errors)),
            ("missing_inodes", number(self.missing_inodes)),
            ("log", text(&self.log)),
            ("schema_version", Arc::new(UInt32Array::from(vec![self.schema_version])) as ArrayRef),
            ("program_version", text(&self.program_version)),
        ];
        RecordBatch::try_from_iter(columns).expect("all columns have one row")
    }
}
