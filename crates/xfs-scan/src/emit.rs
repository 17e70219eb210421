//! Turns the rows of scanned inodes into output.
//!
//! Owns: adding the paths to each row, and passing the row to the encoder, the summary and the
//! accounts. Does **not** own: the work of these three.

use xfs_format::AgNumber;
use xfs_format::inode::{ExtendedFlags, FileType};

use crate::accounting::AccountPart;
use crate::batch::{Batch, Link, RowItem};
use crate::hashing::Hashing;
use crate::memory::{Memory, SpillRange};
use crate::output::{Encoding, Fact, OutputPiece, RowEncoder, Rows};
use crate::paths::{DirectoryTable, NoPath, PathWriter};
use crate::row::{ByteList, ParentDirectory, Row, RowView};
use crate::source::ScanSource;
use crate::summary::Summary;
use crate::{AccountBy, Finding, FindingCode, ScanError};

/// Size in bytes at which a piece of output is completed; the next row begins a new piece. Only
/// very long paths make a piece this long. Other pieces end earlier, after a few batches.
const PIECE_BYTES: usize = 16 << 20;
/// The greatest number of bytes of paths that are written for one inode. If there are more, a
/// finding is written instead.
const MOST_PATH_BYTES: usize = 64 << 20;

/// State that is the same for all workers that encode rows.
pub(crate) struct EmitContext<'a> {
    pub(crate) source: &'a ScanSource,
    pub(crate) memory: &'a Memory,
    /// The encoding of the output. `None` if no rows are written.
    pub(crate) encoding: Option<&'a Encoding>,
    /// The directories of the volume. `None` if paths are not needed.
    pub(crate) directories: Option<&'a DirectoryTable>,
    /// The current time in seconds since 1970, from which the summary computes ages. `None` if no
    /// summary is needed.
    pub(crate) summary_now: Option<i64>,
    pub(crate) accounts: &'a [AccountBy],
    /// The hashes of contents. `None` if there is no column for them.
    pub(crate) hashing: Option<Hashing<'a>>,
}

/// A part of the encoded output of some batches: rows in memory, or rows that were written to the
/// spill file. The parts in a list are in the order of the rows.
pub(crate) enum EmittedPart {
    Piece(OutputPiece),
    /// Rows as lines of text in the spill file, and the facts (findings and accounts) that were
    /// collected with these rows.
    Spilled(SpillRange, Vec<Fact>),
}

/// The encoded rows of some batches, with the counts and sums over these rows.
pub(crate) struct Emitted {
    pub(crate) parts: Vec<EmittedPart>,
    pub(crate) inodes: u64,
    pub(crate) findings: u64,
    /// Number of findings that say that the volume is damaged.
    pub(crate) corruptions: u64,
    /// Number of inodes that have no row because of a finding.
    pub(crate) missing_inodes: u64,
    pub(crate) summary: Option<Box<Summary>>,
    pub(crate) accounts: Option<Box<AccountPart>>,
}

