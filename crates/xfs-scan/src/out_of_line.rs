//! Data outside of inodes: directory blocks, large attribute forks, long symlink targets.
//!
//! Owns: finding out-of-line data, and reading attributes and targets in disk order. Does **not**
//! own: the on-disk formats, and the directory blocks ([`directories`]).
//!
//! # Invariants
//!
//! - **I1** Work on a directory is bounded. It has no more blocks than its inode says, and all
//!   directories together have no more than the volume. After a few unreadable blocks the rest of a
//!   directory is skipped, which is a finding.
//! - **I2** A directory that has a name twice, or entries that its index lacks, gives a finding.
//!   For a directory of at most one block, the block alone suffices for this check. For a larger
//!   directory the index is read as well; its size is a quarter of that of the entries.

mod directories;

use std::ops::ControlFlow;

use xfs_alloc::sharing_run;
use xfs_buffer::{BufferCache, Error};
use xfs_dir::{Attributes, Audit};
use xfs_format::directory::{DirectoryCheck, Entry, ShortForm};
use xfs_format::inode::{FileType, ForkKind, InodeFlags2};
use xfs_format::{
    Corruption, DiskAddr, FileBlock, FsBlock, InodeNumber, Structure, StructureAddress,
};
use xfs_inode::{Fork, Inode};
use xfs_sync::{AtomicU64, Volume};

use crate::ScanError;
use crate::batch::{Batch, Link, RowItem, SharedRun, push_item};
use crate::links::LinkBuckets;
use crate::memory::Memory;
use crate::plan::Plan;
use crate::reader::{ReadSelection, UnitRows, note_part, push_attr};
use crate::source::ScanSource;
use crate::{Finding, FindingCode};

/// Largest total size in bytes of the links, attribute names and symlink target of one inode. An
/// inode with more gives a finding instead.
const MOST_ITEM_BYTES: usize = 64 << 20;

/// An inode whose directory blocks, attributes or target lie outside of the inode and wait to be
/// read.
struct PendingInode {
    /// Index of the inode's row among the rows of the unit of work.
    row: usize,
    inode: Inode,
    /// Disk address of the first block of the out-of-line data.
    first: DiskAddr,
    failures: u32,
    /// The comparison of the directory's entries with its index, which finds duplicate names
    /// (**I2**). `None` if the index has no blocks of its own.
    audit: Option<Audit>,
}

/// Returns the error for a directory that fails `check`, for example because it has a name twice or
/// its index differs from its entries.
fn duplicate_name(inode: &Inode, check: DirectoryCheck) -> Error {
    Corruption::new(Structure::Directory, StructureAddress::Inode(inode.number()), check).into()
}

/// State that all workers use that scan one volume.
pub(crate) struct ScannedVolume<'a> {
    pub(crate) source: &'a ScanSource,
    pub(crate) plan: &'a Plan,
    pub(crate) memory: &'a Memory,
    pub(crate) selection: ReadSelection,
    /// Number of filesystem blocks in the directory blocks that all workers have listed so far. It
    /// has a limit (**I1**).
    pub(crate) blocks_listed: AtomicU64<Volume>,
}

/// Reads the out-of-line data of inodes for one worker.
pub(crate) struct OutOfLineReader<'a> {
    scope: &'a ScannedVolume<'a>,
    pending: Vec<PendingInode>,
    /// Directory entries that this worker has found. Empty for volumes with parent pointers.
    pub(crate) links: LinkBuckets,
    buffer: Vec<u8>,
    /// Blocks of the current directory that lie in several extents, so that each needs several
    /// reads.
    scattered: Vec<FileBlock>,
}

impl<'a> OutOfLineReader<'a> {
    pub(crate) fn new(scope: &'a ScannedVolume<'a>) -> Self {
        let (pending, buffer, scattered) = Default::default();
        Self { scope, pending, links: LinkBuckets::default(), buffer, scattered }
    }

    /// Decodes the inode in `bytes`, and puts it on the list of inodes whose out-of-line data are
    /// to be read. A short-form directory is read at once. Returns an error that is to become a
    /// finding, or `None`.
    pub(crate) fn note(&mut self, row: usize, number: InodeNumber, bytes: &[u8]) -> Option<Error> {
        let cache = &self.scope.source.cache;
        let inode = match Inode::decode(bytes, number, &cache.verify_context()) {
            Ok(inode) => inode,
            Err(error) => return Some(error),
        };
        let mut finding = None;
        if let (FileType::Directory, Fork::Local(form)) =
            (inode.file_type(), inode.fork(ForkKind::Data))
            && self.scope.selection.entries
        {
            finding = self.add_short_form(&inode, form);
            if !self.wants_attrs(&inode) {
                return finding;
            }
        }
        let kind = if self.wants_attrs(&inode) { ForkKind::Attr } else { ForkKind::Data };
        let extent = inode.extents(cache, kind).next().and_then(Result::ok);
        let first = extent.and_then(|extent| cache.geometry().block_disk_addr(extent.start));
        let first = first.unwrap_or_default();
        self.pending.push(PendingInode { row, inode, first, failures: 0, audit: None });
        finding
    }

    fn wants_attrs(&self, inode: &Inode) -> bool {
        let selection = self.scope.selection;
        (selection.parents || selection.xattrs)
            && matches!(inode.fork(ForkKind::Attr), Fork::Extents(_) | Fork::Btree(_))
    }

