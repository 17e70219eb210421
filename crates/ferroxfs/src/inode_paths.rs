//! Search for every path that leads to an inode.
//!
//! With parent pointers, the search goes upwards from the inode to the root. Without parent
//! pointers, only a directory knows its parent: for any other inode, the whole tree is searched
//! from the root.
//!
//! # Invariants
//!
//! - **I1** The search upwards is bounded. A directory has one parent and is visited once, so that
//!   a cycle of directories ends the search with an error.
//! - **I2** The search returns at most `MAX_PATHS` paths, whatever entries and parent pointers say.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_dir::{ParentLink, Parents};
use xfs_format::superblock::Unsupported;
use xfs_format::{IncompatFeatures, InodeNumber};

use xfs_vfs::{Capabilities, cycle, parents_of_directory};

use crate::node::Node;
use crate::volume_ref::VolumeRef;
use crate::{Error, Result};

/// The most paths returned for one inode, which has at most 2^31 links.
const MAX_PATHS: usize = 1 << 20;
/// The largest number of components of a path. A longer path is taken for damage.
const MAX_DEPTH: usize = 1 << 14;

/// A directory that holds an inode, and the name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The directory that holds the inode.
    pub directory: InodeNumber,
    /// Generation of the directory, so that a later inode with the same number is not mistaken for
    /// it.
    pub generation: u32,
    /// The name of the inode in the directory.
    pub name: OsString,
}

/// Every path of an inode, and the errors of the search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InodePaths {
    /// Paths from the root, each beginning with `/`, in the order of their bytes. Empty for an
    /// inode that no directory holds.
    pub paths: Vec<PathBuf>,
    /// The errors of the search. If there is any, paths may be missing.
    pub findings: Vec<Error>,
}

impl Node {
    /// Returns the directories that hold this inode, and its names there, from the parent pointers.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EOPNOTSUPP on a volume without parent pointers;
    /// EUCLEAN for a corrupt volume.
    pub fn parents(&self) -> Result<Vec<Parent>> {
        self.caller().require(Capabilities::SYS_ADMIN)?;
        parents(self)
    }
}

/// Returns the parents of an inode, from its parent pointers.
pub(crate) fn parents(node: &Node) -> Result<Vec<Parent>> {
    if !node.volume_ref().superblock().has_incompat(IncompatFeatures::PARENT) {
        return Err(Unsupported::NoParentPointers.into());
    }
    let to_public = |link: ParentLink| Parent {
        directory: link.inode,
        generation: link.generation,
        name: OsString::from_vec(link.name.into()),
    };
    Parents::new(node.cache(), &node.view()).map(|link| link.map(to_public)).collect()
}

/// Returns every path that leads to `node`.
pub(crate) fn find(node: &Node) -> InodePaths {
    let mut found = if node.volume_ref().superblock().has_incompat(IncompatFeatures::PARENT) {
        climb(node)
    } else {
        search(node.volume_ref(), node.number())
    };
    found.paths.sort();
    found.paths.dedup();
    found
}

/// Follows parent pointers from each name of the inode up to the root. Only the inode itself can
/// have several parents; each directory above has one.
fn climb(node: &Node) -> InodePaths {
    let mut found = InodePaths::default();
    if node.number() == node.volume_ref().superblock().root_inode {
        found.paths.push(PathBuf::from("/"));
        return found;
    }
    let links = match parents(node) {
        Ok(links) => links,
        Err(error) => {
            found.findings.push(error);
            return found;
        }
    };
    // Links in one directory have the same path from there.
    let mut above: HashMap<InodeNumber, Option<PathBuf>> = HashMap::new();
    // No more paths than the bound are made (I2).
    for link in links.into_iter().take(MAX_PATHS) {
        let folder = above.entry(link.directory).or_insert_with(|| {
            ascend(node.volume_ref(), link.directory, link.generation)
                .map_err(|error| found.findings.push(error))
                .ok()
        });
        found.paths.extend(folder.as_ref().map(|folder| folder.join(&link.name)));
    }
    found
}

/// Returns the path of directory `start`. Fails with ESTALE unless the directory has `generation`,
/// which comes from a parent pointer to it.
fn ascend(volume: &Arc<VolumeRef>, start: InodeNumber, generation: u32) -> Result<PathBuf> {
    let (mut at, mut generation) = (start, generation);
    let mut names = Vec::new();
    let mut passed = HashSet::new();
    while at != volume.superblock().root_inode {
        // No directory is visited twice (I1).
        if !passed.insert(at) || names.len() > MAX_DEPTH {
            return Err(cycle(at).into());
        }
        let node = volume.node(at)?;
        if node.view().core().generation != generation {
            return Err(PosixError::Stale.into());
        }
        let mut links = parents(&node)?.into_iter();
        let (Some(link), None) = (links.next(), links.next()) else {
            return Err(parents_of_directory(at).into());
        };
        (at, generation) = (link.directory, link.generation);
        names.push(link.name);
    }
    Ok(join(&names))
}

fn join(names: &[OsString]) -> PathBuf {
    let mut path = PathBuf::from("/");
    path.extend(names.iter().rev());
    path
}

/// Searches the whole tree for an inode. It reads directories, and no other inodes.
fn search(volume: &Arc<VolumeRef>, wanted: InodeNumber) -> InodePaths {
    let mut found = InodePaths::default();
    if wanted == volume.superblock().root_inode {
        found.paths.push(PathBuf::from("/"));
        return found;
    }
    let mut open = vec![(PathBuf::from("/"), volume.superblock().root_inode)];
    let mut entered = HashSet::new();
    while let Some((path, directory)) = open.pop() {
        if !entered.insert(directory) {
            found.findings.push(cycle(directory).into());
            continue;
        }
        if let Err(error) = search_directory(&path, directory, wanted, volume, &mut found)
            .map(|below| open.extend(below))
        {
            found.findings.push(error);
        }
    }
    found
}

/// Searches the entries of one directory for an inode, up to [`MAX_PATHS`] paths in all (I2).
/// Returns the subdirectories, which are still to be searched.
fn search_directory(
    path: &Path,
    directory: InodeNumber,
    wanted: InodeNumber,
    volume: &Arc<VolumeRef>,
    found: &mut InodePaths,
) -> Result<Vec<(PathBuf, InodeNumber)>> {
    let mut below = Vec::new();
    for entry in volume.node(directory)?.entries()? {
        match entry {
            Ok(entry) => {
                // I2: no more paths than the bound are made.
                if entry.number() == wanted && found.paths.len() < MAX_PATHS {
                    found.paths.push(path.join(entry.name()));
                }
                if entry.may_be_directory() {
                    below.push((path.join(entry.name()), entry.number()));
                }
            }
            Err(error) => found.findings.push(error),
        }
    }
    Ok(below)
}
