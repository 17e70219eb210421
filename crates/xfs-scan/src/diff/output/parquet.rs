//! Changes as Parquet: one row for each change. Findings are in the metadata of the file.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, TimestampNanosecondBuilder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field as ArrowField, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{DIFF_SCHEMA_VERSION, VALUES, push_finding, totals};
use crate::ScanError;
use crate::diff::{Change, DiffFinding, DiffReport, EntryView, State};

/// Number of rows that are collected before they are encoded.
const BATCH_ROWS: usize = 4096;
/// Number of bytes of paths that are collected before they are encoded.
const BATCH_BYTES: usize = 8 << 20;
/// Size of a row group in encoded bytes. A row group ends as soon as it has reached this size.
const GROUP_BYTES: usize = 16 << 20;
/// Most bytes of findings in the metadata of the file.
const METADATA_BYTES: usize = 1 << 20;

/// The lists of paths of a change, in the order of their columns.
const LISTS: [&str; 4] = ["old_paths", "paths", "removed_paths", "added_paths"];

type Writer<'w> = Box<dyn Write + Send + 'w>;

/// An open Parquet file of changes.
pub(super) struct ParquetChanges<'w> {
    writer: ArrowWriter<Writer<'w>>,
    schema: Arc<Schema>,
    columns: Columns,
    findings: Vec<u8>,
    omitted: u64,
}

/// The columns of the rows that wait to be encoded.
#[derive(Default)]
struct Columns {
    rows: usize,
    path_bytes: usize,
    change: StringBuilder,
    ino: UInt64Builder,
    generation: UInt32Builder,
    kind: StringBuilder,
    aspects: ListBuilder<StringBuilder>,
    lists: [PathLists; LISTS.len()],
    /// The values of the first state, then those of the second.
    values: [[UInt64Builder; VALUES.len()]; 2],
    times: [[TimestampNanosecondBuilder; 2]; 2],
}

fn schema() -> Schema {
    let list = |item| DataType::List(Arc::new(ArrowField::new("item", item, true)));
    let mut fields = vec![
        ArrowField::new("change", DataType::Utf8, false),
        ArrowField::new("ino", DataType::UInt64, false),
        ArrowField::new("generation", DataType::UInt32, false),
        ArrowField::new("type", DataType::Utf8, false),
        ArrowField::new("aspects", list(DataType::Utf8), false),
    ];
    for name in LISTS {
        fields.push(ArrowField::new(name, list(DataType::Utf8), false));
        fields.push(ArrowField::new(format!("{name}_bytes"), list(DataType::Binary), false));
    }
    for prefix in ["old_", ""] {
        for (name, _) in VALUES {
            fields.push(ArrowField::new(format!("{prefix}{name}"), DataType::UInt64, true));
        }
        for name in ["mtime", "ctime"] {
            let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
            fields.push(ArrowField::new(format!("{prefix}{name}"), time, true));
        }
    }
    Schema::new(fields)
}

fn output_error(error: ParquetError) -> ScanError {
    if let ParquetError::External(source) = error
        && let Ok(error) = source.downcast::<std::io::Error>()
    {
        return ScanError::Output(*error);
    }
    ScanError::Output(std::io::Error::other("the rows cannot be encoded as Parquet"))
}

