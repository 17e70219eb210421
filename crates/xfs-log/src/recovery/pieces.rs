//! Directory blocks that lie in several pieces on disk.
//!
//! A directory block of several filesystem blocks may lie in several pieces. Each piece is logged
//! as a buffer of its own, without a reference to the others. So the pieces are replayed as bytes.
//! When all is replayed, the extent maps of the directories tell which pieces are one block, and
//! that block is stamped and verified.
//!
//! Owns: the pieces that were replayed, and joining them. Does **not** own: applying a logged
//! buffer to the bytes on disk.
//!
//! # Why no piece is skipped in a whole log
//!
//! Only the first piece holds the LSN of the block's last write, and that LSN is not needed. The
//! log holds every change of the block from the tail on, and no change before a cancellation is
//! replayed. So a block that is newer than a change gets all later changes too, in order. That is
//! also right if a crash has left only some of the pieces written.
//!
//! A replay that ends before the end of the log replays no piece at all (`RecoveryStore::is_cut`):
//! it lacks later changes and cancellations.
//!
//! # Which directories
//!
//! A change of a directory block also changes the directory's inode in the same transaction. So the
//! inodes of the transactions with pieces are searched, and a piece that none of them maps is
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::extent::{Extent, ExtentCheck, ExtentList, ExtentRoot};
use xfs_format::inode::{self, FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, Corruption, DiskAddr, FsBlock, Geometry, InodeNumber, Lsn,
    Structure, StructureAddress, VerifyContext, dabtree, directory, kind,
};

use super::refusal::{RecoveryError, Refusal};
use super::store::{RecoveryStore, STAMP_BYTES};

/// The offset in bytes of the owner in the header of a block of entries or of free space
/// (`xfs_dir3_blk_hdr`).
const OWNER_OFFSET: usize = 40;

/// The panic message for a directory block in pieces without a piece. `BlockMaps` keeps blocks with
/// at least two pieces only.
const HAS_PIECE: &str = "a block in pieces has a first piece";

/// The pieces of directory blocks that were replayed.
#[derive(Debug, Default)]
pub(super) struct DirectoryPieces {
    found: BTreeMap<DiskAddr, ReplayedPiece>,
    /// The inodes that may be the directories to which the replayed pieces belong.
    owners: BTreeSet<InodeNumber>,
    /// The inodes that are changed by the transaction that is being replayed.
    inodes: Vec<InodeNumber>,
    /// Whether the transaction that is being replayed has changed pieces of directory blocks.
    is_current: bool,
}

#[derive(Clone, Copy, Debug)]
struct ReplayedPiece {
    length: usize,
    /// The LSN of the last transaction that changed this piece of a directory block.
    lsn: Lsn,
}

/// The pieces of one directory block in order, each with its address and its length in bytes.
type BlockMap = Vec<(DiskAddr, usize)>;

impl DirectoryPieces {
    /// Begins the replay of another transaction.
    pub(super) fn begin(&mut self) {
        self.inodes.clear();
        self.is_current = false;
    }

    /// Ends the replay of a transaction. If the transaction has changed pieces of directory blocks,
    /// adds all inodes that it changed to the possible owners of these pieces.
    pub(super) fn end(&mut self) {
        if self.is_current {
            self.owners.extend(self.inodes.drain(..));
        }
    }

    /// Notes that the transaction that is being replayed changes this inode. The caller has checked
    /// that no later item of the log cancels the inode's cluster.
    pub(super) fn note_inode(&mut self, inode: InodeNumber) {
        self.inodes.push(inode);
    }

    /// Notes that the transaction that is being replayed changes a piece of a directory block: the
    /// `length` bytes at `at`.
    pub(super) fn note(&mut self, at: DiskAddr, length: usize, lsn: Lsn) {
        self.found.insert(at, ReplayedPiece { length, lsn });
        self.is_current = true;
    }

    /// Forgets the pieces of directory blocks in a range of basic blocks that is used for something
    /// else now.
    pub(super) fn forget(&mut self, range: &Range<DiskAddr>) {
        self.found.extract_if(range.clone(), |_, _| true).for_each(drop);
    }
}

impl RecoveryStore {
    /// Stamps and verifies the directory blocks whose pieces were replayed. Returns an error if no
    /// directory maps one of the pieces.
    pub(super) fn join_pieces(&mut self, head: Lsn) -> Result<(), RecoveryError> {
        let DirectoryPieces { mut found, owners, .. } = std::mem::take(&mut self.pieces);
        for owner in owners {
            if found.is_empty() {
                break;
            }
            for map in self.blocks_in_pieces(owner, &found)? {
                let fits = |(at, length): &(DiskAddr, usize)| {
                    found.get(at).is_none_or(|piece| piece.length == *length)
                };
                if !map.iter().all(fits) || !self.is_block_of(owner, &map)? {
                    continue;
                }
                let lsn = map.iter().filter_map(|(at, _)| found.remove(at)).map(|piece| piece.lsn);
                if let Some(lsn) = lsn.max() {
                    self.join(&map, lsn, head)?;
                }
            }
        }
        match found.keys().next() {
            None => Ok(()),
            Some(at) => Err(Refusal::DirectoryBlockInPieces { at: *at }.into()),
        }
    }

