//! Overlayfs: finds the file in a layer that contains the bytes of a merged file.
//!
//! A lock on the merged file does not lock the file in the layer, so both files are locked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::usage::unescape;

/// Type of an overlayfs filesystem in statfs(2): `OVERLAYFS_SUPER_MAGIC`.
const OVERLAYFS: u64 = 0x794c_7630;

/// Returns the path of the layer's file whose bytes an open file of overlayfs shows. Returns `None`
/// for files of other filesystems, and if the layer cannot be found from this process.
pub(super) fn file_below(file: &File) -> Option<PathBuf> {
    let facts = rustix::fs::fstatfs(file).ok()?;
    if u64::try_from(facts.f_type).ok()? & 0xffff_ffff != OVERLAYFS {
        return None;
    }
    let number = file.as_raw_fd();
    let path = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let mount = facts.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_owned();
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mut lines = mounts.split(|byte| *byte == b'\n');
    let layers = lines.find_map(|line| Layers::parse(line, mount.as_bytes()))?;
    layers.find(&path, file.metadata().ok()?.len())
}

/// The directories that a mount of overlayfs merges, the uppermost first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// The directory of the overlay that the mount shows as its root.
    root: PathBuf,
    mount_point: PathBuf,
    directories: Vec<PathBuf>,
}

impl Layers {
    /// Parses a line of mountinfo. Returns `None` unless the line belongs to the mount with the ID
    /// `mount`.
    pub(super) fn parse(line: &[u8], mount: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        if words.next()? != mount {
            return None;
        }
        let path = |word: &[u8]| PathBuf::from(OsStr::from_bytes(&unescape(word)));
        let root = path(words.nth(2)?);
        let mount_point = path(words.next()?);
        let options = words.skip_while(|word| *word != b"-").nth(3)?;
        let options = unescape(options);
        let (mut upper, mut lower) = (Vec::new(), Vec::new());
        for option in split_unescaped(&options, b',') {
            if let Some(path) = option.strip_prefix(b"upperdir=") {
                upper.push(plain(path));
            } else if let Some(path) = option.strip_prefix(b"lowerdir+=") {
                lower.push(plain(path));
            } else if let Some(paths) = option.strip_prefix(b"lowerdir=") {
                let paths = split_unescaped(paths, b':').into_iter();
                lower.extend(paths.filter(|path| !path.is_empty()).map(plain));
            }
        }
        upper.append(&mut lower);
        Some(Self { root, mount_point, directories: upper })
    }

    /// Looks for the file `path` in the layers, the uppermost first. Returns the path of the file
    /// in the first layer that has the name. Returns `None` if no layer has it, or if it is not a
    /// regular file of `length` bytes there.
    fn find(&self, path: &Path, length: u64) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.mount_point).ok()?;
        let root = self.root.strip_prefix("/").unwrap_or(&self.root);
        let candidates = self.directories.iter().map(|layer| layer.join(root).join(below));
        let mut there =
            candidates.filter_map(|path| Some((fs::symlink_metadata(&path).ok()?, path)));
        let (found, path) = there.next()?;
        (found.is_file() && found.len() == length).then_some(path)
    }
}

/// Splits text at each `separator` that does not follow a backslash.
fn split_unescaped(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut is_escaped = false;
    text.split(|&byte| {
        let splits = byte == separator && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        splits
    })
    .collect()
}

fn plain(path: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut is_escaped = false;
    for &byte in path {
        is_escaped = byte == b'\\' && !is_escaped;
        if !is_escaped {
            bytes.push(byte);
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Layers;

    #[test]
    fn layers_of_a_mount_are_read_upper_first() {
        let line = b"41 22 0:33 /a /mnt/m rw - overlay ovl rw,lowerdir=/l1:/l\\134:2,upperdir=/u,workdir=/w";
        let layers = Layers::parse(line, b"41").unwrap();
        let expected = ["/u", "/l1", "/l:2"].map(PathBuf::from).to_vec();
        assert_eq!(layers.directories, expected);
        assert_eq!(layers.root, PathBuf::from("/a"));
        assert_eq!(layers.mount_point, PathBuf::from("/mnt/m"));
        assert_eq!(Layers::parse(line, b"4"), None);
    }

    #[test]
    fn layers_in_separate_options_are_read_in_order() {
        let line = b"41 22 0:33 / /m rw shared:1 - overlay o ro,lowerdir+=/a,lowerdir+=/b";
        let expected = ["/a", "/b"].map(PathBuf::from).to_vec();
        assert_eq!(Layers::parse(line, b"41").unwrap().directories, expected);
    }
}