impl<'w> ParquetChanges<'w> {
    pub(super) fn begin(writer: Writer<'w>) -> Result<Self, ScanError> {
        let schema = Arc::new(schema());
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_created_by(concat!("ferroxfs ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(writer, Arc::clone(&schema), Some(properties))
            .map_err(output_error)?;
        let columns = Columns::default();
        Ok(Self { writer, schema, columns, findings: Vec::new(), omitted: 0 })
    }

    pub(super) fn change(&mut self, change: &Change<'_>) -> Result<(), ScanError> {
        self.columns.push(change);
        if self.columns.rows < BATCH_ROWS && self.columns.path_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.encode()
    }

    pub(super) fn finding(&mut self, state: State, finding: &DiffFinding) {
        let mut line = Vec::new();
        push_finding(&mut line, state, finding);
        line.push(b'\n');
        if self.omitted > 0 || self.findings.len() + line.len() > METADATA_BYTES {
            self.omitted += 1;
            return;
        }
        self.findings.extend_from_slice(&line);
    }

    fn encode(&mut self) -> Result<(), ScanError> {
        let arrays = self.columns.take();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        let batch = batch.expect("the columns have the types of the schema");
        self.writer.write(&batch).map_err(output_error)?;
        if self.writer.in_progress_size() > GROUP_BYTES {
            self.writer.flush().map_err(output_error)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, report: &DiffReport) -> Result<(), ScanError> {
        if self.columns.rows > 0 {
            self.encode()?;
        }
        let mut add = |key: &str, value: String| {
            let pair = KeyValue::new(format!("ferroxfs.{key}"), value);
            self.writer.append_key_value_metadata(pair);
        };
        add("diff_schema_version", DIFF_SCHEMA_VERSION.to_string());
        for (name, count) in totals(report) {
            add(name, count.to_string());
        }
        add("facts", String::from_utf8_lossy(&self.findings).into_owned());
        add("facts_omitted", self.omitted.to_string());
        self.writer.close().map(drop).map_err(output_error)
    }
}

/// The two columns of a list of paths: those that are UTF-8, and the others.
#[derive(Default)]
struct PathLists {
    texts: ListBuilder<StringBuilder>,
    others: ListBuilder<BinaryBuilder>,
}

impl Columns {
    fn push(&mut self, change: &Change<'_>) {
        let row = change.latest().row();
        self.rows += 1;
        self.change.append_value(change.kind.name());
        self.ino.append_value(row.ino);
        self.generation.append_value(row.generation);
        self.kind.append_value(row.type_name());
        for aspect in change.aspects.iter() {
            self.aspects.values().append_value(aspect.name());
        }
        self.aspects.append(true);
        let [old, new, removed, added] = &mut self.lists;
        self.path_bytes += old.push(all_paths(change.old));
        self.path_bytes += new.push(all_paths(change.new));
        self.path_bytes += removed.push(change.removed_paths.iter().copied());
        self.path_bytes += added.push(change.added_paths.iter().copied());
        let states = [change.old, change.new].map(|entry| entry.map(EntryView::row));
        for ((row, values), times) in states.iter().zip(&mut self.values).zip(&mut self.times) {
            for ((_, value), column) in VALUES.iter().zip(values) {
                column.append_option(row.map(value));
            }
            let [mtime, ctime] = times;
            mtime.append_option(row.and_then(|row| row.mtime.nanoseconds()));
            ctime.append_option(row.and_then(|row| row.ctime.nanoseconds()));
        }
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let Self { change, ino, generation, kind, aspects, mut lists, values, times, .. } =
            std::mem::take(self);
        let (mut change, mut ino, mut generation) = (change, ino, generation);
        let (mut kind, mut aspects) = (kind, aspects);
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(change.finish()),
            Arc::new(ino.finish()),
            Arc::new(generation.finish()),
            Arc::new(kind.finish()),
            Arc::new(aspects.finish()),
        ];
        for list in &mut lists {
            arrays.push(Arc::new(list.texts.finish()));
            arrays.push(Arc::new(list.others.finish()));
        }
        for (values, times) in values.into_iter().zip(times) {
            arrays.extend(values.into_iter().map(|mut it| Arc::new(it.finish()) as ArrayRef));
            let times = times.into_iter().map(|mut times| times.finish().with_timezone("UTC"));
            arrays.extend(times.map(|times| Arc::new(times) as ArrayRef));
        }
        arrays
    }
}

fn all_paths<'a>(entry: Option<EntryView<'a>>) -> impl Iterator<Item = &'a [u8]> {
    entry.into_iter().flat_map(EntryView::paths)
}

impl PathLists {
    /// Appends a list of paths. Returns the number of their bytes.
    fn push<'a>(&mut self, paths: impl Iterator<Item = &'a [u8]>) -> usize {
        let mut bytes = 0;
        for path in paths {
            bytes += path.len();
            match std::str::from_utf8(path) {
                Ok(text) => self.texts.values().append_value(text),
                Err(_) => self.others.values().append_value(path),
            }
        }
        self.texts.append(true);
        self.others.append(true);
        bytes
    }
}
