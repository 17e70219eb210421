//! The model of a volume: its inodes with their forks, names and parent pointers, as far as they
//! can be read.
//!
//! Owns: one pass over all inodes. Does **not** own: decisions about what is right.
//!
//! The model is in memory. Its size grows with the number of inodes and names, unlike the checker's.

use std::collections::BTreeMap;

use xfs_format::directory::EntryType;
use xfs_format::extent::Extent;
use xfs_format::inode::InodeCore;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgNumber, FsBlock, InodeNumber};

/// The state of an inode that a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeState {
    /// The inode passes its checks.
    Sound,
    /// The inode decodes and is the right one, but a check fails.
    Doubtful,
    /// The bytes are no inode, or the inode of another place.
    Gone,
}

/// A fork of an inode, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelFork {
    /// The extents in the order of the file.
    pub(crate) extents: Vec<Extent>,
    /// The blocks of the fork's btree.
    pub(crate) btree_blocks: Vec<FsBlock>,
    /// Whether all extents are known.
    pub(crate) is_whole: bool,
}

/// An inode in use, or one that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct ModelInode {
    /// The state of the core.
    pub(crate) state: InodeState,
    /// The core; `None` if the inode is gone.
    pub(crate) core: Option<InodeCore>,
    /// The data fork.
    pub(crate) data: ModelFork,
    /// The attribute fork.
    pub(crate) attr: ModelFork,
}

/// A name in a directory, other than `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModelName {
    /// The directory.
    pub(crate) directory: InodeNumber,
    /// The name.
    pub(crate) name: Vec<u8>,
    /// The inode that the entry names.
    pub(crate) child: InodeNumber,
    /// The raw type byte of the entry.
    pub(crate) entry_type: u8,
}

/// A parent pointer of an inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModelParent {
    /// The inode that has the pointer.
    pub(crate) child: InodeNumber,
    /// The directory.
    pub(crate) directory: InodeNumber,
    /// The directory's generation, by the pointer.
    pub(crate) generation: u32,
    /// The name.
    pub(crate) name: Vec<u8>,
}

/// The volume, as far as it can be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// The inodes that are in use or gone, of all known chunks.
    pub(crate) inodes: BTreeMap<InodeNumber, ModelInode>,
    /// The chunks of each group.
    pub(crate) chunks: BTreeMap<AgNumber, Vec<InodeChunk>>,
    /// The names of all directories, sorted by directory and name.
    pub(crate) names: Vec<ModelName>,
    /// The `..` of each directory that has a readable one.
    pub(crate) dotdots: BTreeMap<InodeNumber, InodeNumber>,
    /// The parent pointers of all inodes, sorted by child.
    pub(crate) parents: Vec<ModelParent>,
}

impl Model {
    /// Returns the core of an inode in use that can be read.
    pub(crate) fn core(&self, inode: InodeNumber) -> Option<&InodeCore> {
        self.inodes.get(&inode).and_then(|inode| inode.core.as_ref())
    }

    /// Returns the type of an inode in use as a directory entry states it.
    pub(crate) fn entry_type(&self, inode: InodeNumber) -> Option<EntryType> {
        self.core(inode).and_then(InodeCore::file_type).map(EntryType::of)
    }
}
