//! Rows of inodes as columns of Arrow: for the file format Parquet, and as record batches for a
//! program that reads them from memory.
//!
//! Owns: collecting rows column by column, and the schema. Does **not** own: files.

mod columns;
mod inode_rows;

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder as _, BinaryBuilder, ListBuilder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow_schema::{Field as ArrowField, Schema};

pub(super) use self::columns::ArrowColumn;
use self::columns::columns;
#[cfg(feature = "parquet")]
pub(in crate::output) use self::inode_rows::RunValue;
use self::inode_rows::{InodeRows, constant};
use super::facts::{Fact, Facts};
use super::{Appender, Encoding, Header, Output, OutputPiece, RowAppender, RowEncoder, Rows};
use crate::accounting::Account;
use crate::row::{ByteList, ParentDirectory, RowView, VolumeLabel};
use crate::{Field, Fields, Finding, ScanError};

/// Number of rows that are collected before their columns are encoded.
const ROWS_PER_STEP: usize = 4096;
/// Number of bytes of names that are collected before their columns are encoded. An Arrow list
/// holds less than 2 GiB.
const NAME_BYTES_PER_STEP: usize = 8 << 20;

/// The columns of an output, and their schema. All encoders of the output share them.
#[derive(Clone)]
pub(crate) struct ColumnLayout {
    pub(super) fields: Fields,
    pub(super) columns: Vec<ArrowColumn>,
    pub(super) schema: Arc<Schema>,
}

impl ColumnLayout {
    pub(super) fn new(fields: Fields) -> Self {
        let columns = columns(fields);
        let arrow_fields: Vec<_> = columns
            .iter()
            .map(|column| ArrowField::new(column.name(), column.data_type(), column.is_nullable()))
            .collect();
        Self { fields, columns, schema: Arc::new(Schema::new(arrow_fields)) }
    }
}

/// Returns the schema of the record batches of a scan with these fields.
#[must_use]
pub fn arrow_schema(fields: Fields) -> Arc<Schema> {
    ColumnLayout::new(fields).schema
}

/// Rows that wait to become columns, and the constants of their volume.
pub(super) struct RowColumns {
    fields: Fields,
    uuid: String,
    label: String,
    inodes: InodeRows,
    paths: Lists,
    xattrs: Lists,
    symlinks: Symlinks,
    owners: StringBuilder,
    groups: StringBuilder,
    hashes: StringBuilder,
    parents: Parents,
    /// Number of bytes of names in the rows.
    name_bytes: usize,
}

impl RowColumns {
    pub(super) fn new(fields: Fields, volume: &VolumeLabel) -> Self {
        Self {
            fields,
            uuid: volume.uuid.to_string(),
            label: volume.label_text().into_owned(),
            inodes: InodeRows::default(),
            paths: Lists::default(),
            xattrs: Lists::default(),
            symlinks: Symlinks::default(),
            owners: StringBuilder::new(),
            groups: StringBuilder::new(),
            hashes: StringBuilder::new(),
            parents: Parents::default(),
            name_bytes: 0,
        }
    }

    /// Adds a row. Returns whether the rows are enough for one step, so that they should become
    /// columns before the next row.
    pub(super) fn push(&mut self, view: &RowView<'_>) -> bool {
        self.inodes.rows.push(view.row.clone());
        self.inodes.ags.push(view.ag);
        self.inodes.blocks.push(view.blocks());
        self.inodes.realtime_blocks.push(view.realtime_blocks());
        self.inodes.orphans.push(view.is_orphan);
        let fields = self.fields;
        let is_text = fields.contains(Field::Paths) && self.paths.push(view.paths);
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
        if fields.contains(Field::Hash) {
            self.hashes.append_option(view.hash);
        }
        self.parents.push(fields, view, is_text);
        self.name_bytes += view.paths.byte_length() + view.xattrs.byte_length();
        self.inodes.rows.len() == ROWS_PER_STEP || self.name_bytes > NAME_BYTES_PER_STEP
    }

