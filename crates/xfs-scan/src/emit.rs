//! From stored rows to the output.
//!
//! Owns: giving each row its paths, and handing it to everyone who wants it. Does **not** own: what
//! they make of it.

use xfs_format::AgNumber;
use xfs_format::inode::FileType;

use crate::accounting::AccountPart;
use crate::batch::{Batch, Item, Link};
use crate::memory::{Memory, Spilled};
use crate::output::{Encoding, Fact, Piece, RowEncoder, Rows};
use crate::paths::{DirectoryTable, NoPath, PathWriter};
use crate::row::{ByteList, Row, RowView};
use crate::source::ScanSource;
use crate::summary::Summary;
use crate::{AccountBy, Finding, FindingCode, ScanError};

/// A piece that is larger is ended. Rows of common length never are.
const PIECE_BYTES: usize = 16 << 20;
/// Bytes of paths of one inode that are shown; what is beyond is a finding.
const MOST_PATH_BYTES: usize = 64 << 20;

/// What the emitting workers share.
pub(crate) struct Emission<'a> {
    pub(crate) source: &'a ScanSource,
    pub(crate) memory: &'a Memory,
    /// `None` where nothing is written.
    pub(crate) encoding: Option<&'a Encoding>,
    /// `None` where paths are not wanted.
    pub(crate) directories: Option<&'a DirectoryTable>,
    /// The moment that ages are counted back from, where a summary is wanted.
    pub(crate) summary_now: Option<i64>,
    pub(crate) accounts: &'a [AccountBy],
}

/// A part of what came of some batches, in order.
pub(crate) enum Part {
    Piece(Piece),
    /// Lines in the spill file, and the facts beside them.
    Spilled(Spilled, Vec<Fact>),
}

/// What came of some batches.
pub(crate) struct Emitted {
    pub(crate) parts: Vec<Part>,
    pub(crate) inodes: u64,
    pub(crate) findings: u64,
    /// Findings that are corruption.
    pub(crate) corruptions: u64,
    /// Inode numbers that have no row because of a finding.
    pub(crate) missing_inodes: u64,
    pub(crate) summary: Option<Box<Summary>>,
    pub(crate) accounts: Option<Box<AccountPart>>,
}

/// Emits batches for one worker.
pub(crate) struct Emitter<'a> {
    emission: &'a Emission<'a>,
    writer: Option<PathWriter<'a>>,
    paths: ByteList,
    xattrs: ByteList,
    block_units_log: u8,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(emission: &'a Emission<'a>) -> Self {
        Self {
            emission,
            writer: emission.directories.map(PathWriter::new),
            paths: ByteList::default(),
            xattrs: ByteList::default(),
            block_units_log: emission.source.geometry().block_log - 9,
        }
    }

    /// Emits the rows of some batches, and findings: as one piece, unless their paths are long.
    pub(crate) fn emit(
        &mut self,
        batches: impl IntoIterator<Item = Result<(AgNumber, Batch, Vec<Finding>), ScanError>>,
    ) -> Result<Emitted, ScanError> {
        let emission = self.emission;
        let mut pieces = Pieces::new(emission)?;
        let mut summary = emission.summary_now.map(|now| Box::new(Summary::new(now)));
        let mut accounts = (!emission.accounts.is_empty()).then(Box::<AccountPart>::default);
        let (mut inodes, mut findings, mut corruptions, mut missing_inodes) = (0, 0, 0, 0);
        for batch in batches {
            let (group, batch, mut found) = batch?;
            for row in &batch.rows {
                self.gather(row, &batch, &mut found);
                let view = RowView {
                    row,
                    ag: group.0,
                    block_units_log: self.block_units_log,
                    paths: &self.paths,
                    is_orphan: self.writer.is_some() && self.paths.is_empty(),
                    symlink: find_symlink(&batch, row),
                    xattrs: &self.xattrs,
                };
                pieces.encode(|encoder| encoder.inode(&view))?;
                let items = batch.items(row);
                if let Some(summary) = &mut summary {
                    summary.add(&view, items.clone().links().map(|link| link.parent));
                }
                if let Some(accounts) = &mut accounts {
                    let parent = items.clone().links().next().map(|link| link.parent);
                    let directory = if is_directory(row) { Some(row.ino) } else { parent };
                    let shared = items.shared().map(|run| (run.start, run.length));
                    accounts.add(emission.accounts, &view, directory, shared);
                }
            }
            inodes += batch.rows.len() as u64;
            findings += found.len() as u64;
            corruptions += found.iter().filter(|found| found.code.is_corruption()).count() as u64;
            missing_inodes += found.iter().map(|found| u64::from(found.inode_count)).sum::<u64>();
            found.iter().try_for_each(|finding| pieces.encode(|it| it.finding(finding)))?;
        }
        let parts = pieces.finish()?;
        Ok(Emitted { parts, inodes, findings, corruptions, missing_inodes, summary, accounts })
    }

    /// Gathers the paths and attribute names of a row.
    #[inline]
    fn gather(&mut self, row: &Row, batch: &Batch, findings: &mut Vec<Finding>) {
        self.paths.clear();
        self.xattrs.clear();
        let is_root = row.ino == self.emission.source.root.0;
        let Some(writer) = &mut self.writer else {
            for item in batch.items(row) {
                if let Item::Xattr(name) = item {
                    self.xattrs.push(name);
                }
            }
            return;
        };
        if is_root {
            self.paths.push(b"/");
        }
        let mut link_count = 0_u64;
        for item in batch.items(row) {
            match item {
                Item::Link(link) if !is_root => {
                    link_count += 1;
                    if self.paths.byte_length() > MOST_PATH_BYTES {
                        note_too_many(row, findings);
                        break;
                    }
                    if let Err(reason) = writer.push_path(&link, &mut self.paths) {
                        note_no_path(row, &link, reason, findings);
                    }
                }
                Item::Xattr(name) => self.xattrs.push(name),
                Item::Link(_) | Item::Symlink(_) | Item::Shared(_) => {}
            }
        }
        if link_count == 0 && row.nlink != 0 && !is_root {
            note_unnamed(row, findings);
        }
    }
}

