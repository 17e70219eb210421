//! The kernel's operation counters compared with those of the library.
//!
//! After each single operation, the test compares the names added and removed and the attributes
//! set and removed. On a freshly mounted volume, it compares the names looked up and the attributes
//! read and listed.
//!
//! Some counters are not compared, because they cannot agree:
//!
//! - lookups by operations that change names (the kernel looks a name up before it creates one, and
//!   the library discovers it during the creation)
//! - listings (the kernel counts calls of getdents, the library counts pieces of a directory)
//! - repeated lookups (the library caches names that were looked up twice)
//! - implicit reads of attributes (the kernel reads access control lists)
//! - counters of the implementation: transactions, extents, log and buffers.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferroxfs::stats::VolumeStats;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::model::{Operation, RenameMode, SetMode};
use xfs_oracle::{Kernel, Mount, Subject, ready_with_programs};

use crate::library::Library;
use crate::{Volume, text};

/// Names that are looked up on a freshly mounted volume. The first one has attributes. The last two
/// do not exist.
const LOOKUPS: [&str; 7] = ["kept", "exchanged", "folder", "whiteout", "link", "gone", "never"];

pub(crate) fn check(volume: &Volume, _: usize) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, _) = volume.make(folder.path())?;
    let mine = folder.path().join("library");
    std::fs::create_dir(&mine).map_err(text)?;
    let copy = image.copy(&mine)?;

    let open =
        || patiently(|| ferroxfs::OpenOptions::new().write(true).open(&copy.data)).map_err(text);
    let mount = image.mount(&["noatime"])?;
    let stat = statistics_file(&mount)?;
    let (mut kernel, opened) = (Kernel::new(mount.path()), open()?);
    let mut library = Library::new(opened.clone());
    for operation in &operations() {
        let (theirs, ours) =
            (changes_of_kernel(&stat)?, changes(&opened.statistics().map_err(text)?));
        let answers = (kernel.perform(operation).is_ok(), library.perform(operation).is_ok());
        let theirs = difference(changes_of_kernel(&stat)?, theirs);
        let ours = difference(changes(&opened.statistics().map_err(text)?), ours);
        if theirs != ours || !answers.0 || !answers.1 {
            return Err(volume.failed(format!(
                "{operation:?}: {answers:?}; added, removed, set, removed by the kernel {theirs:?}, \
                 by the library {ours:?}"
            )));
        }
    }
    drop((kernel, opened));
    mount.unmount()?;
    library.close().map_err(text)?;

    let mount = image.mount(&["noatime"])?;
    let (stat, opened) = (statistics_file(&mount)?, open()?);
    let was = reads_of_kernel(&stat)?;
    read_of_kernel(mount.path());
    let theirs = difference(reads_of_kernel(&stat)?, was);
    let was = reads(&opened.statistics().map_err(text)?);
    read(&opened).map_err(text)?;
    let ours = difference(reads(&opened.statistics().map_err(text)?), was);
    mount.unmount()?;
    opened.close().map_err(text)?;
    if theirs == ours && ours == [LOOKUPS.len() as u64, 2, 1] {
        return Ok(());
    }
    Err(volume.failed(format!(
        "looked up, read, listed: by the kernel {theirs:?}, by the library {ours:?}"
    )))
}

