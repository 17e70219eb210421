//! The extents of a fork one after the other, without loading all of a btree.
//!
//! Owns: the descent through an extent btree from the root in the inode. Does **not** own: checks
//! that a block makes on itself; the buffer was verified when it was read.
//!
//! # Invariants
//!
//! - **I1** Every block belongs to this inode, is on the level that the path calls for, and its
//!   entries lie between the key that led to it and the next one. So the walk visits no block
//!   twice, and it ends.
//! - **I2** At most as many extents come out as the inode says; fewer are an error at the end.

use std::slice;
use std::vec;

use xfs_buffer::{BufferCache, Result};
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, BtreeKind, Extents as Format};
use xfs_format::extent::{Extent, ExtentCheck, ExtentRoot, ExtentRules, FILE_BLOCK_LIMIT};
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{BlockKind, Check, Corruption, DiskAddr, FileBlock, FsBlock, Place, Structure};

use crate::fork::{Fork, corrupt};
use crate::inode::Inode;

/// The extents of a fork, in file order.
pub struct Extents<'a>(Source<'a>);

enum Source<'a> {
    Map(slice::Iter<'a, Extent>),
    Walk(Box<Walk<'a>>),
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Map(extents) => extents.next().copied().map(Ok),
            Source::Walk(walk) => walk.next_extent(),
        }
    }
}

impl Inode {
    /// The extents of a fork, in file order; none for a fork that has no extents. A btree is read
    /// leaf by leaf. After an error nothing more comes.
    pub fn extents<'a>(&'a self, cache: &'a BufferCache, kind: ForkKind) -> Extents<'a> {
        Extents(match self.fork(kind) {
            Fork::Extents(map) => Source::Map(map.extents().iter()),
            Fork::Btree(btree) => match btree.map.value() {
                Some(map) => Source::Map(map.extents().iter()),
                None => Source::Walk(Box::new(Walk::new(self.core(), kind, cache, btree.root()))),
            },
            _ => Source::Map([].iter()),
        })
    }
}

/// A block that is still to be visited.
#[derive(Clone, Copy)]
struct Child {
    block: FsBlock,
    /// Its entries start here or later...
    first: FileBlock,
    /// ...and end here or sooner.
    end: FileBlock,
}

/// The children of one node that are still to be visited.
struct Level {
    /// The level that they are on.
    level: u16,
    children: vec::IntoIter<Child>,
}

struct Walk<'a> {
    cache: &'a BufferCache,
    core: &'a InodeCore,
    rules: ExtentRules<'a>,
    expected: u64,
    found: u64,
    /// From the root's children down. At most as many as a tree has levels.
    path: Vec<Level>,
    leaf: vec::IntoIter<Extent>,
    /// What was wrong with the root.
    error: Option<Corruption>,
    finished: bool,
}

impl<'a> Walk<'a> {
    fn new(core: &'a InodeCore, kind: ForkKind, cache: &'a BufferCache, root: &[u8]) -> Self {
        let mut walk = Self {
            cache,
            core,
            rules: ExtentRules::of(core, kind, cache.geometry()),
            expected: core.fork_extents(kind),
            found: 0,
            path: Vec::new(),
            leaf: Vec::new().into_iter(),
            error: None,
            finished: false,
        };
        let geometry = cache.geometry();
        match ExtentRoot::decode(root).and_then(|root| root.verify(geometry).map(|()| root)) {
            Ok(root) => {
                let entries: Vec<_> = root.iter().collect();
                walk.push(root.level(), &entries, FileBlock(FILE_BLOCK_LIMIT));
            }
            Err(check) => walk.error = Some(corrupt(core, check)),
        }
        walk
    }

    fn next_extent(&mut self) -> Option<Result<Extent>> {
        if self.finished {
            return None;
        }
        let next = self.try_next().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }

