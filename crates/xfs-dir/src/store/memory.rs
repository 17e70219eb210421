//! A fork in memory, for tests. Every block is checked after each change.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use xfs_buffer::{PosixError, Result};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, Corruption, DiskAddr, FileBlock, Geometry, InodeNumber, Lsn, Structure,
    VerifyContext,
};
use xfs_testkit::{Prng, golden};

use super::{ForkPlacement, ForkStore, length_blocks};
use crate::edit::BlockEdit;

/// A block in memory: its first file block, its kind, and its bytes.
#[derive(Clone)]
pub(crate) struct MemoryDaBlock {
    at: FileBlock,
    kind: BlockKind,
    bytes: Rc<RefCell<Vec<u8>>>,
}

/// A fork in memory that implements `ForkStore` without a volume.
pub(crate) struct MemoryFork {
    kind: ForkKind,
    geometry: Geometry,
    number: InodeNumber,
    local: Option<Vec<u8>>,
    absent: bool,
    size: u64,
    pub(crate) room: usize,
    /// The largest number of filesystem blocks that the fork may have. An allocation of further
    /// blocks fails.
    pub(crate) space: u64,
    blocks: BTreeMap<FileBlock, MemoryDaBlock>,
    /// Number of bytes in the ranges that edits have recorded as changed.
    pub(crate) bytes_touched: u64,
    edits: u64,
}

/// Returns a geometry like that of the golden image, but with many large groups and with other
/// block sizes. The arguments are base-2 logarithms: of the bytes in a block, and of the blocks in
/// a directory block.
pub(crate) fn geometry(block_log: u8, directory_block_log: u8) -> Geometry {
    let mut geometry = golden().geometry();
    geometry.block_size = 1 << block_log;
    geometry.block_log = block_log;
    geometry.directory_block_log = directory_block_log;
    geometry.inodes_per_block_log = block_log - geometry.inode_log;
    geometry.ag_count = 1 << 16;
    geometry.ag_blocks = 1 << 20;
    geometry.ag_blocks_log = 20;
    geometry.data_blocks = 1 << 36;
    geometry
}