fn operations() -> Vec<Operation> {
    let path = str::to_owned;
    let create = |name: &str| Operation::Create { path: path(name), mode: 0o600 };
    let rename =
        |from: &str, to: &str, mode| Operation::Rename { from: path(from), to: path(to), mode };
    let attribute = |name: &str, length, mode| {
        let (path, name) = (path("kept"), path(name));
        Operation::SetAttribute { path, name, length, number: 1, mode }
    };
    let remove = |name: &str| Operation::RemoveAttribute { path: path("kept"), name: path(name) };
    vec![
        create("one"),
        create("two"),
        Operation::MakeDirectory { path: path("folder"), mode: 0o700 },
        Operation::MakeDirectory { path: path("folder/inner"), mode: 0o700 },
        Operation::MakeNode { path: path("pipe"), mode: 0o010_600, device: (0, 0) },
        Operation::Symlink { target: b"one".to_vec(), path: path("link") },
        Operation::Link { from: path("one"), to: path("folder/other") },
        rename("one", "two", RenameMode::Exchange),
        rename("two", "kept", RenameMode::Replace),
        rename("one", "folder/other", RenameMode::Replace),
        rename("folder/inner", "inner", RenameMode::NoReplace),
        rename("pipe", "folder", RenameMode::Exchange),
        rename("pipe", "folder", RenameMode::Exchange),
        create("gone"),
        create("exchanged"),
        rename("gone", "exchanged", RenameMode::Replace),
        create("whiteout"),
        rename("whiteout", "moved", RenameMode::Whiteout),
        rename("kept", "folder/other", RenameMode::Exchange),
        Operation::Unlink { path: path("moved") },
        Operation::RemoveDirectory { path: path("inner") },
        Operation::MakeTemporary { slot: 0, folder: path("folder"), mode: 0o600 },
        Operation::LinkSlot { slot: 0, path: path("named") },
        Operation::Close { slot: 0 },
        Operation::Unlink { path: path("named") },
        attribute("user.short", 4, SetMode::Create),
        attribute("user.short", 8, SetMode::Replace),
        attribute("user.long", 9000, SetMode::Either),
        attribute("user.brief", 1, SetMode::Either),
        remove("user.long"),
        remove("user.brief"),
    ]
}

/// Returns the counts of names added and removed, and of attributes set and removed.
fn changes(statistics: &VolumeStats) -> [u64; 4] {
    let (names, attributes) = (statistics.directories, statistics.attributes);
    [names.added, names.removed, attributes.set, attributes.removed]
}

fn changes_of_kernel(stat: &Path) -> Result<[u64; 4], TrialError> {
    let lines = lines_of_kernel(stat)?;
    Ok([("dir", 1), ("dir", 2), ("attr", 1), ("attr", 2)].map(|place| number(&lines, place)))
}

/// Returns the counts of names looked up, attributes read, and attribute listings.
fn reads(statistics: &VolumeStats) -> [u64; 3] {
    let attributes = statistics.attributes;
    [statistics.directories.lookups, attributes.reads, attributes.listings]
}

fn reads_of_kernel(stat: &Path) -> Result<[u64; 3], TrialError> {
    let lines = lines_of_kernel(stat)?;
    Ok([("dir", 0), ("attr", 0), ("attr", 3)].map(|place| number(&lines, place)))
}

fn read_of_kernel(root: &Path) {
    for name in LOOKUPS {
        let _ = root.join(name).symlink_metadata();
    }
    let (file, mut buffer) = (root.join("kept"), [0; 256]);
    let _ = rustix::fs::lgetxattr(&file, "user.short", &mut buffer);
    let _ = rustix::fs::lgetxattr(&file, "user.never", &mut buffer);
    let _ = rustix::fs::llistxattr(&file, &mut buffer);
}

fn read(volume: &ferroxfs::Volume) -> ferroxfs::Result<()> {
    let [file, ..] = LOOKUPS.map(|name| volume.lookup_no_follow(name));
    let file = file?;
    let _ = (file.attribute(OsStr::new("user.short")), file.attribute(OsStr::new("user.never")));
    let _ = file.attributes();
    Ok(())
}

fn difference<const N: usize>(now: [u64; N], was: [u64; N]) -> [u64; N] {
    std::array::from_fn(|index| {
        let of = |counts: &[u64; N]| counts.get(index).copied().unwrap_or_default();
        of(&now).wrapping_sub(of(&was))
    })
}

/// Returns the path of the file with the kernel's statistics of this mount only.
fn statistics_file(mount: &Mount) -> Result<PathBuf, TrialError> {
    let device = mount.path().metadata().map_err(text)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).map_err(text)?;
    let name = link.file_name().unwrap_or_default();
    Ok(Path::new("/sys/fs/xfs").join(name).join("stats/stats"))
}

fn lines_of_kernel(stat: &Path) -> Result<BTreeMap<String, Vec<u64>>, TrialError> {
    let told = std::fs::read_to_string(stat).map_err(text)?;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    };
    Ok(told.lines().filter_map(line).collect())
}

fn number(lines: &BTreeMap<String, Vec<u64>>, (line, index): (&str, usize)) -> u64 {
    lines.get(line).and_then(|numbers| numbers.get(index)).copied().unwrap_or_default()
}
