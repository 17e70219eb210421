//! Where an inode is in the tree: every path that leads to it.
//!
//! With parent pointers the way goes upwards, from the inode to the root. Without them, a directory
//! still knows its parent, but anything else has to be searched for from the root.
//!
//! # Invariants
//!
//! - **I1** The way up is bounded: a directory has one parent and is on it once, so directories that
//!   form a cycle end it with an error.
//! - **I2** At most `MAX_PATHS` paths are made, whatever the link counts say.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_dir::{ParentLink, Parents};
use xfs_format::superblock::Unsupported;
use xfs_format::{IncompatFeatures, InodeNumber};

use crate::node::Node;
use crate::share::Share;
use crate::{Error, Result};

/// Paths returned for one inode at the most: an inode has at most 2^31 links, an answer has room
/// for fewer.
const MAX_PATHS: usize = 1 << 20;
/// A path longer than this many components is taken for damage.
const MAX_DEPTH: usize = 1 << 14;

/// A directory that holds an inode, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The directory.
    pub directory: InodeNumber,
    /// Its generation, so that a number used anew is not mistaken for it.
    pub generation: u32,
    /// The name in it.
    pub name: OsString,
}

/// Every path of an inode, and what could not be read on the way.
#[derive(Debug, Default)]
pub struct Whereabouts {
    /// Paths from the root, each beginning with `/`, in the order of their bytes. Empty for an
    /// inode that no directory holds.
    pub paths: Vec<PathBuf>,
    /// What could not be read: with any of these, paths may be missing.
    pub findings: Vec<Error>,
}

/// The parent pointers of one inode.
pub(crate) fn parents(node: &Node) -> Result<Vec<Parent>> {
    if !node.share().superblock.has_incompat(IncompatFeatures::PARENT) {
        return Err(Unsupported::NoParentPointers.into());
    }
    let to_public = |link: ParentLink| Parent {
        directory: link.inode,
        generation: link.generation,
        name: OsString::from_vec(link.name.into()),
    };
    Parents::new(node.cache(), &node.inode()).map(|link| link.map(to_public)).collect()
}

/// Every path of `node`.
pub(crate) fn find(node: &Node) -> Whereabouts {
    let mut found = if node.share().superblock.has_incompat(IncompatFeatures::PARENT) {
        climb(node)
    } else {
        search(node.share(), node.number())
    };
    found.paths.sort();
    found.paths.dedup();
    found
}

/// Goes up by parent pointers: from each name of the inode to the root. Only the first step can
/// branch: a directory has one parent.
fn climb(node: &Node) -> Whereabouts {
    let mut found = Whereabouts::default();
    if node.number() == node.share().superblock.root_inode {
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
    // Links in one directory share the way up from there.
    let mut above: HashMap<InodeNumber, Option<PathBuf>> = HashMap::new();
    for link in links {
        let folder = above.entry(link.directory).or_insert_with(|| {
            ascend(node.share(), link.directory, link.generation)
                .map_err(|error| found.findings.push(error))
                .ok()
        });
        found.paths.extend(folder.as_ref().map(|folder| folder.join(&link.name)));
    }
    found
}

/// The path of a directory that had this generation when the pointer to it was made.
fn ascend(share: &Arc<Share>, start: InodeNumber, generation: u32) -> Result<PathBuf> {
    let (mut at, mut generation) = (start, generation);
    let mut names = Vec::new();
    let mut passed = HashSet::new();
    while at != share.superblock.root_inode {
        if !passed.insert(at) || names.len() > MAX_DEPTH {
            return Err(crate::directory::cycle(at).into());
        }
        let node = share.node(at)?;
        if node.inode().core().generation != generation {
            return Err(PosixError::Stale.into());
        }
        let mut links = parents(&node)?.into_iter();
        let (Some(link), None) = (links.next(), links.next()) else {
            return Err(crate::directory::parents_of_directory(at).into());
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

/// Walks the whole tree. Only directory entries are looked at: no inode is read but directories.
fn search(share: &Arc<Share>, wanted: InodeNumber) -> Whereabouts {
    let mut found = Whereabouts::default();
    if wanted == share.superblock.root_inode {
        found.paths.push(PathBuf::from("/"));
        return found;
    }
    let mut open = vec![(PathBuf::from("/"), share.superblock.root_inode)];
    let mut entered = HashSet::new();
    while let Some((path, directory)) = open.pop() {
        if !entered.insert(directory) {
            found.findings.push(crate::directory::cycle(directory).into());
            continue;
        }
        if let Err(error) = search_directory((&path, directory), wanted, share, &mut found)
            .map(|below| open.extend(below))
        {
            found.findings.push(error);
        }
    }
    found
}

/// Looks at the entries of one directory; returns the directories in it.
fn search_directory(
    (path, directory): (&Path, InodeNumber),
    wanted: InodeNumber,
    share: &Arc<Share>,
    found: &mut Whereabouts,
) -> Result<Vec<(PathBuf, InodeNumber)>> {
    let mut below = Vec::new();
    for entry in share.node(directory)?.entries()? {
        match entry {
            Ok(entry) => {
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
