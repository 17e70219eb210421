//! Directory blocks of one unit, read in disk order.
//!
//! Owns: listing the data blocks, reading them together, and comparing entries with the index (I1
//! and I2 of [`out_of_line`](super)). Does **not** own: short-form directories, which lie in their
//! inodes.

use xfs_buffer::{Error, IoError};
use xfs_dir::{Audit, Directory};
use xfs_format::directory::{DataBlock, Entry, index_start};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{BlockKind, Check, Corruption, DiskAddr, FileBlock, Structure, StructureAddress};
use xfs_inode::{BlockShape, Inode};
use xfs_sync::Ordering;

use super::{OutOfLineReader, PendingInode, add_entry, duplicate_name};
use crate::ScanError;
use crate::reader::{UnitRows, note_part};
use crate::{Finding, FindingCode};

/// Largest read of adjacent directory blocks, in bytes.
const READ_BYTES: usize = 512 << 10;
/// Most directory blocks that are listed and sorted at a time.
const BLOCKS_PER_ROUND: usize = 1 << 16;
/// After this many unreadable blocks of one directory, the rest of the directory is skipped.
const MOST_FAILURES: u32 = 16;

/// A directory block to be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DirectoryBlock {
    at: DiskAddr,
    file_block: FileBlock,
    /// Index of the directory in the list of inodes whose out-of-line data are still to be read.
    owner: usize,
}

impl PendingInode {
    /// Counts an entry of the directory. Returns an error if an earlier entry has the same name.
    fn check_entry(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let check = self.audit.as_mut().and_then(|audit| audit.see(entry.name, entry.cookie));
        check.map_or(Ok(()), |check| Err(duplicate_name(&self.inode, check)))
    }
}

impl OutOfLineReader<'_> {
    pub(super) fn read_directories(
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

    /// Reads the index of a directory if the index has blocks of its own (**I2**: duplicate names
    /// are findings). Does nothing on a mounted volume, which may change between the reads of index
    /// and entries.
    fn begin_audit(&self, part: &mut PendingInode, out: &mut UnitRows) {
        let cache = &self.scope.source.cache;
        let Ok(directory) = Directory::new(cache, &part.inode) else { return };
        // I2: the index is compared if it has blocks of its own.
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

    /// Lists the data blocks of a directory in `blocks`. A block that spans several extents goes to
    /// `scattered` instead. Returns the error that ended the list, or `None`.
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
                    // I1: the number of blocks is bounded.
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

    /// Counts one more directory block. Returns `false` if the directory, or all directories
    /// together, would have more blocks than possible (**I1**).
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

    /// Reads the directory blocks in `blocks` in disk order, and empties `blocks`.
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
        let is_read = device.read_at(&mut buffer, offset).is_ok();
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

    /// Reads one block by itself, after a large read that contained the block has failed.
    fn read_one(
        &mut self,
        bytes: &mut [u8],
        block: &DirectoryBlock,
        part: &mut PendingInode,
    ) -> Result<(), Error> {
        let offset = block.at.byte_offset().unwrap_or(u64::MAX);
        let length_bytes = bytes.len() as u64;
        self.scope
            .source
            .cache
            .device()
            .read_at(bytes, offset)
            .map_err(|source| Error::Io(IoError::new("read", block.at, length_bytes, source)))?;
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

    /// Adds the entries of a verified directory block to the links that this worker has found.
    fn add_block(
        &mut self,
        bytes: &[u8],
        block: FileBlock,
        part: &mut PendingInode,
    ) -> Result<(), Error> {
        let inode = &part.inode;
        let place = StructureAddress::Data(inode.number(), block);
        let start = self.scope.source.geometry().blocks_to_bytes(block.0).unwrap_or(u64::MAX);
        let form = self.scope.source.geometry().directory_form;
        let decoded = DataBlock::decode(bytes, start, place, form)?;
        let owner = match decoded.owner() {
            // A block of a v4 volume names its directory only by the entry `.` of the first block.
            None if block.0 == 0 => Some(decoded.self_inode()?),
            owner => owner,
        };
        if let Some(other) = owner.filter(|owner| *owner != inode.number()) {
            let check = Check::ForeignOwner { found: other.0, expected: inode.number().0 };
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
        match decoded.duplicate_names().first() {
            Some(first) => Err(duplicate_name(&part.inode, first.check())),
            None => verdict,
        }
    }
}

/// Returns how many blocks at the start of `blocks` are adjacent on disk and fit into one read.
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

#[cold]
fn note_too_many(inode: &Inode, out: &mut UnitRows) {
    let message = "the extent map of the directory has too many blocks".to_owned();
    out.findings.push(Finding::about(FindingCode::Corrupt, inode.number().0, message));
}