/// Encodes the rows of batches for one worker, and counts them in the summary and the accounts.
pub(crate) struct Emitter<'a> {
    context: &'a EmitContext<'a>,
    writer: Option<PathWriter<'a>>,
    paths: ByteList,
    /// The directory of each path.
    parents: Vec<ParentDirectory>,
    xattrs: ByteList,
    block_units_log: u8,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(context: &'a EmitContext<'a>) -> Self {
        Self {
            context,
            writer: context.directories.map(PathWriter::new),
            paths: ByteList::default(),
            parents: Vec::new(),
            xattrs: ByteList::default(),
            block_units_log: context.source.geometry().block_log - 9,
        }
    }

    /// Encodes the rows of some batches and their findings as one output piece. If the paths make
    /// the output too long for one piece, finished pieces go to the spill file.
    pub(crate) fn emit(
        &mut self,
        batches: impl IntoIterator<Item = Result<(AgNumber, Batch, Vec<Finding>), ScanError>>,
    ) -> Result<Emitted, ScanError> {
        let context = self.context;
        let mut pieces = PieceWriter::new(context)?;
        let mut summary = context.summary_now.map(|now| Box::new(Summary::new(now)));
        let mut accounts = (!context.accounts.is_empty()).then(Box::<AccountPart>::default);
        let (mut inodes, mut findings, mut corruptions, mut missing_inodes) = (0, 0, 0, 0);
        for batch in batches {
            let (group, batch, mut found) = batch?;
            for row in &batch.rows {
                self.collect_names(row, &batch, &mut found);
                let hash = match &context.hashing {
                    None => None,
                    Some(hashing) => hashing.hash(row, &mut found)?,
                };
                let view = RowView {
                    row,
                    ag: group.0,
                    block_units_log: self.block_units_log,
                    paths: &self.paths,
                    parents: &self.parents,
                    is_orphan: self.writer.is_some() && self.paths.is_empty(),
                    hash: hash.as_deref(),
                    symlink: find_symlink(&batch, row),
                    xattrs: &self.xattrs,
                    realtime_fs_blocks: find_realtime_blocks(&batch, row),
                    names: context.source.names.as_deref(),
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
                    accounts.add(context.accounts, &view, directory, shared);
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

    /// Collects the paths and attribute names of a row into the buffers of this worker.
    #[inline]
    fn collect_names(&mut self, row: &Row, batch: &Batch, findings: &mut Vec<Finding>) {
        self.paths.clear();
        self.parents.clear();
        self.xattrs.clear();
        let is_root = row.ino == self.context.source.root.0;
        let Some(writer) = &mut self.writer else {
            for item in batch.items(row) {
                if let RowItem::Xattr(name) = item {
                    self.xattrs.push(name);
                }
            }
            return;
        };
        if is_root {
            self.paths.push(b"/");
            self.parents.push(ParentDirectory { ino: row.ino, generation: row.generation });
        }
        let mut link_count = 0_u64;
        for item in batch.items(row) {
            match item {
                RowItem::Link(link) if !is_root => {
                    link_count += 1;
                    if self.paths.byte_length() > MOST_PATH_BYTES {
                        note_too_many(row, findings);
                        break;
                    }
                    match writer.push_path(&link, &mut self.paths) {
                        Ok(generation) => {
                            self.parents.push(ParentDirectory { ino: link.parent, generation });
                        }
                        Err(reason) => note_no_path(row, &link, reason, findings),
                    }
                }
                RowItem::Xattr(name) => self.xattrs.push(name),
                RowItem::Link(_)
                | RowItem::Symlink(_)
                | RowItem::Shared(_)
                | RowItem::Realtime(_) => {}
            }
        }
        if link_count == 0 && row.nlink != 0 && !is_root {
            note_unnamed(row, findings);
        }
    }
}

/// Encodes rows into output pieces, one after another. An output piece has encoded rows and facts,
/// ready to be appended to the output.
struct PieceWriter<'a> {
    context: &'a EmitContext<'a>,
    /// The encoder of the current piece. `None` if no rows are written.
    encoder: Option<Box<dyn RowEncoder + 'a>>,
    is_empty: bool,
    full: Vec<EmittedPart>,
}

impl<'a> PieceWriter<'a> {
    fn new(context: &'a EmitContext<'a>) -> Result<Self, ScanError> {
        let encoder = context.encoder()?;
        Ok(Self { context, encoder, is_empty: true, full: Vec::new() })
    }

    /// Encodes one row. If the piece has grown past `PIECE_BYTES`, completes it and writes its
    /// lines to the spill file. Without this, long paths could make a piece of any size, although
    /// the number of its rows is bounded.
    #[inline]
    fn encode(
        &mut self,
        row: impl FnOnce(&mut dyn RowEncoder) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        self.is_empty = false;
        row(&mut **encoder)?;
        if encoder.size_bytes() > PIECE_BYTES { self.complete_piece() } else { Ok(()) }
    }

    #[cold]
    fn complete_piece(&mut self) -> Result<(), ScanError> {
        let Some(full) = std::mem::replace(&mut self.encoder, self.context.encoder()?) else {
            return Ok(());
        };
        self.is_empty = true;
        let OutputPiece { rows, facts } = full.finish()?;
        self.full.push(match rows {
            Some(Rows::Lines(lines)) => {
                EmittedPart::Spilled(self.context.memory.spill(&lines)?, facts)
            }
            rows => EmittedPart::Piece(OutputPiece { rows, facts }),
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<EmittedPart>, ScanError> {
        if let Some(encoder) = self.encoder
            && !self.is_empty
        {
            self.full.push(EmittedPart::Piece(encoder.finish()?));
        }
        Ok(self.full)
    }
}

impl EmitContext<'_> {
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
        RowItem::Symlink(target) => Some(target),
        _ => None,
    })
}

/// Returns the number of blocks that an inode has in the realtime section; 0 if the scan has not
/// counted them.
#[inline]
fn find_realtime_blocks(batch: &Batch, row: &Row) -> u64 {
    if row.xflags & ExtendedFlags::REALTIME.bits() == 0 {
        return 0;
    }
    let found = batch.items(row).find_map(|item| match item {
        RowItem::Realtime(blocks) => Some(blocks),
        _ => None,
    });
    found.unwrap_or(0)
}

#[cold]
fn note_no_path(row: &Row, link: &Link<'_>, reason: NoPath, findings: &mut Vec<Finding>) {
    let parent = link.parent;
    let (code, message) = match reason {
        NoPath::Missing => (
            FindingCode::ParentMissing,
            format!("parent inode {parent} does not exist or is not a directory"),
        ),
        NoPath::Stale => (
            FindingCode::ParentStale,
            format!(
                "the parent pointer names a stale generation ({}) of inode {parent}",
                link.parent_generation
            ),
        ),
        NoPath::Cycle if is_directory(row) => {
            (FindingCode::ParentCycle, format!("parent inode {parent} is its own ancestor"))
        }
        NoPath::TooLong => (
            FindingCode::PathTooLong,
            format!("the path of parent inode {parent} is too long to show"),
        ),
        // The directory where the chain breaks has a finding of its own.
        NoPath::Cycle | NoPath::Unreachable => return,
    };
    findings.push(Finding::about(code, row.ino, message));
}

#[cold]
fn note_unnamed(row: &Row, findings: &mut Vec<Finding>) {
    let message = format!("the inode has {} links, but no directory names it", row.nlink);
    findings.push(Finding::about(FindingCode::ParentMissing, row.ino, message));
}

#[cold]
fn note_too_many(row: &Row, findings: &mut Vec<Finding>) {
    let message = "the inode has more paths than are shown".to_owned();
    findings.push(Finding::about(FindingCode::TooManyPaths, row.ino, message));
}

#[cfg(test)]
mod tests;
