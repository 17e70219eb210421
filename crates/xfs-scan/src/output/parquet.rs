//! Apache Parquet: one column chunk per field, with row groups encoded in parallel.
//!
//! Integers are delta-packed: inode numbers, times and constant columns shrink to a fraction, in
//! less time than building a dictionary takes. Columns of repeated words use a dictionary. Paths
//! are compressed with LZ4, which costs less than writing the saved bytes.

mod columns;

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder as _, BinaryBuilder, ListBuilder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray, new_null_array,
};
use arrow_schema::{DataType, Field as ArrowField, Schema};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use self::columns::{ParquetColumn, columns, properties};
use super::facts::{Fact, Facts, MetadataFacts};
use super::{
    Appender, Encoding, Header, Output, OutputPiece, RowAppender, RowEncoder, Rows, Trailer,
};
use crate::accounting::Account;
use crate::row::{ByteList, Row, RowView, VolumeLabel};
use crate::{Field, Fields, Finding, ScanError};

/// Number of rows that are collected before their columns are encoded.
const ROWS_PER_STEP: usize = 4096;
/// Number of bytes of names that are collected before their columns are encoded. An Arrow list
/// holds less than 2 GiB.
const NAME_BYTES_PER_STEP: usize = 8 << 20;

type Writer<'w> = Box<dyn Write + Send + 'w>;

/// The encoded columns of one row group.
pub(crate) struct RowGroup(Vec<ArrowColumnChunk>);

/// The state from which workers create their encoders.
pub(crate) struct ParquetEncoding {
    fields: Fields,
    columns: Vec<ParquetColumn>,
    schema: Arc<Schema>,
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
    let columns = columns(fields);
    let arrow_fields: Vec<_> = columns
        .iter()
        .map(|column| ArrowField::new(column.name(), column.data_type(), column.is_nullable()))
        .collect();
    let schema = Arc::new(Schema::new(arrow_fields));
    let options = ArrowWriterOptions::new().with_properties(properties(&columns, header));
    let arrow = ArrowWriter::try_new_with_options(writer, Arc::clone(&schema), options)
        .map_err(output_error)?;
    let (file, factory) = arrow.into_serialized_writer().map_err(output_error)?;
    Ok(Output {
        encoding: Encoding::Parquet(ParquetEncoding { fields, columns, schema, factory }),
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
            encoding: self,
            writers,
            uuid: volume.uuid.to_string(),
            label: volume.label_text().into_owned(),
            inodes: InodeRows::default(),
            paths: Lists::default(),
            xattrs: Lists::default(),
            symlinks: Symlinks::default(),
            owners: StringBuilder::new(),
            groups: StringBuilder::new(),
            parents: Parents::default(),
            facts: Vec::new(),
            has_rows: false,
            name_bytes: 0,
            encoded_bytes: 0,
        })
    }
}

/// Encodes rows of one volume into one row group.
pub(super) struct ParquetEncoder<'a> {
    encoding: &'a ParquetEncoding,
    writers: Vec<ArrowColumnWriter>,
    uuid: String,
    label: String,
    inodes: InodeRows,
    paths: Lists,
    xattrs: Lists,
    symlinks: Symlinks,
    owners: StringBuilder,
    groups: StringBuilder,
    parents: Parents,
    facts: Vec<Fact>,
    has_rows: bool,
    /// Number of bytes of names in the rows that wait to be encoded.
    name_bytes: usize,
    /// Number of bytes of names that were encoded, before compression.
    encoded_bytes: usize,
}

/// The collected rows of inodes, column by column, before they are encoded.
#[derive(Default)]
struct InodeRows {
    rows: Vec<Row>,
    ags: Vec<u32>,
    blocks: Vec<u64>,
    realtime_blocks: Vec<u64>,
    orphans: Vec<bool>,
}

/// Two list columns: one of strings that are UTF-8, and one of other byte strings.
#[derive(Default)]
struct Lists {
    text: ListBuilder<StringBuilder>,
    bytes: ListBuilder<BinaryBuilder>,
}

impl Lists {
    fn push(&mut self, list: &ByteList) {
        let mut others = false;
        for item in list.iter() {
            match std::str::from_utf8(item) {
                Ok(text) => self.text.values().append_value(text),
                Err(_) => {
                    if !others {
                        // A list ends at the current values, so earlier rows must be complete
                        // first.
                        self.fill_up(self.text.len());
                        others = true;
                    }
                    self.bytes.values().append_value(item);
                }
            }
        }
        self.text.append(true);
        if others {
            self.bytes.append(true);
        }
    }

