//! The inventory of a volume: one row per inode, with its paths, in a single pass over the disk.
//!
//! Owns: the read order, the row and its output formats, the join of names to inodes, accounting
//! and the summary. Does **not** own: any on-disk structure, the terminal, the format names of the
//! command line, or signals (a caller sets [`ScanOptions::cancel`]).
//!
//! `docs/internals/scan.md` describes the algorithm and its memory use. `docs/scan-schema.md`
//! describes the output.
#![forbid(unsafe_code)]

mod accounting;
mod batch;
#[cfg(feature = "parquet")]
mod dataset;
mod diff;
mod emit;
mod error;
mod fields;
mod finding;
mod hashing;
mod links;
mod memory;
mod options;
mod out_of_line;
mod output;
mod packed;
mod parallel;
mod paths;
mod plan;
mod reader;
mod row;
mod rows;
mod scan;
mod source;
mod summary;

pub use accounting::Account;
#[cfg(feature = "parquet")]
pub use dataset::ScanRecord;
pub use diff::{
    Aspect, Aspects, Change, ChangeKind, ContentsAnswer, ContentsReader, DIFF_SCHEMA_VERSION,
    DiffError, DiffFinding, DiffFormat, DiffInput, DiffOptions, DiffReport, DiffWriter, EntryView,
    State, diff,
};
#[cfg(feature = "parquet")]
pub use diff::{ScanFile, ScanFileError};
pub use error::ScanError;
pub use fields::{Field, Fields};
pub use finding::{Finding, FindingCode};
pub use hashing::{ContentsHasher, HashFailure, Hashed};
pub use options::{AccountBy, DEFAULT_MEMORY_BYTES, Format, Progress, ScanOptions, Spill};
#[cfg(feature = "arrow")]
pub use output::arrow_schema;
pub use output::{FactsFormat, Header, Output, SCHEMA_VERSION, Trailer};
pub use row::{ByteList, LogView, Moment, OwnerNames, ParentDirectory, Row, RowView, VolumeLabel};
pub use rows::{RowPiece, RowWriter};
pub use scan::{ScanReport, scan};
pub use source::ScanSource;
pub use summary::{InodeTotals, RankedInode, Summary};
