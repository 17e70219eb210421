//! The kernel as a judge of repaired volumes.
//!
//! Only a volume that our checker and `xfs_repair -n` find clean is mounted: the kernel of the host
//! must never see a damaged one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xfs_oracle::Mount;
use xfs_oracle::harness::TrialError;

use crate::text;
use crate::tree::{Names, TYPE_BITS};

/// The most differences that are listed.
const MOST_LINES: usize = 6;
/// The name of the file that is made and removed. The undamaged volume has no such file.
const PROBE: &str = "made-after-the-repair";

/// Mounts a clean volume read-only, and then for writing. Each time, all names, types and inode
/// numbers are compared with `names`, which our reader has found. The second mount makes a file and
/// removes it. Returns descriptions of all differences.
pub(crate) fn complaints(image: &Path, names: &Names) -> Result<Vec<String>, TrialError> {
    let mut complaints = Vec::new();
    for options in [&["ro"][..], &[]] {
        let mount = match Mount::new(image, None, options) {
            Ok(mount) => mount,
            Err(error) => {
                complaints.push(format!("the mount with {options:?} fails: {error}"));
                return Ok(complaints);
            }
        };
        match listed(mount.path()) {
            Ok(found) => complaints.extend(differences(names, &found)),
            Err(error) => complaints.push(format!("a name cannot be read: {error}")),
        }
        if options.is_empty()
            && let Err(error) = write_and_remove(mount.path())
        {
            complaints.push(format!("a new file cannot be written: {error}"));
        }
        mount.unmount().map_err(text)?;
    }
    Ok(complaints)
}

fn write_and_remove(root: &Path) -> std::io::Result<()> {
    let probe = root.join(PROBE);
    fs::write(&probe, vec![b'x'; 100_000])?;
    fs::File::open(&probe)?.sync_all()?;
    fs::remove_file(&probe)
}

/// The inode number of a file, and the bits of its mode with the type.
type NumberAndType = (u64, u16);

/// Returns all names below a directory with their files, as paths from `/`.
fn listed(root: &Path) -> std::io::Result<BTreeMap<PathBuf, NumberAndType>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let below = path.strip_prefix(root).expect("the path begins with the root");
            let file_type = metadata.mode() as u16 & TYPE_BITS;
            found.insert(Path::new("/").join(below), (metadata.ino(), file_type));
            if metadata.is_dir() {
                directories.push(path);
            }
        }
    }
    Ok(found)
}

fn differences(names: &Names, found: &BTreeMap<PathBuf, NumberAndType>) -> Vec<String> {
    let ours: BTreeMap<&Path, NumberAndType> = names
        .files()
        .filter(|(path, _)| path.parent().is_some())
        .map(|(path, file)| (path.as_path(), (file.number(), file.type_bits())))
        .collect();
    let theirs: BTreeMap<&Path, NumberAndType> =
        found.iter().map(|(path, file)| (path.as_path(), *file)).collect();
    let of_ours = ours.iter().filter(|(path, file)| theirs.get(*path) != Some(file));
    let of_theirs = theirs.iter().filter(|(path, file)| ours.get(*path) != Some(file));
    of_ours
        .map(|(path, (number, file_type))| {
            format!("the kernel does not have {} {number} {file_type:o}", path.display())
        })
        .chain(of_theirs.map(|(path, (number, file_type))| {
            format!("only the kernel has {} of inode {number} {file_type:o}", path.display())
        }))
        .take(MOST_LINES)
        .collect()
}