    /// Fills the column of non-UTF-8 strings with empty lists until it has one list for each of the
    /// first `count` rows.
    fn fill_up(&mut self, count: usize) {
        while self.bytes.len() < count {
            self.bytes.append(false);
        }
    }

    /// Returns the column of strings that are not UTF-8. A row without such strings has null in
    /// this column.
    fn take_bytes(&mut self, column: ParquetColumn, count: usize) -> ArrayRef {
        if self.bytes.is_empty() {
            return new_null_array(&column.data_type(), count);
        }
        self.fill_up(count);
        Arc::new(self.bytes.finish())
    }
}

/// Two columns of symlink targets: one of targets that are UTF-8, and one of other targets.
#[derive(Default)]
struct Symlinks {
    text: StringBuilder,
    bytes: BinaryBuilder,
}

impl Symlinks {
    fn push(&mut self, target: Option<&[u8]>) {
        match target.map(|target| (std::str::from_utf8(target), target)) {
            Some((Ok(text), _)) => {
                self.text.append_value(text);
                self.bytes.append_null();
            }
            Some((Err(_), target)) => {
                self.text.append_null();
                self.bytes.append_value(target);
            }
            None => {
                self.text.append_null();
                self.bytes.append_null();
            }
        }
    }
}

/// Two list columns: the number and the generation of the directory of each path.
#[derive(Default)]
struct Parents {
    numbers: ListBuilder<UInt64Builder>,
    generations: ListBuilder<UInt32Builder>,
}

impl Parents {
    fn push(&mut self, fields: Fields, view: &RowView<'_>) {
        if fields.contains(Field::Parents) {
            let numbers = view.parents_in_columns().map(|parent| parent.ino);
            numbers.for_each(|number| self.numbers.values().append_value(number));
            self.numbers.append(true);
        }
        if fields.contains(Field::ParentGenerations) {
            let generations = view.parents_in_columns().map(|parent| parent.generation);
            generations.for_each(|it| self.generations.values().append_value(it));
            self.generations.append(true);
        }
    }
}

fn numbers<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn constant(text: &str, count: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, count)))
}

fn moments(rows: &[Row], moment: impl Fn(&Row) -> crate::row::Moment) -> ArrayRef {
    let values = rows.iter().map(|row| moment(row).nanoseconds());
    let array: PrimitiveArray<TimestampNanosecondType> =
        if rows.iter().all(|row| moment(row).nanoseconds().is_some()) {
            PrimitiveArray::from_iter_values(values.map(Option::unwrap_or_default))
        } else {
            values.collect::<PrimitiveArray<Int64Type>>().reinterpret_cast()
        };
    Arc::new(array.with_timezone("UTC"))
}

impl InodeRows {
    fn column(&self, field: Field) -> ArrayRef {
        let rows = self.rows.as_slice();
        let wide = |value: fn(&Row) -> u64| numbers::<UInt64Type>(rows.iter().map(value));
        let narrow = |value: fn(&Row) -> u32| numbers::<UInt32Type>(rows.iter().map(value));
        match field {
            Field::Ino => wide(|row| row.ino),
            Field::Generation => narrow(|row| row.generation),
            Field::Ag => numbers::<UInt32Type>(self.ags.iter().copied()),
            Field::Type => Arc::new(StringArray::from_iter_values(rows.iter().map(Row::type_name))),
            Field::Mode => narrow(|row| row.mode),
            Field::Nlink => narrow(|row| row.nlink),
            Field::Uid => narrow(|row| row.uid),
            Field::Gid => narrow(|row| row.gid),
            Field::ProjectId => narrow(|row| row.project_id),
            Field::Size => wide(|row| row.size),
            Field::Blocks => numbers::<UInt64Type>(self.blocks.iter().copied()),
            Field::RealtimeBlocks => numbers::<UInt64Type>(self.realtime_blocks.iter().copied()),
            Field::Atime => moments(rows, |row| row.atime),
            Field::Mtime => moments(rows, |row| row.mtime),
            Field::Ctime => moments(rows, |row| row.ctime),
            Field::Btime => moments(rows, |row| row.btime),
            Field::Extents => wide(|row| row.extents),
            Field::AttrExtents => narrow(|row| row.attr_extents),
            Field::Xflags => narrow(|row| row.xflags),
            Field::Rdev => wide(Row::rdev),
            Field::ChangeCount => wide(|row| row.change_count),
            Field::Lsn => wide(|row| row.lsn),
            Field::Flags => narrow(|row| row.flags),
            Field::Flags2 => wide(|row| row.flags2),
            Field::VolumeUuid
            | Field::VolumeLabel
            | Field::Owner
            | Field::Group
            | Field::Symlink
            | Field::Xattrs
            | Field::Paths
            | Field::Parents
            | Field::ParentGenerations => new_null_array(&DataType::Null, rows.len()),
        }
    }
}

