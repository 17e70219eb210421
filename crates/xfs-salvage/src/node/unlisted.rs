//! Names in parent pointers of children that the directory of the children lacks.
//!
//! Owns: comparing the pointers of each child with the names of the directory in which the child
//! was found. Does **not** own: the names of directories that are known to be damaged, for which
//! the survey collects the parent pointers.
//!
//! A name can be wrong in a block with a right checksum. The file of that entry then has a parent
//! pointer with the right name. It cannot be decided which of the two names is damaged, so the file
//! gets both.

use std::collections::BTreeSet;

use xfs_format::inode::FileType;
use xfs_format::{IncompatFeatures, InodeNumber};

use super::entries::Candidate;
use super::{Node, NodeKind};

/// The names of one directory, to find those that it lacks.
pub(super) struct UnlistedNames {
    /// The directory and its generation. `None` if its children are not compared.
    directory: Option<(InodeNumber, u32)>,
    /// The names that the directory has, and those in `found`.
    known: BTreeSet<Vec<u8>>,
    /// The names that the directory lacks and that were not returned yet.
    pub(super) found: Vec<Candidate>,
    /// The files whose pointers were compared already.
    compared: BTreeSet<InodeNumber>,
}

impl UnlistedNames {
    /// Starts the comparison for the directory `node`, which has the names `names`. Nothing is
    /// compared if the volume has no parent pointers, or if the inode of the directory cannot be
    /// read.
    pub(super) fn of(node: &Node<'_>, names: &[Candidate]) -> Self {
        let geometry = node.salvage.evidence.geometry();
        let core = match geometry.has_incompat(IncompatFeatures::PARENT) {
            true => node.inode().and_then(|inode| inode.core()),
            false => None,
        };
        let directory = core.map(|core| (core.number, core.generation));
        let known = match directory {
            Some(_) => names.iter().map(|name| name.name.clone()).collect(),
            None => BTreeSet::new(),
        };
        Self { directory, known, found: Vec::new(), compared: BTreeSet::new() }
    }

    /// Adds the names in the parent pointers of a child that the directory lacks. Adds a remark to
    /// a child with one link whose parent pointers could all be read, but do not have the name
    /// under which the child was found. Does nothing for a child that is a directory, because it
    /// can have only one name.
    pub(super) fn take(&mut self, child: &Node<'_>) {
        let Some((directory, generation)) = self.directory else { return };
        let Some(core) = child.inode.core().filter(|_| child.kind == NodeKind::Inode) else {
            return;
        };
        let is_directory = core.file_type() == Some(FileType::Directory);
        // A file with many names in one directory is compared once.
        if is_directory || (core.nlink > 1 && !self.compared.insert(core.number)) {
            return;
        }
        let attributes = child.salvage.evidence.attributes(&child.inode);
        let mut is_confirmed = core.nlink != 1 || !attributes.is_whole();
        for pointer in attributes.parents {
            if pointer.parent != directory || pointer.generation != generation {
                continue;
            }
            is_confirmed |= *pointer.name == *child.position.name;
            if self.known.insert(pointer.name.to_vec()) {
                self.found.push(Candidate::of_pointer(&pointer.name, core.number));
            }
        }
        if !is_confirmed {
            child.remarks.borrow_mut().doubt("no parent pointer of the file has the name");
        }
    }
}
