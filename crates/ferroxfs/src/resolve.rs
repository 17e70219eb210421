//! Resolution of a path inside the volume to an inode.
//!
//! The rules are those of path_resolution(7), for a process whose root is the root of the volume:
//! an absolute symbolic link starts there, and `..` in the root is the root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_icache::Dentry;
use xfs_vfs::{Access, CachedInode, Caller, grants_without_list};

use crate::node::Node;
use crate::volume_ref::VolumeRef;
use crate::{FileType, Result};

/// The most symbolic links that one resolution follows, as on Linux.
pub(crate) const MAX_LINKS: usize = 40;
/// The longest path in bytes, as PATH_MAX.
const MAX_PATH_BYTES: usize = 4096;
/// The longest name in a directory, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// How a symbolic link in the last component of a path is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// A symbolic link in the last component is followed.
    Follow,
    /// A symbolic link in the last component is itself the result.
    Keep,
}

/// Returns the inode to which `path` leads from `root`.
pub(crate) fn resolve(root: &Node, path: &Path, last: LastLink) -> Result<Node> {
    resolve_from(root, root, path, last)
}

/// Returns the inode to which `path` leads, as [`resolve`] does. A path that does not begin with a
/// slash starts in `directory`, which is below `root`.
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
    // The remaining components, the next one last.
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

/// Returns whether the form of a path requires a directory at its end. A symbolic link at the end
/// of such a path is followed.
pub(crate) fn asks_for_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Returns the names in a path in reverse order, the last one first. A component `.` is kept only
/// at the end of the path, where it needs search permission.
fn components(path: &OsStr) -> Vec<OsString> {
    let path = path.as_bytes();
    let ends_here = path == b"." || path.ends_with(b"/.");
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let names = names.chain(ends_here.then_some(b".".as_slice()));
    let mut names: Vec<_> = names.map(|name| OsStr::from_bytes(name).to_owned()).collect();
    names.reverse();
    names
}

/// Returns the inode to which a path leads from the root, without taking a lock. `None` unless the
/// dentry cache has all names of the path and no symbolic link is followed. If the references to
/// the inode are counted by processor slot, the function writes no memory that threads on other
/// processors read.
///
/// # Errors
///
/// ENOENT if the dentry cache knows that a name does not exist.
pub(crate) fn resolve_remembered(
    volume: &Arc<VolumeRef>,
    path: &Path,
    last_link: LastLink,
) -> Result<Option<Node>> {
    let Ok(mount) = volume.mount() else { return Ok(None) };
    let path = path.as_os_str().as_bytes();
    if path.len() > MAX_PATH_BYTES || asks_for_directory(path) {
        return Ok(None);
    }
    let (reader, caller) = (mount.dentries.reader(), volume.caller());
    let mut at = volume.superblock().root_inode;
    let mut last: Option<&Dentry> = None;
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        let may_search =
            |entry: &Arc<CachedInode>| entry.is_directory() && grants_search(caller, entry);
        if !mount.inode_cache.peek(at, may_search).unwrap_or(false) {
            return Ok(None);
        }
        let Some(meaning) = reader.find(at, name) else { return Ok(None) };
        // The number that was looked at was the directory that the path led to.
        if last.is_some_and(Dentry::is_dead) {
            return Ok(None);
        }
        let Some(inode) = meaning.inode() else { return Err(PosixError::NotFound.into()) };
        (at, last) = (inode, Some(meaning));
    }
    let Some(last) = last else { return Ok(None) };
    let inode_ref = mount.inode_cache.peek(at, |entry| volume.inode_ref(entry)).flatten();
    Ok(inode_ref.filter(|_| !last.is_dead()).and_then(|inode_ref| {
        let is_followed =
            last_link == LastLink::Follow && inode_ref.inode().file_type() == FileType::Symlink;
        (!is_followed).then(|| Node::live(inode_ref))
    }))
}

/// Returns whether the cached rights of a directory let the caller search it. The function writes
/// no memory. `false`: the rights are not cached or deny the search, and the caller of the function
/// must check the directory under its latch.
fn grants_search(caller: Caller<'_>, directory: &CachedInode) -> bool {
    let Some(me) = caller.credentials() else { return true };
    directory.rights().is_some_and(|rights| grants_without_list(me, rights, Access::EXECUTE))
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
