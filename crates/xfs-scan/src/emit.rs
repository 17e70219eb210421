//! From stored rows to the output.
//!
//! Owns: giving each row its paths, and handing it to everyone who wants it. Does **not** own: what
//! they make of it.

use xfs_format::AgNumber;
use xfs_format::inode::FileType;

use crate::accounting::AccountPart;
use crate::batch::{Batch, Item, Link};
use crate::output::{Encoding, Piece, RowEncoder};
use crate::paths::{DirectoryTable, NoPath, PathWriter};
use crate::row::{ByteList, Row, RowView};
use crate::source::ScanSource;
use crate::summary::Summary;
use crate::{AccountBy, Finding, FindingCode, ScanError};

/// Bytes of paths of one inode that are shown; what is beyond is a finding.
const MOST_PATH_BYTES: usize = 64 << 20;

/// What the emitting workers share.
pub(crate) struct Emission<'a> {
    pub(crate) source: &'a ScanSource,
    /// `None` where nothing is written.
    pub(crate) encoding: Option<&'a Encoding>,
    /// `None` where paths are not wanted.
    pub(crate) directories: Option<&'a DirectoryTable>,
    /// The moment that ages are counted back from, where a summary is wanted.
    pub(crate) summary_now: Option<i64>,
    pub(crate) accounts: &'a [AccountBy],
}

/// What came of some batches.
pub(crate) struct Emitted {
    pub(crate) piece: Option<Piece>,
    pub(crate) inodes: u64,
    pub(crate) findings: u64,
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

    /// Emits the rows of some batches, and findings, as one piece.
    pub(crate) fn emit(
        &mut self,
        batches: impl IntoIterator<Item = Result<(AgNumber, Batch, Vec<Finding>), ScanError>>,
    ) -> Result<Emitted, ScanError> {
        let emission = self.emission;
        let encoding = emission.encoding;
        let mut encoder =
            encoding.map(|encoding| encoding.encoder(&emission.source.volume)).transpose()?;
        let mut summary = emission.summary_now.map(|now| Box::new(Summary::new(now)));
        let mut accounts = (!emission.accounts.is_empty()).then(Box::<AccountPart>::default);
        let (mut inodes, mut findings) = (0, 0);
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
                if let Some(encoder) = &mut encoder {
                    encoder.inode(&view)?;
                }
                if summary.is_none() && accounts.is_none() {
                    continue;
                }
                let items = batch.items(row);
                let mut parents = items.clone().links().map(|link| link.parent);
                if let Some(summary) = &mut summary {
                    summary.add(&view, items.clone().links().map(|link| link.parent));
                }
                if let Some(accounts) = &mut accounts {
                    let shared = items.shared().map(|run| (run.start, run.length));
                    let directory = if is_directory(row) { Some(row.ino) } else { parents.next() };
                    accounts.add(emission.accounts, &view, directory, shared);
                }
            }
            inodes += batch.rows.len() as u64;
            findings += found.len() as u64;
            encode_findings(encoder.as_deref_mut(), &found)?;
        }
        let is_empty = inodes == 0 && findings == 0;
        let piece = match encoder {
            Some(encoder) if !is_empty => Some(encoder.finish()?),
            _ => None,
        };
        Ok(Emitted { piece, inodes, findings, summary, accounts })
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
        let (mut link_count, mut path_bytes) = (0_u32, 0);
        for item in batch.items(row) {
            match item {
                Item::Link(link) if !is_root => {
                    link_count += 1;
                    path_bytes += link.name.len();
                    if path_bytes > MOST_PATH_BYTES {
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

/// Encodes findings alone.
pub(crate) fn encode_findings(
    encoder: Option<&mut (dyn RowEncoder + '_)>,
    findings: &[Finding],
) -> Result<(), ScanError> {
    let Some(encoder) = encoder else { return Ok(()) };
    findings.iter().try_for_each(|finding| encoder.finding(finding))
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
