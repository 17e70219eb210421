//! The root of a btree: in the header of a group, or in an inode.

use xfs_format::agf::BtreeRoot;
use xfs_format::btree::BtreeFormat;
use xfs_format::extent::{ExtentCheck, ExtentRoot, encode_extent_root};
use xfs_format::{FileBlock, FsBlock};

/// The root of a fork's btree, which lies in the inode.
#[doc(alias = "if_broot")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRoot {
    /// Number of levels below the root; at least 1.
    pub level: u16,
    /// For each child, the first file block that the child covers, and the block number of the
    /// child.
    pub children: Vec<(FileBlock, FsBlock)>,
    /// Number of children that the fork has room for.
    pub capacity: usize,
}

impl ForkRoot {
    /// Decodes the root from `fork`, which must be the whole fork.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ExtentRoot::decode`].
    pub fn decode(fork: &[u8]) -> Result<Self, ExtentCheck> {
        Ok(Self::new(&ExtentRoot::decode(fork)?, ExtentRoot::capacity(fork.len())))
    }

    pub(crate) fn new(root: &ExtentRoot<'_>, capacity: usize) -> Self {
        Self { level: root.level(), children: root.iter().collect(), capacity }
    }

    /// Writes the root into `fork`, which must be the whole fork.
    ///
    /// # Panics
    ///
    /// Panics if the fork has room for fewer children than the root has.
    pub fn encode(&self, fork: &mut [u8]) {
        encode_extent_root(self.level, &self.children, fork);
    }
}

/// The root of a btree, in the form in which it is stored: by the header of a group, or in an
/// inode.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// The block number and the level of the root block, which the header of a group names.
    Block(BtreeRoot),
    /// The root node of a fork's btree, which lies in an inode.
    Fork(&'a ForkRoot),
    /// The root block of a btree of a realtime group.
    Tree(TreeRoot),
}

/// The block number by which an editor names a root in an inode, which the editor handles as a
/// whole block. No block of a volume has this number.
pub const INODE_ROOT: u64 = u64::MAX - 1;

/// The root of a btree of a realtime group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// The block of the volume that holds the root; [`INODE_ROOT`] if the root is in the inode.
    pub block: u64,
    /// Number of levels, including that of the root.
    pub levels: u32,
}

/// The root that a path starts at, and the index of the child that the path continues to.
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

    /// Returns the number of children.
    pub(crate) const fn count(&self) -> usize {
        match &self.root {
            TopRoot::Header(_) => 1,
            TopRoot::Inode(root) => root.children.len(),
        }
    }

    /// Returns the lowest key below child `index`; `None` if the header of a group holds the root,
    /// which then has no keys.
    pub(crate) fn key<F: BtreeFormat>(&self, index: usize) -> Option<F::Key> {
        match &self.root {
            TopRoot::Header(_) => None,
            TopRoot::Inode(root) => {
                let (file_block, _) = root.children.get(index)?;
                F::decode_key(&file_block.0.to_be_bytes())
            }
        }
    }

    /// Returns the block number of child `index`; `None` if the root has no such child.
    pub(crate) fn block(&self, index: usize) -> Option<u64> {
        match &self.root {
            TopRoot::Header(block) => (index == 0).then_some(*block),
            TopRoot::Inode(root) => root.children.get(index).map(|(_, child)| child.0),
        }
    }

    /// Returns the index of the last child whose key is at most `key`, or 0 if the keys of all
    /// children are above `key`. A root in the header of a group has one child, so the result is 0.
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