/// Pieces that are being filled, one after the other.
struct Pieces<'a> {
    emission: &'a Emission<'a>,
    /// `None` where nothing is written.
    encoder: Option<Box<dyn RowEncoder + 'a>>,
    is_empty: bool,
    full: Vec<Part>,
}

impl<'a> Pieces<'a> {
    fn new(emission: &'a Emission<'a>) -> Result<Self, ScanError> {
        let encoder = emission.encoder()?;
        Ok(Self { emission, encoder, is_empty: true, full: Vec::new() })
    }

    /// Encodes one row. A piece that has grown large is put by, lines in the spill file: the rows of
    /// a unit are bounded in number, their paths are not.
    #[inline]
    fn encode(
        &mut self,
        row: impl FnOnce(&mut dyn RowEncoder) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        self.is_empty = false;
        row(&mut **encoder)?;
        if encoder.size_bytes() > PIECE_BYTES { self.put_by() } else { Ok(()) }
    }

    #[cold]
    fn put_by(&mut self) -> Result<(), ScanError> {
        let Some(full) = std::mem::replace(&mut self.encoder, self.emission.encoder()?) else {
            return Ok(());
        };
        self.is_empty = true;
        let Piece { rows, facts } = full.finish()?;
        self.full.push(match rows {
            Some(Rows::Lines(lines)) => Part::Spilled(self.emission.memory.spill(&lines)?, facts),
            rows => Part::Piece(Piece { rows, facts }),
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Part>, ScanError> {
        if let Some(encoder) = self.encoder
            && !self.is_empty
        {
            self.full.push(Part::Piece(encoder.finish()?));
        }
        Ok(self.full)
    }
}

impl Emission<'_> {
    fn encoder(&self) -> Result<Option<Box<dyn RowEncoder + '_>>, ScanError> {
        self.encoding.map(|encoding| encoding.encoder(&self.source.volume)).transpose()
    }
}

fn is_directory(row: &Row) -> bool {
    row.file_type() == Some(FileType::Directory)
}

#[inline]
fn find_symlink<'b>(batch: &'b Batch, row: &Row) -> Option<&'b [u8]> {
    if row.file_type() != Some(FileType::Symlink) {
        return None;
    }
    batch.items(row).find_map(|item| match item {
        Item::Symlink(target) => Some(target),
        _ => None,
    })
}

#[cold]
fn note_no_path(row: &Row, link: &Link<'_>, reason: NoPath, findings: &mut Vec<Finding>) {
    let parent = link.parent;
    let (code, message) = match reason {
        NoPath::Missing => (
            FindingCode::ParentMissing,
            format!("inode {parent}, said to be its parent, is no directory that is there"),
        ),
        NoPath::Stale => (
            FindingCode::ParentStale,
            format!("its parent was generation {} of inode {parent}", link.parent_generation),
        ),
        NoPath::Cycle if is_directory(row) => {
            (FindingCode::ParentCycle, format!("inode {parent}, its parent, is its own ancestor"))
        }
        NoPath::TooLong => {
            (FindingCode::PathTooLong, format!("the path of inode {parent} is too long to show"))
        }
        // The directory where the chain breaks has a finding of its own.
        NoPath::Cycle | NoPath::Unreachable => return,
    };
    findings.push(Finding::about(code, row.ino, message));
}

#[cold]
fn note_unnamed(row: &Row, findings: &mut Vec<Finding>) {
    let message = format!("it has {} links, but no directory names it", row.nlink);
    findings.push(Finding::about(FindingCode::ParentMissing, row.ino, message));
}

#[cold]
fn note_too_many(row: &Row, findings: &mut Vec<Finding>) {
    let message = "it has more paths than are shown".to_owned();
    findings.push(Finding::about(FindingCode::TooManyPaths, row.ino, message));
}

#[cfg(test)]
mod tests;
