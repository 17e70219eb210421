//! From a path inside the volume to an inode.
//!
//! The rules are those of path_resolution(7), seen from a process whose root is the volume's root:
//! an absolute link starts again there, and `..` in the root is the root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_icache::Dentry;

use crate::kind::CachedInode;
use crate::node::Node;
use crate::permission::{Access, Who};
use crate::share::Share;
use crate::{FileType, Result};

/// Links that one resolution may follow, as on Linux.
pub(crate) const MAX_LINKS: usize = 40;
/// Longest path, as PATH_MAX.
const MAX_PATH_BYTES: usize = 4096;
/// Longest name in a directory.
const MAX_NAME_BYTES: usize = 255;

/// What to do with a link in the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// The path means what the link points to.
    Follow,
    /// The path means the link.
    Keep,
}

/// Finds the inode that `path` means, starting in `root`.
pub(crate) fn resolve(root: &Node, path: &Path, last: LastLink) -> Result<Node> {
    resolve_from(root, root, path, last)
}

/// The same, starting in a directory below `root` if the path does not begin with a slash.
pub(crate) fn resolve_from(
    root: &Node,
    directory: &Node,
    path: &Path,
    last: LastLink,
) -> Result<Node> {
    let path = path.as_os_str();
    if path.len() > MAX_PATH_BYTES {
        return Err(PosixError::NameTooLong.into());
    }
    let start = if path.as_bytes().starts_with(b"/") { root } else { directory };
    let mut current = start.clone();
    let mut links = 0;
    // Components still to take, the next one last.
    let mut pending = components(path);
    let wants_directory = asks_for_directory(path.as_bytes());
    let last = if wants_directory { LastLink::Follow } else { last };
    while let Some(name) = pending.pop() {
        let next = step(&current, &name)?;
        let keep = pending.is_empty() && last == LastLink::Keep;
        if next.file_type() != FileType::Symlink || keep {
            current = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(PosixError::SymlinkLoop.into());
        }
        let target = next.read_link()?;
        if target.as_bytes().starts_with(b"/") {
            current = root.clone();
        }
        pending.append(&mut components(&target));
    }
    if wants_directory && current.file_type() != FileType::Directory {
        return Err(PosixError::NotDirectory.into());
    }
    Ok(current)
}

/// Whether a path can only mean a directory, so that a link at its end is followed.
pub(crate) fn asks_for_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// The names in a path, the first one last. Of those that mean where one is, only one at the end counts:
/// whether one may search there.
fn components(path: &OsStr) -> Vec<OsString> {
    let path = path.as_bytes();
    let ends_here = path == b"." || path.ends_with(b"/.");
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let names = names.chain(ends_here.then_some(b".".as_slice()));
    let mut names: Vec<_> = names.map(|name| OsStr::from_bytes(name).to_owned()).collect();
    names.reverse();
    names
}

/// The inode that a path from the root means, if all its names are remembered and no link is to be followed: found
/// without a lock, and without a write that another slot sees where its users are counted by slot.
///
/// # Errors
///
/// ENOENT if it is remembered that there is none.
pub(crate) fn resolve_remembered(
    share: &Arc<Share>,
    path: &Path,
    last_link: LastLink,
) -> Result<Option<Node>> {
    let Ok(parts) = share.parts() else { return Ok(None) };
    let path = path.as_os_str().as_bytes();
    if path.len() > MAX_PATH_BYTES || asks_for_directory(path) {
        return Ok(None);
    }
    let (reader, who) = (parts.dentries.reader(), share.who());
    let mut at = share.superblock.root_inode;
    let mut last: Option<&Dentry> = None;
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        let may_search =
            |entry: &Arc<CachedInode>| entry.is_directory() && grants_search(who, entry);
        if !parts.inode_cache.peek(at, may_search).unwrap_or(false) {
            return Ok(None);
        }
        let Some(meaning) = reader.find(at, name) else { return Ok(None) };
        // What stood under this number was the directory that the path had led to.
        if last.is_some_and(Dentry::is_dead) {
            return Ok(None);
        }
        let Some(inode) = meaning.inode() else { return Err(PosixError::NotFound.into()) };
        (at, last) = (inode, Some(meaning));
    }
    let Some(last) = last else { return Ok(None) };
    let user = parts.inode_cache.peek(at, |entry| share.user_of(entry)).flatten();
    Ok(user.filter(|_| !last.is_dead()).and_then(|user| {
        let is_followed =
            last_link == LastLink::Follow && user.entry().file_type() == FileType::Symlink;
        (!is_followed).then(|| Node::live(user))
    }))
}

/// Whether a directory is known to let somebody search it. Nothing is written for that; who is not let
/// in here, or meets a list, is told by who looks under the latch.
fn grants_search(who: Who<'_>, directory: &CachedInode) -> bool {
    let Some(me) = who.somebody() else { return true };
    directory.rights().is_some_and(|rights| me.grants_without_list(rights, Access::EXECUTE))
}

fn step(directory: &Node, name: &OsStr) -> Result<Node> {
    if directory.file_type() != FileType::Directory {
        return Err(PosixError::NotDirectory.into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(PosixError::NameTooLong.into());
    }
    if name.as_bytes() == b".." {
        return directory.parent();
    }
    directory.lookup(name).map_err(|error| directory.explain_missing(name, error))
}
