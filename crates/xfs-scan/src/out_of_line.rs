//! Data outside of inodes: directory blocks, large attribute forks, long symlink targets.
//!
//! Owns: reading those of one unit in disk order. Does **not** own: their formats.
//!
//! # Invariants
//!
//! - **I1** Work on a directory is bounded. It has no more blocks than its inode says, and all
//!   directories together have no more than the volume. After a few unreadable blocks the rest of a
//!   directory is skipped, which is a finding.
//! - **I2** A directory that has a name twice, or entries that its index lacks, is a finding. A
//!   directory of at most one block is checked in place. For a larger one the index is read, which
//!   is a quarter of the size of the entries.

use std::ops::ControlFlow;

use xfs_alloc::sharing_run;
use xfs_buffer::{Error, IoError};
use xfs_dir::{Attributes, Audit, Directory};
use xfs_format::directory::{DataBlock, DirectoryCheck, Entry, ShortForm, index_start};
use xfs_format::inode::{FileType, ForkKind, InodeFlags2};
use xfs_format::{
    BlockKind, Check, Corruption, DiskAddr, FileBlock, FsBlock, InodeNumber, Place, Structure,
};
use xfs_inode::{BlockShape, Fork, Inode};
use xfs_sync::{AtomicU64, Ordering, Volume};

use crate::ScanError;
use crate::batch::{Batch, Link, RowItem, SharedRun, push_item};
use crate::links::LinkBuckets;
use crate::memory::Memory;
use crate::plan::Plan;
use crate::reader::{ReadSelection, UnitRows, note_part, push_attr};
use crate::source::ScanSource;
use crate::{Finding, FindingCode};

/// Adjacent directory blocks are read together up to this size.
const READ_BYTES: usize = 512 << 10;
/// Blocks that are sorted at a time.
const BLOCKS_PER_ROUND: usize = 1 << 16;
/// Unreadable blocks of one directory after which the rest is skipped.
const MOST_FAILURES: u32 = 16;
/// Bytes of names kept per inode. More is a finding.
const MOST_ITEM_BYTES: usize = 64 << 20;

/// An inode with data out of line.
struct PendingInode {
    /// Its position among the unit's rows.
    row: usize,
    inode: Inode,
    /// Disk address of the first block of that data.
    first: DiskAddr,
    failures: u32,
    /// Set for a directory whose index has blocks of its own (**I2**).
    audit: Option<Audit>,
}

impl PendingInode {
    /// Counts an entry. Fails if another entry has the same name.
    fn check_entry(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let check = self.audit.as_mut().and_then(|audit| audit.see(entry.name, entry.cookie));
        check.map_or(Ok(()), |check| Err(duplicate_name(&self.inode, check)))
    }
}

/// Returns the error that a directory has a name twice, or that its index differs.
fn duplicate_name(inode: &Inode, check: DirectoryCheck) -> Error {
    Corruption::new(Structure::Directory, Place::Inode(inode.number()), check).into()
}

/// A directory block to be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DirectoryBlock {
    at: DiskAddr,
    file_block: FileBlock,
    /// Position among the pending inodes.
    owner: usize,
}

/// State that the workers of one volume share.
pub(crate) struct VolumeContext<'a> {
    pub(crate) source: &'a ScanSource,
    pub(crate) plan: &'a Plan,
    pub(crate) memory: &'a Memory,
    pub(crate) selection: ReadSelection,
    /// Number of directory blocks listed so far (**I1**).
    pub(crate) blocks_listed: AtomicU64<Volume>,
}

/// Reads the out-of-line data of inodes for one worker.
pub(crate) struct OutOfLineReader<'a> {
    scope: &'a VolumeContext<'a>,
    pending: Vec<PendingInode>,
    /// Directory entries, for volumes without parent pointers.
    pub(crate) links: LinkBuckets,
    buffer: Vec<u8>,
    /// Blocks of the current directory that are split over several extents.
    scattered: Vec<FileBlock>,
}

impl<'a> OutOfLineReader<'a> {
    pub(crate) fn new(scope: &'a VolumeContext<'a>) -> Self {
        let (pending, buffer, scattered) = Default::default();
        Self { scope, pending, links: LinkBuckets::default(), buffer, scattered }
    }

    /// Records that the verified inode in `bytes` has data out of line. The entries of a short-form
    /// directory are read at once.
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
        let form = match ShortForm::decode(form, Place::Inode(inode.number())) {
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
        form.doubled().first().map(|first| duplicate_name(inode, first.check()))
    }

    /// Reads the recorded data in disk order and adds it to the unit's rows.
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

    /// Reads the attributes and the target of one inode, after the items that it already has.
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
                let place = Place::Inode(number);
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

    /// Adds the runs of blocks that the inode shares with others.
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