    fn add_short_form(&mut self, inode: &Inode, form: &[u8]) -> Option<Error> {
        let place = StructureAddress::Inode(inode.number());
        let directory_form = self.scope.source.geometry().directory_form;
        let form = match ShortForm::decode(form, place, directory_form) {
            Ok(form) => form,
            Err(corruption) => return Some(corruption.into()),
        };
        for entry in form.entries() {
            match entry {
                Ok(entry) => add_entry(&mut self.links, self.scope.plan, inode, &entry),
                Err(corruption) => return Some(corruption.into()),
            }
        }
        // One finding suffices: the entries of both names are kept.
        form.duplicate_names().first().map(|first| duplicate_name(inode, first.check()))
    }

    /// Reads the data of all recorded inodes in disk order and adds it to the rows of the unit.
    pub(crate) fn read(&mut self, out: &mut UnitRows) -> Result<(), ScanError> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable_by_key(|pending| pending.first);
        for part in &pending {
            self.read_items(part, out);
        }
        if self.scope.selection.entries {
            self.read_directories(&mut pending, out)?;
        }
        self.links.spill_if_needed(self.scope.memory)
    }

    /// Reads the attributes and the symlink target of one inode, and appends them to its row's
    /// items.
    fn read_items(&self, part: &PendingInode, out: &mut UnitRows) {
        let (cache, selection) = (&self.scope.source.cache, self.scope.selection);
        let Some(row) = out.batch.rows.get(part.row) else { return };
        let mut items = Vec::new();
        for item in out.batch.items(row) {
            push_item(&mut items, item);
        }
        let before = items.len();
        let number = part.inode.number();
        if self.wants_attrs(&part.inode) {
            // The visitor continues after an error, and each error is one finding.
            let _ = Attributes::new(cache, &part.inode).visit(&mut |entry| {
                let place = StructureAddress::Inode(number);
                let kept =
                    entry.and_then(|entry| Ok(push_attr(&mut items, &entry, selection, place)?));
                if let Err(error) = kept {
                    note_part(out, number, &error);
                }
                if items.len() > MOST_ITEM_BYTES {
                    let message = "the inode has more names than are kept".to_owned();
                    let code = FindingCode::TooManyPaths;
                    out.findings.push(Finding::about(code, number.0, message));
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        let is_remote = matches!(part.inode.fork(ForkKind::Data), Fork::Extents(_));
        if selection.symlinks && part.inode.file_type() == FileType::Symlink && is_remote {
            match part.inode.read_target(cache) {
                Ok(target) => push_item(&mut items, RowItem::Symlink(&target)),
                Err(error) => note_part(out, number, &error),
            }
        }
        if selection.realtime && part.inode.core().is_realtime() {
            match count_blocks(cache, &part.inode) {
                Ok(blocks) => push_item(&mut items, RowItem::Realtime(blocks)),
                Err(error) => note_part(out, number, &error),
            }
        }
        if selection.sharing && part.inode.core().flags2.contains(InodeFlags2::REFLINK) {
            let added = self.add_shared(&part.inode, &mut items);
            if let Err(error) = added {
                note_part(out, number, &error);
            }
        }
        if items.len() != before {
            replace_items(&mut out.batch, part.row, &items);
        }
    }

    /// Appends to `items` the runs of blocks that the inode shares with other inodes.
    fn add_shared(&self, inode: &Inode, items: &mut Vec<u8>) -> Result<(), Error> {
        let cache = &self.scope.source.cache;
        if inode.core().is_realtime() {
            return Ok(());
        }
        for extent in inode.extents(cache, ForkKind::Data) {
            let extent = extent?;
            let (mut start, mut left) = (extent.start, extent.length_blocks);
            while left != 0 && items.len() <= MOST_ITEM_BYTES {
                let run = sharing_run(cache, start, left)?;
                let length = run.length_blocks.clamp(1, left);
                if run.shared {
                    let run = SharedRun { start: start.0, length: length.into() };
                    push_item(items, RowItem::Shared(run));
                }
                start = FsBlock(start.0.saturating_add(length.into()));
                left -= length;
            }
        }
        Ok(())
    }
}

/// Returns the number of blocks that the data fork of a file maps.
fn count_blocks(cache: &BufferCache, inode: &Inode) -> Result<u64, Error> {
    let mut blocks = 0_u64;
    for extent in inode.extents(cache, ForkKind::Data) {
        blocks = blocks.saturating_add(extent?.length_blocks.into());
    }
    Ok(blocks)
}

fn add_entry(links: &mut LinkBuckets, plan: &Plan, directory: &Inode, entry: &Entry<'_>) {
    let link = Link {
        parent: directory.number().0,
        parent_generation: directory.core().generation,
        name: entry.name,
    };
    links.push(plan, entry.inode, link);
}

fn replace_items(batch: &mut Batch, position: usize, items: &[u8]) {
    let start = batch.arena.len();
    batch.arena.extend_from_slice(items);
    if let Some(mut row) = batch.rows.get(position).cloned() {
        batch.place_items(&mut row, start);
        if let Some(place) = batch.rows.get_mut(position) {
            *place = row;
        }
    }
}