impl MemoryFork {
    pub(crate) fn new(kind: ForkKind, geometry: Geometry) -> Self {
        Self {
            kind,
            geometry,
            number: InodeNumber(131),
            local: None,
            absent: true,
            size: 0,
            room: 336,
            space: u64::MAX,
            blocks: BTreeMap::new(),
            bytes_touched: 0,
            edits: 0,
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns the blocks of this kind in file order, each as its first file block and its bytes.
    pub(crate) fn blocks_of(&self, kind: BlockKind) -> Vec<(FileBlock, Vec<u8>)> {
        let chosen = self.blocks.values().filter(|block| block.kind == kind);
        chosen.map(|block| (block.at, block.bytes.borrow().clone())).collect()
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Changes the bytes of a block directly, bypassing the code under test.
    pub(crate) fn damage(&self, at: FileBlock, change: impl FnOnce(&mut [u8])) {
        change(&mut self.blocks[&at].bytes.borrow_mut());
    }

    fn context(&self) -> VerifyContext<'_> {
        VerifyContext { geometry: &self.geometry, log_head: None }
    }

    /// Changes a random byte of a random block. Returns `false`, with nothing changed, if the
    /// verifier of the block would notice the change.
    pub(crate) fn mutate(&self, random: &mut Prng) -> bool {
        let index = random.within(0..self.blocks.len());
        let Some((at, block)) = self.blocks.iter().nth(index) else { return false };
        let mut bytes = block.bytes.borrow().clone();
        // Most important fields are near the start or at the end.
        let (place, length) = (random.within(0..256), bytes.len());
        let place = if random.within(0..4) == 0 { length - 1 - place } else { place };
        bytes[place] = random.number() as u8;
        block.kind.seal(&mut bytes, Lsn(0));
        let is_accepted = block.kind.verify(&bytes, disk_address(*at), &self.context()).is_ok();
        if is_accepted {
            *block.bytes.borrow_mut() = bytes;
        }
        is_accepted
    }

    /// Runs the verifier of every block, as the buffer cache does before a write.
    pub(crate) fn verify(&self) {
        let context = self.context();
        for (at, block) in &self.blocks {
            let mut bytes = block.bytes.borrow().clone();
            block.kind.seal(&mut bytes, Lsn(1 << 32));
            let address = disk_address(*at);
            if let Err(corruption) = block.kind.verify(&bytes, address, &context) {
                panic!("block {at:?}, {:?}: {corruption}", block.kind);
            }
        }
    }

    fn used_blocks(&self) -> u64 {
        let lengths = self.blocks.values().map(|block| length_blocks(&self.geometry, block.kind));
        lengths.map(u64::from).sum()
    }
}

/// Returns the disk address that the tests use for a file block.
fn disk_address(at: FileBlock) -> DiskAddr {
    DiskAddr(at.0 * 8 + 8)
}

impl ForkStore for MemoryFork {
    type Block = MemoryDaBlock;

    fn fork(&self) -> ForkKind {
        self.kind
    }

    fn number(&self) -> InodeNumber {
        self.number
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn contents(&mut self) -> Result<ForkPlacement> {
        Ok(match &self.local {
            Some(bytes) => ForkPlacement::Inline(bytes.as_slice().into()),
            None if self.absent => ForkPlacement::Absent,
            None if self.blocks.is_empty() => ForkPlacement::NoBlocks,
            None => ForkPlacement::Blocks,
        })
    }

    fn local_room(&self) -> usize {
        self.room
    }

    fn set_local(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(self.blocks.is_empty());
        assert!(bytes.len() <= self.room);
        self.local = Some(bytes.to_vec());
        self.absent = false;
        if self.kind == ForkKind::Data {
            self.size = bytes.len() as u64;
        }
        Ok(())
    }

    fn set_empty(&mut self) -> Result<()> {
        assert!(self.blocks.is_empty());
        self.local = None;
        Ok(())
    }

    fn make_fork(&mut self, bytes: usize) -> Result<()> {
        assert!(bytes != 0);
        self.absent = false;
        Ok(())
    }

    fn remove_fork(&mut self) -> Result<()> {
        assert!(self.blocks.is_empty());
        self.local = None;
        self.absent = true;
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn set_size(&mut self, bytes: u64) {
        self.size = bytes;
    }

    fn read(&mut self, at: FileBlock, kind: BlockKind) -> Result<MemoryDaBlock> {
        let Some(block) = self.blocks.get(&at) else {
            let check = ExtentCheck::NotMapped { file_block: at };
            return Err(Corruption::new(Structure::Extent, self.place(at), check).into());
        };
        // A damaged pointer may lead to a block of another kind.
        if block.kind != kind {
            kind.verify(&block.bytes.borrow(), disk_address(at), &self.context())?;
        }
        Ok(block.clone())
    }

    fn grow(&mut self, at: FileBlock, kind: BlockKind) -> Result<MemoryDaBlock> {
        let length = length_blocks(&self.geometry, kind);
        if self.used_blocks() + u64::from(length) > self.space {
            return Err(PosixError::NoSpace.into());
        }
        assert!(self.local.is_none() && !self.absent);
        let bytes = vec![0; (length * self.geometry.block_size) as usize];
        let block = MemoryDaBlock { at, kind, bytes: Rc::new(RefCell::new(bytes)) };
        let before = self.blocks.insert(at, block.clone());
        assert!(before.is_none(), "{at:?} is mapped already");
        Ok(block)
    }

    fn shrink(&mut self, at: FileBlock, block: &MemoryDaBlock) -> Result<()> {
        assert_eq!(at, block.at);
        assert!(self.blocks.remove(&at).is_some());
        Ok(())
    }

    fn first_unused(&mut self, from: FileBlock, blocks: u32) -> Result<FileBlock> {
        let mut candidate = from;
        for (at, block) in self.blocks.range(from..) {
            if at.0 >= candidate.0 + u64::from(blocks) {
                break;
            }
            candidate = FileBlock(at.0 + u64::from(length_blocks(&self.geometry, block.kind)));
        }
        Ok(candidate)
    }

    fn last_before(&mut self, limit: FileBlock) -> Result<FileBlock> {
        let range = (Bound::Unbounded, Bound::Excluded(limit));
        let last = self.blocks.range(range).next_back();
        Ok(last.map_or(FileBlock(0), |(at, block)| {
            FileBlock(at.0 + u64::from(length_blocks(&self.geometry, block.kind)))
        }))
    }

    fn address(&self, block: &MemoryDaBlock) -> DiskAddr {
        disk_address(block.at)
    }

    fn view<R>(&self, block: &MemoryDaBlock, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&block.bytes.borrow())
    }

    fn edit<R>(
        &mut self,
        block: &MemoryDaBlock,
        change: impl FnOnce(&mut BlockEdit<'_>) -> R,
    ) -> R {
        let mut bytes = block.bytes.borrow_mut();
        self.edits += 1;
        // Copying the largest blocks at each edit would take longer than everything else.
        let is_compared = bytes.len() <= 4096 || self.edits.is_multiple_of(16);
        let before = if is_compared { bytes.clone() } else { Vec::new() };
        let mut edit = BlockEdit::new(&mut bytes);
        let outcome = change(&mut edit);
        let touched: Vec<_> = edit.into_touched().ranges().collect();
        self.bytes_touched += touched.iter().map(|range| range.len() as u64).sum::<u64>();
        if is_compared {
            // Bytes outside the reported ranges must not have changed.
            let mut replayed = before;
            for range in touched {
                replayed[range.clone()].copy_from_slice(&bytes[range]);
            }
            assert!(replayed == *bytes, "a change of {:?} went unsaid", block.kind);
        }
        outcome
    }
}