    fn read_directories(
        &mut self,
        pending: &mut [PendingInode],
        out: &mut UnitRows,
    ) -> Result<(), ScanError> {
        let mut blocks = Vec::new();
        for owner in 0..pending.len() {
            let Some(part) = pending.get_mut(owner) else { continue };
            let is_directory = part.inode.file_type() == FileType::Directory;
            if is_directory {
                self.begin_audit(part, out);
            }
            if is_directory && let Some(error) = self.list_blocks(owner, part, &mut blocks, out) {
                part.audit = None;
                note_part(out, part.inode.number(), &error);
            }
            for block in std::mem::take(&mut self.scattered) {
                self.read_scattered(part, block, out);
            }
            if blocks.len() >= BLOCKS_PER_ROUND {
                self.read_blocks(&mut blocks, pending, out)?;
            }
        }
        self.read_blocks(&mut blocks, pending, out)?;
        for part in pending.iter().filter(|part| part.failures == 0) {
            if let Some(check) = part.audit.as_ref().and_then(Audit::finish) {
                note_part(out, part.inode.number(), &duplicate_name(&part.inode, check));
            }
        }
        Ok(())
    }

    /// Reads the index of a directory if it has blocks (**I2**). A live volume may change between
    /// the reads, so it is not audited.
    fn begin_audit(&self, part: &mut PendingInode, out: &mut UnitRows) {
        let cache = &self.scope.source.cache;
        let Ok(directory) = Directory::new(cache, &part.inode) else { return };
        if cache.rereads() != 0 || !directory.has_index_blocks() {
            return;
        }
        let mut findings = Vec::new();
        let audit = directory.audit(&mut findings);
        for error in &findings {
            note_part(out, part.inode.number(), error);
        }
        part.audit = Some(audit);
    }

    /// Lists the data blocks of a directory. Blocks that are split over extents go to `scattered`.
    fn list_blocks(
        &mut self,
        owner: usize,
        part: &PendingInode,
        blocks: &mut Vec<DirectoryBlock>,
        out: &mut UnitRows,
    ) -> Option<Error> {
        let source = self.scope.source;
        let geometry = source.geometry();
        let per_block = 1_u64 << geometry.directory_block_log;
        let mut listed = 0;
        let mut next = FileBlock(0);
        for extent in part.inode.extents(&source.cache, ForkKind::Data) {
            let extent = match extent {
                Ok(extent) => extent,
                Err(error) => return Some(error),
            };
            if extent.file_block >= index_start(geometry) {
                break;
            }
            let start = extent.file_block.0;
            let end = start + u64::from(extent.length_blocks);
            let mut block = FileBlock(start - start % per_block);
            while block.0 < end {
                // A split block was listed with its first extent.
                if block >= next {
                    if !self.may_list(part, &mut listed) {
                        note_too_many(&part.inode, out);
                        return None;
                    }
                    if block.0 >= start && block.0.saturating_add(per_block) <= end {
                        let first = extent.start.checked_add(block.0 - start);
                        let at = first.and_then(|first| geometry.block_disk_addr(first));
                        let at = at.unwrap_or(DiskAddr::NULL);
                        blocks.push(DirectoryBlock { at, file_block: block, owner });
                    } else {
                        self.scattered.push(block);
                    }
                }
                block = FileBlock(block.0 + per_block);
                next = next.max(block);
            }
        }
        None
    }

    /// Counts one more directory block and returns whether it may be read (**I1**).
    fn may_list(&self, part: &PendingInode, listed: &mut u64) -> bool {
        let geometry = self.scope.source.geometry();
        let step = 1_u64 << geometry.directory_block_log;
        *listed += step;
        let before = self.scope.blocks_listed.fetch_add(step, Ordering::Relaxed);
        *listed <= part.inode.core().blocks && before <= geometry.data_blocks
    }

    fn read_scattered(&mut self, part: &mut PendingInode, block: FileBlock, out: &mut UnitRows) {
        let source = self.scope.source;
        let count = 1 << source.geometry().directory_block_log;
        let shape = BlockShape { length_blocks: count, kind: BlockKind::DirectoryData };
        let read = part.inode.read_fork_block(&source.cache, ForkKind::Data, block, shape);
        let added = read.and_then(|buffer| {
            let bytes = buffer.bytes();
            self.add_block(&bytes, block, part)
        });
        if let Err(error) = added {
            part.failures += 1;
            note_part(out, part.inode.number(), &error);
        }
    }

    /// Reads the listed blocks in disk order and empties the list.
    fn read_blocks(
        &mut self,
        blocks: &mut Vec<DirectoryBlock>,
        pending: &mut [PendingInode],
        out: &mut UnitRows,
    ) -> Result<(), ScanError> {
        blocks.sort_unstable();
        let block_bytes = self.scope.source.geometry().directory_block_size() as usize;
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let length = adjacent(rest, block_bytes);
            let (run, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            self.read_run(run, block_bytes, pending, out);
            rest = after;
            self.links.spill_if_needed(self.scope.memory)?;
        }
        blocks.clear();
        Ok(())
    }