    /// Returns whether the directory block whose pieces are in `map` names `owner` as its owner.
    /// Without this check, a block of another file would be stamped as a block of this directory.
    fn is_block_of(&self, owner: InodeNumber, map: &[(DiskAddr, usize)]) -> Result<bool> {
        let (at, length) = map.first().expect(HAS_PIECE);
        let bytes = self.read(*at, *length)?;
        Ok(owner_of(kind_of(&bytes), &bytes) == Some(owner.0))
    }

    /// Stamps the directory block whose pieces are in `map` with `lsn`, unless the block already
    /// has a later LSN. Then verifies the block.
    fn join(&mut self, map: &[(DiskAddr, usize)], lsn: Lsn, head: Lsn) -> Result<()> {
        let mut bytes = Vec::new();
        for (at, length) in map {
            bytes.extend(self.read(*at, *length)?);
        }
        let (first, _) = map.first().expect(HAS_PIECE);
        let written = kind::find_lsn(&bytes, self.geometry());
        let kind = kind_of(&bytes);
        kind.seal(&mut bytes, lsn.max(written.unwrap_or(lsn)));
        let stamp = bytes.get(..STAMP_BYTES).expect("a block has at least a basic block");
        self.write(*first, 0, stamp)?;
        let context = VerifyContext { geometry: self.geometry(), log_head: Some(head) };
        kind.verify(&bytes, *first, &context)?;
        for (at, length) in map {
            self.note_atomic(*at, *length);
        }
        Ok(())
    }

    /// Returns those blocks of a directory that lie in several pieces and have at least one piece
    /// in `found`. Returns no blocks if the inode is not a directory.
    fn blocks_in_pieces(
        &self,
        number: InodeNumber,
        found: &BTreeMap<DiskAddr, ReplayedPiece>,
    ) -> Result<Vec<BlockMap>> {
        let geometry = self.geometry();
        let bytes = self.read_inode(number)?;
        let core = InodeCore::decode(&bytes, number, geometry)?;
        if core.file_type() != Some(FileType::Directory) {
            return Ok(Vec::new());
        }
        let fork = inode::fork(&bytes, &core, ForkKind::Data);
        let corrupt = |check: ExtentCheck| {
            Corruption::new(Structure::Extent, StructureAddress::Inode(number), check)
        };
        let mut maps = BlockMaps::new(geometry, found);
        match core.fork_format(ForkKind::Data) {
            Some(ForkFormat::Extents) => {
                let list = ExtentList::decode(fork, core.fork_extents(ForkKind::Data));
                list.map_err(corrupt)?.iter().for_each(|extent| maps.add(&extent));
            }
            Some(ForkFormat::Btree) => {
                let root = ExtentRoot::decode(fork).map_err(corrupt)?;
                let children = root.iter().map(|(_, child)| child).collect();
                self.extents_below(number, children, |extent| maps.add(extent))?;
            }
            _ => {}
        }
        let maps = maps.into_maps();
        for (at, length) in maps.iter().flatten() {
            self.check_range(*at, (length / BASIC_BLOCK_BYTES as usize) as u64)?;
        }
        Ok(maps)
    }

    /// Visits the extents in the leaves of an inode's extent btree, in order, from the children of
    /// its root on. A block that does not belong to the btree is skipped: the inode may have been
    /// freed since, and the inode's blocks used again. A block names its owner, so the extents in a
    /// block are visited for one inode only, however many inodes point to the block.
    fn extents_below(
        &self,
        number: InodeNumber,
        children: Vec<FsBlock>,
        mut visit: impl FnMut(&Extent),
    ) -> Result<()> {
        let geometry = self.geometry();
        let kind = BtreeKind::Extent;
        let mut seen = BTreeSet::new();
        let mut open = children;
        open.reverse();
        while let Some(block) = open.pop() {
            // A block that is met twice is part of a cycle; its contents are known.
            if !seen.insert(block) {
                continue;
            }
            let at = geometry.block_disk_addr(block).unwrap_or(DiskAddr(u64::MAX));
            self.check_range(at, u64::from(geometry.block_size / BASIC_BLOCK_BYTES))?;
            let bytes = self.read(at, geometry.block_size as usize)?;
            let context = VerifyContext { geometry, log_head: None };
            if BlockKind::Btree(kind).verify(&bytes, at, &context).is_err() {
                continue;
            }
            let node = BtreeBlock::decode(&bytes, kind, at)?;
            if node.owner().is_some_and(|owner| owner != number.0) {
                continue;
            }
            if node.is_leaf() {
                node.records().filter_map(Extent::decode_bytes).for_each(|extent| visit(&extent));
                continue;
            }
            let below = (0..node.count()).rev().filter_map(|index| node.pointer(index));
            open.extend(below.map(FsBlock));
        }
        Ok(())
    }
}

