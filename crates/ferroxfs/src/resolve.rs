//! From a path inside the volume to an inode.
//!
//! The rules are those of path_resolution(7), seen from a process whose root is the volume's root:
//! an absolute link starts again there, and `..` in the root is the root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfs_buffer::PosixError;

use crate::node::Node;
use crate::{FileType, Result};

/// Links that one resolution may follow, as on Linux.
const MAX_LINKS: usize = 40;
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
    let path = path.as_os_str();
    if path.len() > MAX_PATH_BYTES {
        return Err(PosixError::NameTooLong.into());
    }
    let mut current = root.clone();
    let mut links = 0;
    // Components still to take, the next one last.
    let mut pending = components(path);
    // A slash at the end asks for a directory, so the last link is followed.
    let last = if path.as_bytes().ends_with(b"/") { LastLink::Follow } else { last };
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
    if path.as_bytes().ends_with(b"/") && current.file_type() != FileType::Directory {
        return Err(PosixError::NotDirectory.into());
    }
    Ok(current)
}

/// The names in a path, the first one last.
fn components(path: &OsStr) -> Vec<OsString> {
    let names = path.as_bytes().split(|byte| *byte == b'/');
    let mut names: Vec<_> = names
        .filter(|name| !name.is_empty() && *name != b".")
        .map(|name| OsStr::from_bytes(name).to_owned())
        .collect();
    names.reverse();
    names
}

fn step(directory: &Node, name: &OsStr) -> Result<Node> {
    if directory.file_type() != FileType::Directory {
        return Err(PosixError::NotDirectory.into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(PosixError::NameTooLong.into());
    }
    if name.as_bytes() == b".." { directory.parent() } else { directory.lookup(name) }
}
