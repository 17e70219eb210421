//! The Parquet file of an earlier scan, read as one of the two states of a diff.
//!
//! Owns: the check that the file can be compared, and reading its rows batch by batch. Does **not**
//! own: the columns of a scan ([`output`](crate::Output)).

use std::fs::File;
use std::io;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, BinaryArray, ListArray, PrimitiveArray, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use serde_json::Value;
use uuid::Uuid;

use super::entries::EntryBatch;
use super::{DiffError, DiffFinding, State};
use crate::FindingCode;
use crate::output::SCHEMA_VERSION;
use crate::row::{Moment, ParentDirectory, Row};

/// Number of rows in a batch.
const BATCH_ROWS: usize = 4096;

/// The columns without which a scan cannot be compared.
const NEEDED: [&str; 17] = [
    "ino",
    "generation",
    "mode",
    "nlink",
    "uid",
    "gid",
    "project_id",
    "size",
    "mtime",
    "ctime",
    "xflags",
    "rdev",
    "change_count",
    "paths",
    "paths_bytes",
    "parents",
    "parent_generations",
];
/// Columns that are compared if both states have them.
const USED: [&str; 2] = ["xattrs", "xattrs_bytes"];

/// The reason why a file cannot be used as one of the two states of a diff.
#[derive(Debug)]
pub enum ScanFileError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is no scan that can be compared, for this reason.
    Refused(String),
}

impl ScanFileError {
    /// Converts the error into one that also says whether the file was the first or the second
    /// state.
    #[must_use]
    pub fn of_state(self, state: State) -> DiffError {
        match self {
            Self::Io(error) => DiffError::Read { state, error },
            Self::Refused(reason) => DiffError::NotComparable { state, reason },
        }
    }
}

impl From<ParquetError> for ScanFileError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(source) => Self::Refused(format!("the Parquet file cannot be read: {source}")),
            },
            error => Self::Refused(format!("the Parquet file cannot be read: {error}")),
        }
    }
}

/// An open Parquet file with the rows of a scan of one volume.
pub struct ScanFile {
    reader: ParquetRecordBatchReaderBuilder<File>,
    uuid: Uuid,
    scan_time: i64,
    inodes: u64,
    findings: Vec<DiffFinding>,
    has_xattrs: bool,
}

impl ScanFile {
    /// Returns whether the first bytes of a file are those of a Parquet file.
    #[must_use]
    pub fn is_parquet(first: &[u8]) -> bool {
        first.starts_with(b"PAR1")
    }

    /// Opens a scan, and checks that it can be compared.
    ///
    /// # Errors
    ///
    /// An error of reading, or the reason why the file cannot be used in a comparison.
    pub fn open(file: File) -> Result<Self, ScanFileError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let pairs = reader.metadata().file_metadata().key_value_metadata();
        let value = |key: &str| {
            let pair = pairs.into_iter().flatten().find(|pair| pair.key == key);
            pair.and_then(|pair| pair.value.as_deref())
        };
        let refused = |reason: String| Err(ScanFileError::Refused(reason));
        match value("ferroxfs.schema_version") {
            None => return refused("it is not the Parquet file of a scan".to_owned()),
            Some(version) if version != SCHEMA_VERSION.to_string() => {
                return refused(format!(
                    "the scan has schema version {version}, and {SCHEMA_VERSION} is supported"
                ));
            }
            Some(_) => {}
        }
        let columns = reader.schema();
        if let Some(missing) = NEEDED.iter().find(|name| columns.index_of(name).is_err()) {
            return refused(format!(
                "the scan has no column {missing}; scan again without --fields"
            ));
        }
        let has_xattrs = USED.iter().all(|name| columns.index_of(name).is_ok());
        let volumes: Vec<Value> = json_lines(value("ferroxfs.volumes").unwrap_or_default());
        let [volume] = volumes.as_slice() else {
            return refused(format!(
                "the scan has the rows of {} volumes, and one is compared at a time",
                volumes.len()
            ));
        };
        let uuid = volume.get("volume_uuid").and_then(Value::as_str).unwrap_or_default();
        let Ok(uuid) = Uuid::parse_str(uuid) else {
            return refused("the scan does not say which volume it is of".to_owned());
        };
        let number = |key: &str| value(key).and_then(|text| text.parse::<u64>().ok());
        let Some(inodes) = number("ferroxfs.inodes") else {
            return refused("the scan does not say how many inodes it has".to_owned());
        };
        let scan_time = value("ferroxfs.scan_time").and_then(|text| text.parse().ok());
        let findings = findings_of(
            value("ferroxfs.facts").unwrap_or_default(),
            number("ferroxfs.errors").unwrap_or_default(),
        );
        let scan_time = scan_time.unwrap_or_default();
        Ok(Self { reader, uuid, scan_time, inodes, findings, has_xattrs })
    }

    /// Returns the UUID of the scanned volume.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Returns the time of the scan in nanoseconds since 1970.
    #[must_use]
    pub const fn scan_time(&self) -> i64 {
        self.scan_time
    }

    pub(super) fn rows(self) -> Result<ScanRows, ScanFileError> {
        let Self { reader, inodes, findings, has_xattrs, .. } = self;
        let columns = NEEDED.iter().chain(&USED).copied();
        let mask = ProjectionMask::columns(reader.parquet_schema(), columns);
        let reader = reader.with_projection(mask).with_batch_size(BATCH_ROWS).build()?;
        Ok(ScanRows { state: State::A, reader, inodes, read: 0, findings, has_xattrs })
    }
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the findings in `facts`, the metadata of a scan. If the metadata has fewer findings than
/// `count`, adds one finding that says how many are left out.
fn findings_of(facts: &str, count: u64) -> Vec<DiffFinding> {
    let mut findings: Vec<DiffFinding> = json_lines(facts)
        .into_iter()
        .filter(|fact| fact.get("row").and_then(Value::as_str) == Some("error"))
        .map(|fact| {
            let number = |key: &str| fact.get(key).and_then(Value::as_u64);
            let text = |key: &str| fact.get(key).and_then(Value::as_str).unwrap_or_default();
            DiffFinding {
                code: FindingCode::from_name(text("code")).unwrap_or(FindingCode::Corrupt),
                ino: number("ino"),
                inode_count: number("inode_count")
                    .and_then(|it| u32::try_from(it).ok())
                    .unwrap_or(0),
                message: text("message").to_owned(),
            }
        })
        .collect();
    let omitted = count.saturating_sub(findings.len() as u64);
    if omitted > 0 {
        findings.push(DiffFinding {
            code: FindingCode::Corrupt,
            ino: None,
            inode_count: 0,
            message: format!("the scan had {omitted} more errors, which its metadata leaves out"),
        });
    }
    findings
}