    fn try_next(&mut self) -> Result<Option<Extent>> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        loop {
            if let Some(extent) = self.leaf.next() {
                return Ok(Some(extent));
            }
            let Some(level) = self.path.last_mut() else { break };
            match (level.level, level.children.next()) {
                (level, Some(child)) => self.visit(level, child)?,
                (_, None) => {
                    self.path.pop();
                }
            }
        }
        let (found, expected) = (self.found, self.expected);
        if found == expected {
            return Ok(None);
        }
        Err(corrupt(self.core, ExtentCheck::Count { found, expected }).into())
    }

    /// Puts the children of a node of `level`, whose entries end at `end`, on the path.
    fn push(&mut self, level: u16, entries: &[(FileBlock, FsBlock)], end: FileBlock) {
        let nexts = entries.iter().skip(1).map(|(first, _)| *first).chain([end]);
        let children = entries.iter().zip(nexts);
        let children = children.map(|(&(first, block), end)| Child { block, first, end });
        let children = children.collect::<Vec<_>>().into_iter();
        self.path.push(Level { level: level.saturating_sub(1), children });
    }

    fn visit(&mut self, level: u16, child: Child) -> Result<()> {
        let geometry = self.cache.geometry();
        let at = geometry.block_disk_addr(child.block).unwrap_or(DiskAddr::NULL);
        let kind = BlockKind::Btree(BtreeKind::Extent);
        let buffer = self.cache.read(at, geometry.block_size, kind)?;
        let bytes = buffer.bytes();
        let block = BtreeBlock::decode(&bytes, BtreeKind::Extent, at)?;
        let corrupt = |check: Check| Corruption::new(Structure::Btree, Place::Disk(at), check);
        let (found, expected) = (block.owner(), self.core.number.0);
        if found != expected {
            return Err(corrupt(Check::ForeignOwner { found, expected }).into());
        }
        let (found, expected) = (block.level(), u32::from(level));
        if found != expected {
            return Err(corrupt(BtreeCheck::LevelOnPath { found, expected }.into()).into());
        }
        if level == 0 {
            self.leaf = self.leaf_extents(&block, child).map_err(corrupt)?.into_iter();
        } else {
            let entries = node_entries(&block, child).map_err(corrupt)?;
            self.push(level, &entries, child.end);
        }
        Ok(())
    }

    fn leaf_extents(
        &mut self,
        block: &BtreeBlock<'_>,
        child: Child,
    ) -> core::result::Result<Vec<Extent>, Check> {
        if block.count() == 0 {
            return Err(BtreeCheck::EmptyLeaf.into());
        }
        self.found += block.count() as u64;
        if self.found > self.expected {
            let (found, expected) = (self.found, self.expected);
            return Err(ExtentCheck::Count { found, expected }.into());
        }
        let mut extents = Vec::with_capacity(block.count());
        let mut end = child.first;
        for (index, record) in block.records().enumerate() {
            let Some(extent) = Extent::decode_bytes(record) else { break };
            extent.verify(&self.rules)?;
            if extent.file_block < end || extent.end() > child.end {
                return Err(BtreeCheck::OutsideParent { index }.into());
            }
            end = extent.end();
            extents.push(extent);
        }
        Ok(extents)
    }
}

/// Keys and children of a node, the keys rising and inside those of its parent.
fn node_entries(
    block: &BtreeBlock<'_>,
    child: Child,
) -> core::result::Result<Vec<(FileBlock, FsBlock)>, Check> {
    let mut entries = Vec::with_capacity(block.count());
    let mut least = child.first;
    for index in 0..block.count() {
        let key = block.key(index).and_then(Format::decode_key);
        let pointer = block.pointer(index).map(FsBlock);
        let (Some(key), Some(pointer)) = (key, pointer) else { break };
        if key < least || key >= child.end {
            return Err(BtreeCheck::OutsideParent { index }.into());
        }
        least = FileBlock(key.0.saturating_add(1));
        entries.push((key, pointer));
    }
    if entries.is_empty() {
        return Err(BtreeCheck::EmptyNode.into());
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