    pub(super) fn count(&self) -> usize {
        self.inodes.rows.len()
    }

    /// Returns the number of bytes of names in the rows.
    #[cfg(feature = "parquet")]
    pub(super) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    /// Passes the columns of the rows to `each`, one after the other, in the order of the layout.
    /// Then the rows are gone.
    pub(super) fn take_columns(
        &mut self,
        layout: &ColumnLayout,
        mut each: impl FnMut(usize, TakenColumn<'_>) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.name_bytes = 0;
        let inodes = std::mem::take(&mut self.inodes);
        if !inodes.rows.is_empty() {
            for (index, &column) in layout.columns.iter().enumerate() {
                each(index, TakenColumn { columns: self, column, inodes: &inodes })?;
            }
        }
        let InodeRows { mut rows, mut ags, mut blocks, mut realtime_blocks, mut orphans } = inodes;
        rows.clear();
        ags.clear();
        blocks.clear();
        realtime_blocks.clear();
        orphans.clear();
        self.inodes = InodeRows { rows, ags, blocks, realtime_blocks, orphans };
        Ok(())
    }

    fn take_column(&mut self, column: ArrowColumn, inodes: &InodeRows) -> ArrayRef {
        let count = inodes.rows.len();
        match column {
            ArrowColumn::Inode(Field::VolumeUuid) => constant(&self.uuid, count),
            ArrowColumn::Inode(Field::VolumeLabel) => constant(&self.label, count),
            ArrowColumn::Inode(Field::Paths) => Arc::new(self.paths.text.finish()),
            ArrowColumn::PathsBytes => self.paths.take_bytes(column, count),
            ArrowColumn::Inode(Field::Xattrs) => Arc::new(self.xattrs.text.finish()),
            ArrowColumn::XattrsBytes => self.xattrs.take_bytes(column, count),
            ArrowColumn::Inode(Field::Symlink) => Arc::new(self.symlinks.text.finish()),
            ArrowColumn::SymlinkBytes => Arc::new(self.symlinks.bytes.finish()),
            ArrowColumn::Orphan => Arc::new(BooleanArray::from(inodes.orphans.clone())),
            ArrowColumn::Inode(Field::Owner) => Arc::new(self.owners.finish()),
            ArrowColumn::Inode(Field::Group) => Arc::new(self.groups.finish()),
            ArrowColumn::Inode(Field::Hash) => Arc::new(self.hashes.finish()),
            ArrowColumn::Inode(Field::Parents) => Arc::new(self.parents.numbers.finish()),
            ArrowColumn::Inode(Field::ParentGenerations) => {
                Arc::new(self.parents.generations.finish())
            }
            ArrowColumn::Inode(field) => inodes.column(field),
        }
    }
}

/// A column of the rows that `RowColumns::take_columns` takes.
pub(super) struct TakenColumn<'a> {
    columns: &'a mut RowColumns,
    column: ArrowColumn,
    inodes: &'a InodeRows,
}

impl TakenColumn<'_> {
    /// Returns the runs of equal values in the column, with their numbers of rows. Returns `None`
    /// if there are more than a few runs, for columns that can be null, and for lists.
    #[cfg(feature = "parquet")]
    pub(super) fn runs(&self) -> Option<Vec<(RunValue, usize)>> {
        let whole = |text: &str| Some(vec![(RunValue::Text(text.into()), self.inodes.rows.len())]);
        match self.column {
            ArrowColumn::Inode(Field::VolumeUuid) => whole(&self.columns.uuid),
            ArrowColumn::Inode(Field::VolumeLabel) => whole(&self.columns.label),
            ArrowColumn::Inode(field) => self.inodes.runs(field),
            _ => None,
        }
    }

    /// Returns the column.
    pub(super) fn into_array(self) -> ArrayRef {
        self.columns.take_column(self.column, self.inodes)
    }
}