/// Reads the rows of a scan from its Parquet file, batch by batch.
pub(super) struct ScanRows {
    state: State,
    reader: ParquetRecordBatchReader,
    /// Number of rows of the file, according to its metadata.
    inodes: u64,
    read: u64,
    findings: Vec<DiffFinding>,
    has_xattrs: bool,
}

impl ScanRows {
    pub(super) const fn of_state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Returns the next rows; `None` at the end. The findings of the scan come with the first rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<EntryBatch>, DiffError> {
        let state = self.state;
        self.next().map_err(|error| error.of_state(state))
    }

    fn next(&mut self) -> Result<Option<EntryBatch>, ScanFileError> {
        let findings = std::mem::take(&mut self.findings);
        let Some(batch) = self.reader.next() else {
            if self.read != self.inodes {
                return Err(ScanFileError::Refused(format!(
                    "the scan has {} rows, and its metadata says {}",
                    self.read, self.inodes
                )));
            }
            let mut rest = EntryBatch::new(self.has_xattrs);
            rest.findings = findings;
            return Ok((!rest.findings.is_empty()).then_some(rest));
        };
        let batch = batch.map_err(|error| {
            ScanFileError::Refused(format!("the Parquet file cannot be read: {error}"))
        })?;
        self.read += batch.num_rows() as u64;
        let mut entries = Columns::of(&batch, self.has_xattrs)?.entries(batch.num_rows())?;
        entries.findings = findings;
        Ok(Some(entries))
    }
}

/// The Parquet columns of a batch that a diff compares.
struct Columns<'a> {
    wide: [&'a [u64]; 4],
    narrow: [&'a [u32]; 7],
    mtime: &'a PrimitiveArray<TimestampNanosecondType>,
    ctime: &'a PrimitiveArray<TimestampNanosecondType>,
    paths: Texts<'a>,
    parents: Numbers<'a, UInt64Type>,
    generations: Numbers<'a, UInt32Type>,
    xattrs: Option<Texts<'a>>,
}

/// A list of strings for each row: first those that are UTF-8, then those that are not. The items
/// of all rows are one array, which is read without a copy.
struct Texts<'a> {
    text_lists: &'a ListArray,
    texts: &'a StringArray,
    other_lists: &'a ListArray,
    others: &'a BinaryArray,
}

impl<'a> Texts<'a> {
    fn of(batch: &'a RecordBatch, name: &str) -> Result<Self, ScanFileError> {
        let other_name = format!("{name}_bytes");
        let (text_lists, other_lists) = (list(batch, name)?, list(batch, &other_name)?);
        let texts = text_lists.values().as_string_opt::<i32>().ok_or_else(|| wrong_type(name))?;
        let others = other_lists.values().as_binary_opt::<i32>();
        let others = others.ok_or_else(|| wrong_type(&other_name))?;
        Ok(Self { text_lists, texts, other_lists, others })
    }

    /// Returns the strings of the row `at`.
    fn row(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (texts, others) = (self.texts, self.others);
        let is_text = move |item: &usize| !texts.is_null(*item);
        let is_other = move |item: &usize| !others.is_null(*item);
        let first = items(self.text_lists, at).filter(is_text);
        let rest = items(self.other_lists, at).filter(is_other);
        let first = first.map(move |item| texts.value(item).as_bytes());
        first.chain(rest.map(move |item| others.value(item)))
    }
}