    fn read_run(
        &mut self,
        run: &[DirectoryBlock],
        block_bytes: usize,
        pending: &mut [PendingInode],
        out: &mut UnitRows,
    ) {
        let Some(first) = run.first() else { return };
        let device = self.scope.source.cache.device();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(run.len() * block_bytes, 0);
        let offset = first.at.byte_offset().unwrap_or(u64::MAX);
        let is_read = device.read_at(offset, &mut buffer).is_ok();
        for (block, bytes) in run.iter().zip(buffer.chunks_exact_mut(block_bytes)) {
            let Some(part) = pending.get_mut(block.owner) else { continue };
            if part.failures >= MOST_FAILURES {
                continue;
            }
            let mut added = if is_read {
                self.verify_block(bytes, block, part)
            } else {
                self.read_one(bytes, block, part)
            };
            for _ in 0..self.scope.source.cache.rereads() {
                if added.is_ok() {
                    break;
                }
                added = self.read_one(bytes, block, part);
            }
            if let Err(error) = added {
                part.failures += 1;
                note_part(out, part.inode.number(), &error);
                if part.failures == MOST_FAILURES {
                    let message = "the rest of the directory was not read".to_owned();
                    let number = part.inode.number().0;
                    out.findings.push(Finding::about(FindingCode::Corrupt, number, message));
                }
            }
        }
        self.buffer = buffer;
    }

    /// Reads one block again, after the large read that contained it has failed.
    fn read_one(
        &mut self,
        bytes: &mut [u8],
        block: &DirectoryBlock,
        part: &mut PendingInode,
    ) -> Result<(), Error> {
        let offset = block.at.byte_offset().unwrap_or(u64::MAX);
        let length_bytes = bytes.len() as u64;
        self.scope.source.cache.device().read_at(offset, bytes).map_err(|source| {
            Error::Io(IoError { operation: "read", at: block.at, length_bytes, source })
        })?;
        self.verify_block(bytes, block, part)
    }

    fn verify_block(
        &mut self,
        bytes: &[u8],
        block: &DirectoryBlock,
        part: &mut PendingInode,
    ) -> Result<(), Error> {
        let context = self.scope.source.cache.verify_context();
        BlockKind::DirectoryData.verify(bytes, block.at, &context)?;
        self.add_block(bytes, block.file_block, part)
    }

    /// Adds the entries of a verified block.
    fn add_block(
        &mut self,
        bytes: &[u8],
        block: FileBlock,
        part: &mut PendingInode,
    ) -> Result<(), Error> {
        let inode = &part.inode;
        let place = Place::Data(inode.number(), block);
        let start = self.scope.source.geometry().blocks_to_bytes(block.0).unwrap_or(u64::MAX);
        let decoded = DataBlock::decode(bytes, start, place)?;
        if decoded.owner() != inode.number() {
            let (found, expected) = (decoded.owner().0, inode.number().0);
            let check = Check::ForeignOwner { found, expected };
            return Err(Corruption::new(Structure::Directory, place, check).into());
        }
        // One finding per block suffices: the entries of both names are kept.
        let mut verdict = Ok(());
        for entry in decoded.entries() {
            let entry = entry?;
            verdict = verdict.and(part.check_entry(&entry));
            if !matches!(entry.name, b"." | b"..") {
                add_entry(&mut self.links, self.scope.plan, &part.inode, &entry);
            }
        }
        match decoded.doubled().first() {
            Some(first) => Err(duplicate_name(&part.inode, first.check())),
            None => verdict,
        }
    }
}

/// Returns how many blocks, from the first on, are adjacent and fit one read.
fn adjacent(blocks: &[DirectoryBlock], block_bytes: usize) -> usize {
    let step = (block_bytes / 512) as u64;
    let most = (READ_BYTES / block_bytes).max(1);
    let mut length = 0;
    let mut expected = None;
    for block in blocks.iter().take(most) {
        if expected.is_some_and(|expected| expected != block.at) {
            break;
        }
        expected = block.at.checked_add(step);
        length += 1;
    }
    length
}

fn add_entry(links: &mut LinkBuckets, plan: &Plan, directory: &Inode, entry: &Entry<'_>) {
    let link = Link {
        parent: directory.number().0,
        parent_generation: directory.core().generation,
        name: entry.name,
    };
    links.push(plan, entry.inode, link);
}

#[cold]
fn note_too_many(inode: &Inode, out: &mut UnitRows) {
    let message = "the extent map of the directory has too many blocks".to_owned();
    out.findings.push(Finding::about(FindingCode::Corrupt, inode.number().0, message));
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