/// Collects the blocks of one directory that lie in several pieces and have a piece in `found`. The
/// extents of the directory must be passed in file order. The memory that this takes depends only
/// on the number of pieces in `found`, and not on the size of the directory.
struct BlockMaps<'a> {
    geometry: &'a Geometry,
    found: &'a BTreeMap<DiskAddr, ReplayedPiece>,
    /// The pieces in `found` that already belong to the map of a directory block.
    taken: BTreeSet<DiskAddr>,
    maps: Vec<BlockMap>,
    /// The directory block whose pieces are being collected: its index, the number of its
    /// filesystem blocks that are mapped by the extents so far, and its pieces.
    open: (u64, u64, BlockMap),
}

impl<'a> BlockMaps<'a> {
    const fn new(geometry: &'a Geometry, found: &'a BTreeMap<DiskAddr, ReplayedPiece>) -> Self {
        Self { geometry, found, taken: BTreeSet::new(), maps: Vec::new(), open: (0, 0, Vec::new()) }
    }

    /// Returns the number of filesystem blocks in a directory block.
    fn blocks(&self) -> u64 {
        u64::from(self.geometry.directory_block_size() >> self.geometry.block_log)
    }

    fn add(&mut self, extent: &Extent) {
        let blocks = self.blocks();
        for (index, part) in partial_blocks(extent, blocks) {
            if index != self.open.0 {
                self.close();
                self.open.0 = index;
            }
            let Some(at) = self.geometry.block_disk_addr(part.start) else { continue };
            let (_, covered, map) = &mut self.open;
            *covered += u64::from(part.length_blocks);
            // Overlapping extents make no block, however many they are.
            if *covered <= blocks {
                // At most the length of a directory block.
                map.push((at, (part.length_blocks << self.geometry.block_log) as usize));
            }
        }
    }

    /// Ends the current directory block. Keeps the map of its pieces if the block is complete, lies
    /// in several pieces, and has a piece in `found`.
    fn close(&mut self) {
        let (_, covered, map) = std::mem::take(&mut self.open);
        let found = || map.iter().map(|(at, _)| *at).filter(|at| self.found.contains_key(at));
        let is_new = found().next().is_some() && found().all(|at| !self.taken.contains(&at));
        if covered == self.blocks() && map.len() > 1 && is_new {
            self.taken.extend(found());
            self.maps.push(map);
        }
    }

    fn into_maps(mut self) -> Vec<BlockMap> {
        self.close();
        self.maps
    }
}

/// Returns the parts of an extent that cover less than a whole directory block, each with the index
/// of that directory block. `blocks` is the number of filesystem blocks of a directory block.
fn partial_blocks(extent: &Extent, blocks: u64) -> Vec<(u64, Extent)> {
    let (start, end) = (extent.file_block.0, extent.end().0);
    let (first, last) = (start / blocks, end.saturating_sub(1) / blocks);
    let part = |from: u64, to: u64| {
        let length_blocks = u32::try_from(to.checked_sub(from)?).ok()?;
        let start = extent.start.checked_add(from.checked_sub(start)?)?;
        Some(Extent { start, length_blocks, ..*extent })
    };
    let mut parts = Vec::new();
    let mut add = |index: u64, from: u64, to: u64| {
        if to - from < blocks {
            parts.extend(part(from, to).map(|part| (index, part)));
        }
    };
    if first == last {
        add(first, start, end);
    } else {
        add(first, start, (first + 1) * blocks);
        add(last, last * blocks, end);
    }
    parts
}

/// Returns the inode number that a directory block names as its owner, or `None` if it names none.
/// Blocks of entries and of free space have the same header.
fn owner_of(kind: BlockKind, bytes: &[u8]) -> Option<u64> {
    match kind {
        BlockKind::DirectoryIndex => dabtree::owner(bytes).map(|owner| owner.0),
        _ => bytes.get(OWNER_OFFSET..)?.first_chunk().map(|owner| u64::from_be_bytes(*owner)),
    }
}

/// Returns the kind of a directory block, by its magic number. A block without a known magic number
/// gets a kind whose verifier refuses it.
fn kind_of(bytes: &[u8]) -> BlockKind {
    match bytes.first_chunk().map_or(0, |magic| u32::from_be_bytes(*magic)) {
        directory::free::FREE_MAGIC => BlockKind::DirectoryFree,
        directory::data::BLOCK_MAGIC | directory::data::DATA_MAGIC => BlockKind::DirectoryData,
        _ => BlockKind::DirectoryIndex,
    }
}

#[cfg(test)]
mod tests;