/// A list of numbers for each row.
struct Numbers<'a, T: ArrowPrimitiveType> {
    lists: &'a ListArray,
    values: &'a [T::Native],
}

impl<'a, T: ArrowPrimitiveType> Numbers<'a, T> {
    fn of(batch: &'a RecordBatch, name: &str) -> Result<Self, ScanFileError> {
        let lists = list(batch, name)?;
        let values = lists.values().as_primitive_opt::<T>().ok_or_else(|| wrong_type(name))?;
        Ok(Self { lists, values: values.values() })
    }

    /// Returns the numbers of the row `at`.
    fn row(&self, at: usize) -> &'a [T::Native] {
        self.values.get(items(self.lists, at)).unwrap_or_default()
    }
}

/// Returns the items of the row `at` in the array of all items.
fn items(lists: &ListArray, at: usize) -> Range<usize> {
    let offset = |at: usize| lists.value_offsets().get(at).and_then(|it| usize::try_from(*it).ok());
    match (offset(at), offset(at + 1)) {
        (Some(start), Some(end)) if !lists.is_null(at) => start..end,
        _ => 0..0,
    }
}

fn wrong_type(name: &str) -> ScanFileError {
    ScanFileError::Refused(format!("the column {name} of the scan has another type or nulls"))
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a [T::Native], ScanFileError> {
    let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<T>());
    let column = column.filter(|column| column.null_count() == 0);
    Ok(column.ok_or_else(|| wrong_type(name))?.values())
}

fn list<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ListArray, ScanFileError> {
    let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
    column.ok_or_else(|| wrong_type(name))
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, has_xattrs: bool) -> Result<Self, ScanFileError> {
        let wide = |name| numbers::<UInt64Type>(batch, name);
        let narrow = |name| numbers::<UInt32Type>(batch, name);
        let time = |name: &str| {
            let column = batch.column_by_name(name);
            let column = column.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
            column.ok_or_else(|| wrong_type(name))
        };
        Ok(Self {
            wide: [wide("ino")?, wide("size")?, wide("rdev")?, wide("change_count")?],
            narrow: [
                narrow("generation")?,
                narrow("mode")?,
                narrow("nlink")?,
                narrow("uid")?,
                narrow("gid")?,
                narrow("project_id")?,
                narrow("xflags")?,
            ],
            mtime: time("mtime")?,
            ctime: time("ctime")?,
            paths: Texts::of(batch, "paths")?,
            parents: Numbers::of(batch, "parents")?,
            generations: Numbers::of(batch, "parent_generations")?,
            xattrs: has_xattrs.then(|| Texts::of(batch, "xattrs")).transpose()?,
        })
    }

    fn row(&self, at: usize) -> Option<Row> {
        let [ino, size, rdev, change_count] = self.wide.map(|column| column.get(at).copied());
        let [generation, mode, nlink, uid, gid, project_id, xflags] =
            self.narrow.map(|column| column.get(at).copied());
        let moment = |column: &PrimitiveArray<TimestampNanosecondType>| match column.is_null(at) {
            true => Some(Moment::MAX),
            false => Moment::from_nanoseconds(column.value(at)),
        };
        Some(Row {
            ino: ino?,
            size: size?,
            generation: generation?,
            mode: mode?,
            nlink: nlink?,
            uid: uid?,
            gid: gid?,
            project_id: project_id?,
            xflags: xflags?,
            packed_rdev: pack_device(rdev?),
            change_count: change_count?,
            mtime: moment(self.mtime)?,
            ctime: moment(self.ctime)?,
            ..Row::default()
        })
    }

    fn entries(&self, count: usize) -> Result<EntryBatch, ScanFileError> {
        let mut entries = EntryBatch::new(self.xattrs.is_some());
        let mut parents = Vec::new();
        for at in 0..count {
            let row = self.row(at).ok_or_else(|| {
                ScanFileError::Refused(format!("row {at} of a batch of the scan is invalid"))
            })?;
            let paths = self.paths.row(at);
            let (numbers, generations) = (self.parents.row(at), self.generations.row(at));
            let count = paths.clone().count();
            if count != numbers.len() || count != generations.len() {
                return Err(ScanFileError::Refused(format!(
                    "inode {} has paths without parents; a scan with --damaged cannot be compared",
                    row.ino
                )));
            }
            let pairs = numbers.iter().zip(generations);
            parents.clear();
            parents.extend(pairs.map(|(&ino, &generation)| ParentDirectory { ino, generation }));
            match &self.xattrs {
                Some(xattrs) => entries.push(row, paths, &parents, xattrs.row(at)),
                None => entries.push(row, paths, &parents, std::iter::empty()),
            }
        }
        Ok(entries)
    }
}

/// Converts a device number in the form of `st_rdev` to that of XFS.
fn pack_device(rdev: u64) -> u32 {
    let major = ((rdev >> 8) & 0xfff) | ((rdev >> 32) & !0xfff);
    let minor = (rdev & 0xff) | ((rdev >> 12) & !0xff);
    ((major << 18) | (minor & 0x3_ffff)) as u32
}
