//! The rows of one side of a diff, with the paths of their inodes.
//!
//! Owns: the batch of rows, which a scan of an image or the reader of a stored scan fills. Does
//! **not** own: the order of rows (`cursor`), or the meaning of differences.

use super::DiffFinding;
use crate::accounting::Account;
use crate::output::{OutputPiece, RowEncoder, Rows};
use crate::row::{ByteList, ParentDirectory, Row, RowView};
use crate::{Finding, ScanError};

/// The panic message for a batch that lacks the paths or the attribute names of one of its rows.
const HAS_ROW: &str = "each row of a batch has its lists";

/// The rows of some inodes with their paths and attribute names, and the findings among them.
#[derive(Debug, Default)]
pub(crate) struct EntryBatch {
    rows: Vec<Row>,
    parents: Vec<ParentDirectory>,
    /// One path for each item of `parents`.
    paths: ByteList,
    /// For each row, the index in `parents` after the row's last path.
    path_ends: Vec<usize>,
    xattrs: ByteList,
    /// For each row, the index in `xattrs` after the row's last attribute name.
    xattr_ends: Vec<usize>,
    /// Whether the rows have the names of their attributes.
    has_xattrs: bool,
    pub(super) findings: Vec<DiffFinding>,
}

impl EntryBatch {
    pub(super) fn new(has_xattrs: bool) -> Self {
        Self { has_xattrs, ..Self::default() }
    }

    /// Adds an inode. `paths` and `parents` have one item for each path.
    pub(super) fn push<'p>(
        &mut self,
        row: Row,
        paths: impl Iterator<Item = &'p [u8]>,
        parents: &[ParentDirectory],
        xattrs: impl Iterator<Item = &'p [u8]>,
    ) {
        self.rows.push(row);
        paths.for_each(|path| self.paths.push(path));
        self.parents.extend_from_slice(parents);
        self.path_ends.push(self.parents.len());
        xattrs.for_each(|name| self.xattrs.push(name));
        self.xattr_ends.push(self.xattrs.len());
    }

    /// Returns the rows, in the order of their inode numbers.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn size_bytes(&self) -> usize {
        let row = size_of::<Row>() + 2 * size_of::<usize>();
        let path = size_of::<ParentDirectory>() + size_of::<usize>();
        self.rows.len() * row
            + self.parents.len() * path
            + self.paths.byte_length()
            + self.xattrs.byte_length()
    }
}

/// One inode in one of the two compared states.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    batch: &'a EntryBatch,
    index: usize,
    row: &'a Row,
}

impl<'a> EntryView<'a> {
    pub(super) fn new(batch: &'a EntryBatch, index: usize) -> Option<Self> {
        Some(Self { batch, index, row: batch.rows.get(index)? })
    }

    /// Returns the stored attributes of the inode.
    #[must_use]
    pub const fn row(self) -> &'a Row {
        self.row
    }

    fn range(ends: &[usize], index: usize) -> std::ops::Range<usize> {
        let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied();
        start.unwrap_or(0)..ends.get(index).copied().expect(HAS_ROW)
    }

    /// Returns all paths of the inode.
    pub fn paths(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let range = Self::range(&self.batch.path_ends, self.index);
        range.filter_map(|at| self.batch.paths.item(at))
    }

    /// Returns the directories of the paths, in the order of the paths.
    #[must_use]
    pub fn parents(self) -> &'a [ParentDirectory] {
        let range = Self::range(&self.batch.path_ends, self.index);
        self.batch.parents.get(range).expect(HAS_ROW)
    }

    /// Returns the names of the extended attributes, in no order; `None` if the stored scan did not
    /// include them.
    pub(super) fn xattrs(self) -> Option<impl Iterator<Item = &'a [u8]> + Clone> {
        let range = Self::range(&self.batch.xattr_ends, self.index);
        self.batch.has_xattrs.then(|| range.filter_map(|at| self.batch.xattrs.item(at)))
    }
}

/// Collects the rows of a scan into batches.
#[derive(Default)]
pub(crate) struct EntryEncoder(EntryBatch);

impl EntryEncoder {
    pub(crate) fn new() -> Self {
        Self(EntryBatch::new(true))
    }
}

impl RowEncoder for EntryEncoder {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        self.0.push(view.row.clone(), view.paths.iter(), view.parents, view.xattrs.iter());
        Ok(())
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        self.0.findings.push(finding.clone().into());
        Ok(())
    }

    fn account(&mut self, _: &Account) -> Result<(), ScanError> {
        unreachable!("a comparison asks for no accounts")
    }

    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError> {
        Ok(OutputPiece { rows: Some(Rows::Entries(Box::new(self.0))), facts: Vec::new() })
    }
}