/// Two list columns: one of strings that are UTF-8, and one of other byte strings.
#[derive(Default)]
struct Lists {
    text: ListBuilder<StringBuilder>,
    bytes: ListBuilder<BinaryBuilder>,
}

impl Lists {
    /// Adds the strings of a row. Returns whether all of them are UTF-8.
    fn push(&mut self, list: &ByteList) -> bool {
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
        !others
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
    fn take_bytes(&mut self, column: ArrowColumn, count: usize) -> ArrayRef {
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
    /// Adds the directories of a row. `is_text` says that all paths of the row are UTF-8, so that
    /// the output has the directories in the order of the row.
    fn push(&mut self, fields: Fields, view: &RowView<'_>, is_text: bool) {
        if is_text {
            self.add(fields, view.parents.iter().take(view.paths.len()).copied());
        } else {
            self.add(fields, view.parents_in_columns());
        }
    }

    fn add(&mut self, fields: Fields, parents: impl Iterator<Item = ParentDirectory> + Clone) {
        if fields.contains(Field::Parents) {
            parents.clone().for_each(|parent| self.numbers.values().append_value(parent.ino));
            self.numbers.append(true);
        }
        if fields.contains(Field::ParentGenerations) {
            parents.for_each(|parent| self.generations.values().append_value(parent.generation));
            self.generations.append(true);
        }
    }
}

/// The receiver of the record batches of a scan. An error ends the scan.
pub(crate) type BatchSink<'w> = Box<dyn FnMut(RecordBatch) -> Result<(), ScanError> + Send + 'w>;

impl<'w> Output<'w> {
    /// Starts an output of Arrow record batches with the columns of a Parquet file. `sink` gets
    /// them in the order of inode numbers, in the thread that runs the scan. If it returns
    /// [`ScanError::Cancelled`], the scan ends with this error.
    #[must_use]
    pub fn arrow(
        fields: Fields,
        header: Header,
        sink: impl FnMut(RecordBatch) -> Result<(), ScanError> + Send + 'w,
    ) -> Self {
        Self {
            encoding: Encoding::Arrow(ColumnLayout::new(fields)),
            appender: Appender {
                rows: RowAppender::Arrow(Box::new(sink)),
                facts: Facts::new(header, false),
            },
        }
    }
}

/// Encodes rows of one volume into record batches.
pub(super) struct ArrowEncoder<'a> {
    layout: &'a ColumnLayout,
    rows: RowColumns,
    batches: Vec<RecordBatch>,
    facts: Vec<Fact>,
    /// Number of bytes of the arrays.
    encoded_bytes: usize,
}

impl<'a> ArrowEncoder<'a> {
    pub(super) fn new(layout: &'a ColumnLayout, volume: &VolumeLabel) -> Self {
        let rows = RowColumns::new(layout.fields, volume);
        Self { layout, rows, batches: Vec::new(), facts: Vec::new(), encoded_bytes: 0 }
    }

    fn flush(&mut self) {
        if self.rows.count() == 0 {
            return;
        }
        let mut arrays = Vec::with_capacity(self.layout.columns.len());
        let collected = self.rows.take_columns(self.layout, |_, column| {
            arrays.push(column.into_array());
            Ok(())
        });
        collected.expect("collecting arrays does not fail");
        let batch = RecordBatch::try_new(Arc::clone(&self.layout.schema), arrays);
        let batch = batch.expect("the arrays have the types and lengths of the schema");
        self.encoded_bytes += batch.get_array_memory_size();
        self.batches.push(batch);
    }
}

impl RowEncoder for ArrowEncoder<'_> {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        if self.rows.push(view) {
            self.flush();
        }
        Ok(())
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
        self.flush();
        let rows = (!self.batches.is_empty()).then_some(Rows::Batches(self.batches));
        Ok(OutputPiece { rows, facts: self.facts })
    }
}
