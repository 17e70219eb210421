//! Parent pointers: for each link of an inode, the directory and the name in the directory.
//!
//! Owns: iteration over the parent pointers of one inode, and keeping them consistent with the
//! directories (`operations`). Does **not** own paths, or the check whether a parent pointer is
//! correct: it is if the directory has the entry.

mod operations;

use xfs_buffer::{BufferCache, Result};
use xfs_format::attr::AttrEntry;
use xfs_format::parent::Parent;
use xfs_format::{InodeNumber, StructureAddress};
use xfs_inode::Inode;

use crate::attributes::{Attributes, Batches};

pub use operations::{
    ParentPath, add_parent, first_parent, parent_blocks, parent_quota_blocks, remove_parent,
    replace_parent,
};

/// A parent pointer that owns its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentLink {
    /// The inode number of the directory.
    pub inode: InodeNumber,
    /// The generation of the directory. A directory with this inode number but another generation
    /// is a different one.
    pub generation: u32,
    /// The name in the directory.
    pub name: Box<[u8]>,
}

/// An iterator over the parent pointers of an inode, one for each of its links. The iterator is
/// empty for the root directory, and on a volume without the feature for parent pointers.
pub struct Parents<'a> {
    batches: Batches<'a, ParentLink>,
}

impl<'a> Parents<'a> {
    /// Creates an iterator over `inode`'s parent pointers. For a block that cannot be read it
    /// returns one error, and then the pointers in the following blocks.
    #[must_use]
    pub fn new(cache: &'a BufferCache, inode: &'a Inode) -> Self {
        Self { batches: Batches::new(Attributes::new(cache, inode), link) }
    }
}

impl Iterator for Parents<'_> {
    type Item = Result<ParentLink>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

fn link(entry: &AttrEntry<'_>, place: StructureAddress) -> Option<Result<ParentLink>> {
    let link = match Parent::decode(entry, place) {
        Ok(parent) => {
            let Parent { inode, generation, name } = parent?;
            Ok(ParentLink { inode, generation, name: name.into() })
        }
        Err(corruption) => Err(corruption.into()),
    };
    Some(link)
}

#[cfg(test)]
mod tests;
