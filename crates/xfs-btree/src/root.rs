//! Where a btree starts: in the header of a group, or in an inode.

use xfs_buffer::Result;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::BtreeFormat;
use xfs_format::extent::{Extent, ExtentCheck, ExtentRoot, encode_extent_root};
use xfs_format::{FileBlock, FsBlock, InodeNumber};

use crate::editor::{build, push_down};
use crate::store::Store;

/// The root of a fork's btree, which lies in the inode.
#[doc(alias = "if_broot")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRoot {
    /// Levels below it; at least 1.
    pub level: u16,
    /// The first file block under each child, and where the child lies.
    pub children: Vec<(FileBlock, FsBlock)>,
    /// How many children the fork has room for.
    pub capacity: usize,
}

impl ForkRoot {
    /// Decodes the root in the bytes of a fork, all of them.
    ///
    /// # Errors
    ///
    /// As [`ExtentRoot::decode`].
    pub fn decode(fork: &[u8]) -> Result<Self, ExtentCheck> {
        Ok(Self::new(&ExtentRoot::decode(fork)?, ExtentRoot::capacity(fork.len())))
    }

    pub(crate) fn new(root: &ExtentRoot<'_>, capacity: usize) -> Self {
        Self { level: root.level(), children: root.iter().collect(), capacity }
    }

    /// Makes a btree of the extents of a fork, at least one and in order, which have been a list in
    /// the inode. The fork has room for `capacity` children.
    ///
    /// # Errors
    ///
    /// The store's; extents that are not in order.
    pub fn build<S: Store>(
        store: &mut S,
        inode: InodeNumber,
        extents: &[Extent],
        capacity: usize,
    ) -> Result<Self> {
        build(store, inode, extents, capacity)
    }

    /// Puts the children into one new block, and that block into the root, which then needs room
    /// for no more than one: `capacity` is what it has now.
    ///
    /// # Errors
    ///
    /// The store's; a btree that would become too high.
    pub fn push_down<S: Store>(
        &mut self,
        store: &mut S,
        inode: InodeNumber,
        capacity: usize,
    ) -> Result<()> {
        push_down(store, inode, self, capacity)
    }

    /// Writes the root into the bytes of a fork, all of them.
    ///
    /// # Panics
    ///
    /// If the fork has room for fewer children than there are.
    pub fn encode(&self, fork: &mut [u8]) {
        encode_extent_root(self.level, &self.children, fork);
    }
}

/// What stands above the highest block.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// A pointer in the header of a group.
    Block(BtreeRoot),
    /// A node in an inode.
    Fork(&'a ForkRoot),
}

/// What stands above the highest block of a path, and the child that the path goes on to.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) root: TopRoot,
    pub(crate) index: usize,
}

#[derive(Debug)]
pub(crate) enum TopRoot {
    Header(u64),
    Inode(ForkRoot),
}

impl Top {
    pub(crate) const fn new(root: TopRoot) -> Self {
        Self { root, index: 0 }
    }

    /// How many children.
    pub(crate) const fn count(&self) -> usize {
        match &self.root {
            TopRoot::Header(_) => 1,
            TopRoot::Inode(root) => root.children.len(),
        }
    }

    /// The lowest key below a child, where one is named.
    pub(crate) fn key<F: BtreeFormat>(&self, index: usize) -> Option<F::Key> {
        match &self.root {
            TopRoot::Header(_) => None,
            TopRoot::Inode(root) => {
                let (file_block, _) = root.children.get(index)?;
                F::decode_key(&file_block.0.to_be_bytes())
            }
        }
    }

    /// Where a child is.
    pub(crate) fn block(&self, index: usize) -> Option<u64> {
        match &self.root {
            TopRoot::Header(block) => (index == 0).then_some(*block),
            TopRoot::Inode(root) => root.children.get(index).map(|(_, child)| child.0),
        }
    }

    /// The last child whose key is not above this, or else the first.
    pub(crate) fn towards<F: BtreeFormat>(&self, key: F::Key) -> usize {
        match &self.root {
            TopRoot::Header(_) => 0,
            TopRoot::Inode(root) => {
                let not_above = |child: &(FileBlock, FsBlock)| {
                    F::decode_key(&child.0.0.to_be_bytes()).is_none_or(|lowest| lowest <= key)
                };
                root.children.partition_point(not_above).saturating_sub(1)
            }
        }
    }
}