impl ParquetEncoder<'_> {
    fn write_columns(
        &mut self,
        count: usize,
        mut array: impl FnMut(&mut Self, ParquetColumn) -> ArrayRef,
    ) -> Result<(), ScanError> {
        if count == 0 {
            return Ok(());
        }
        let encoding = self.encoding;
        for (index, (&column, field)) in
            encoding.columns.iter().zip(encoding.schema.fields()).enumerate()
        {
            let array = array(self, column);
            for leaf in compute_leaves(field, &array).map_err(output_error)? {
                // Every column of this schema has one leaf.
                if let Some(writer) = self.writers.get_mut(index) {
                    writer.write(&leaf).map_err(output_error)?;
                }
            }
        }
        Ok(())
    }

    fn flush_inodes(&mut self) -> Result<(), ScanError> {
        self.encoded_bytes += std::mem::take(&mut self.name_bytes);
        let inodes = std::mem::take(&mut self.inodes);
        let count = inodes.rows.len();
        self.has_rows |= count > 0;
        self.write_columns(count, |this, column| match column {
            ParquetColumn::Inode(Field::VolumeUuid) => constant(&this.uuid, count),
            ParquetColumn::Inode(Field::VolumeLabel) => constant(&this.label, count),
            ParquetColumn::Inode(Field::Paths) => Arc::new(this.paths.text.finish()),
            ParquetColumn::PathsBytes => this.paths.take_bytes(column, count),
            ParquetColumn::Inode(Field::Xattrs) => Arc::new(this.xattrs.text.finish()),
            ParquetColumn::XattrsBytes => this.xattrs.take_bytes(column, count),
            ParquetColumn::Inode(Field::Symlink) => Arc::new(this.symlinks.text.finish()),
            ParquetColumn::SymlinkBytes => Arc::new(this.symlinks.bytes.finish()),
            ParquetColumn::Orphan => Arc::new(BooleanArray::from(inodes.orphans.clone())),
            ParquetColumn::Inode(Field::Owner) => Arc::new(this.owners.finish()),
            ParquetColumn::Inode(Field::Group) => Arc::new(this.groups.finish()),
            ParquetColumn::Inode(Field::Parents) => Arc::new(this.parents.numbers.finish()),
            ParquetColumn::Inode(Field::ParentGenerations) => {
                Arc::new(this.parents.generations.finish())
            }
            ParquetColumn::Inode(field) => inodes.column(field),
        })?;
        let InodeRows { mut rows, mut ags, mut blocks, mut realtime_blocks, mut orphans } = inodes;
        rows.clear();
        ags.clear();
        blocks.clear();
        realtime_blocks.clear();
        orphans.clear();
        self.inodes = InodeRows { rows, ags, blocks, realtime_blocks, orphans };
        Ok(())
    }
}

impl RowEncoder for ParquetEncoder<'_> {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        self.inodes.rows.push(view.row.clone());
        self.inodes.ags.push(view.ag);
        self.inodes.blocks.push(view.blocks());
        self.inodes.realtime_blocks.push(view.realtime_blocks());
        self.inodes.orphans.push(view.is_orphan);
        let fields = self.encoding.fields;
        if fields.contains(Field::Paths) {
            self.paths.push(view.paths);
        }
        if fields.contains(Field::Xattrs) {
            self.xattrs.push(view.xattrs);
        }
        if fields.contains(Field::Symlink) {
            self.symlinks.push(view.symlink);
        }
        if fields.contains(Field::Owner) {
            self.owners.append_option(view.owner());
        }
        if fields.contains(Field::Group) {
            self.groups.append_option(view.group());
        }
        self.parents.push(fields, view);
        self.name_bytes += view.paths.byte_length() + view.xattrs.byte_length();
        let is_full = self.inodes.rows.len() == ROWS_PER_STEP;
        if is_full || self.name_bytes > NAME_BYTES_PER_STEP { self.flush_inodes() } else { Ok(()) }
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
