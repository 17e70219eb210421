//! Tests of access control lists. The same steps on a volume that the kernel mounts and on one that
//! ferroxfs opens must give the same errors, permission bits and lists. The kernel must be able to
//! read the lists that ferroxfs writes.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use ferroxfs::attr::SetMode;
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::raw::format::acl::encode_posix_xattr;
use ferroxfs::{CreateOptions, NewKind, OpenOptions, SetAttributes, Volume};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use rustix::io::Errno;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{Geometry, ready};

use crate::failed;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

enum Step {
    Directory(&'static str, u16),
    File(&'static str, u16),
    Fifo(&'static str, u16),
    Symlink(&'static str),
    Set(&'static str, &'static str, Vec<u8>),
    Remove(&'static str, &'static str),
    ChangeMode(&'static str, u16),
}

/// Returns an access control list in the format of `system.posix_acl_access`. The permissions are
/// those of owner, user 1000, group, group 2000, mask and others. The list also names `more` other
/// users.
fn list(permissions: [u16; 6], more: u32) -> Vec<u8> {
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let [owner, user, group, other_group, mask, other] = permissions;
    let mut entries = vec![entry(AclTag::Owner, owner), entry(AclTag::User(1000), user)];
    entries.extend((0..more).map(|number| entry(AclTag::User(5000 + number), 5)));
    entries.extend([
        entry(AclTag::OwningGroup, group),
        entry(AclTag::Group(2000), other_group),
        entry(AclTag::Mask, mask),
        entry(AclTag::Other, other),
    ]);
    encode_posix_xattr(&entries)
}

fn plain(mode: u16) -> Vec<u8> {
    encode_posix_xattr(ferroxfs::attr::Acl::from_mode(mode).entries())
}

fn steps() -> Vec<Step> {
    use Step::{ChangeMode, Directory, Fifo, File, Remove, Set, Symlink};
    let mut steps = vec![
        Directory("d", 0o755),
        File("f", 0o644),
        // Without a default list the umask applies.
        File("masked", 0o666),
        Set("f", ACCESS, list([7, 6, 5, 4, 3, 1], 0)),
        ChangeMode("f", 0o4640),
        ChangeMode("f", 0o070),
        // A list that equals the bits is not stored.
        Set("f", ACCESS, plain(0o751)),
        Set("f", ACCESS, list([6, 4, 4, 4, 7, 0], 0)),
        Remove("f", ACCESS),
        Remove("f", ACCESS),
        Set("f", DEFAULT, plain(0o700)),
        Set("f", DEFAULT, Vec::new()),
        Symlink("l"),
        Set("l", ACCESS, plain(0o700)),
        // Values that are no lists.
        Set("f", ACCESS, vec![2, 0, 0, 0]),
        Set("f", ACCESS, vec![2, 0, 0]),
        Set("f", ACCESS, vec![3, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]),
        Set("f", ACCESS, list([7; 6], 0).into_iter().take(28).collect()),
        Set("d", DEFAULT, list([7, 7, 5, 1, 6, 5], 0)),
        Set("d", ACCESS, list([7, 7, 5, 1, 5, 5], 0)),
        ChangeMode("d", 0o2770),
        File("d/file", 0o666),
        Fifo("d/pipe", 0o600),
        Directory("d/sub", 0o1777),
        Directory("d/sub/sub", 0o700),
        Symlink("d/link"),
        File("d/sub/sub/file", 0o755),
        ChangeMode("d/sub/sub/file", 0o711),
        Set("d/sub", DEFAULT, plain(0o750)),
        File("d/sub/plain", 0o777),
        Directory("d/sub/plain-too", 0o777),
        Remove("d/sub", DEFAULT),
        File("d/sub/none", 0o777),
    ];
    // Lists in a leaf, and in remote blocks.
    for (directory, more) in [("leaf", 30), ("block", 300), ("blocks", 5400)] {
        steps.push(Directory(directory, 0o777));
        steps.push(Set(directory, DEFAULT, list([7, 7, 5, 1, 6, 5], more)));
        steps.push(Set(directory, ACCESS, list([7, 7, 5, 1, 6, 5], more)));
        steps.push(ChangeMode(directory, 0o705));
    }
    steps.extend([File("leaf/f", 0o666), File("block/f", 0o640), File("blocks/f", 0o604)]);
    steps.extend([
        Directory("leaf/d", 0o777),
        Directory("block/d", 0o77),
        Directory("blocks/d", 0),
    ]);
    steps.extend([
        Set("blocks/f", ACCESS, list([7; 6], 5600)),
        Set("blocks/f", ACCESS, plain(0o640)),
    ]);
    steps.extend([
        ChangeMode("blocks/d", 0o750),
        Remove("blocks/d", ACCESS),
        Remove("blocks", DEFAULT),
    ]);
    steps
}

/// Returns the umask of this process, which the kernel applies to the steps on its volume.
pub(crate) fn umask() -> Result<u16, TrialError> {
    let status = fs::read_to_string("/proc/self/status").map_err(failed)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u16::from_str_radix(text.trim(), 8).ok()).ok_or_else(|| failed("no umask"))
}

/// Returns the errno of a result, or 0 if it is no error.
fn answer(result: io::Result<()>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

fn on_kernel(root: &Path, step: &Step) -> i32 {
    let make = |path: &str, kind, mode: u16| {
        mknodat(CWD, root.join(path), kind, Mode::from_raw_mode(mode.into()), 0)
    };
    let done: Result<(), Errno> = match step {
        Step::Directory(path, mode) => {
            rustix::fs::mkdir(root.join(path), Mode::from_raw_mode((*mode).into()))
        }
        Step::File(path, mode) => make(path, FileType::RegularFile, *mode),
        Step::Fifo(path, mode) => make(path, FileType::Fifo, *mode),
        Step::Symlink(path) => rustix::fs::symlink("nowhere", root.join(path)),
        Step::Set(path, kind, value) => {
            rustix::fs::lsetxattr(root.join(path), *kind, value, XattrFlags::empty())
        }
        Step::Remove(path, kind) => rustix::fs::lremovexattr(root.join(path), *kind),
        Step::ChangeMode(path, mode) => {
            let permissions = fs::Permissions::from_mode((*mode).into());
            return answer(fs::set_permissions(root.join(path), permissions));
        }
    };
    answer(done.map_err(io::Error::from))
}

fn on_ours(volume: &Volume, umask: u16, step: &Step) -> i32 {
    let make = |path: &str, kind: &NewKind<'_>, mode| {
        let creation = CreateOptions::new(mode).umask(umask);
        volume.create_node(path, kind, &creation).map(drop)
    };
    let done = match step {
        Step::Directory(path, mode) => make(path, &NewKind::Directory, *mode),
        Step::File(path, mode) => make(path, &NewKind::Regular, *mode),
        Step::Fifo(path, mode) => make(path, &NewKind::Fifo, *mode),
        Step::Symlink(path) => make(path, &NewKind::Symlink(b"nowhere"), 0o777),
        Step::Set(path, kind, value) => volume
            .lookup_no_follow(path)
            .and_then(|node| node.set_attribute(*kind, value, SetMode::Either)),
        Step::Remove(path, kind) => {
            volume.lookup_no_follow(path).and_then(|node| node.remove_attribute(*kind))
        }
        Step::ChangeMode(path, mode) => volume
            .lookup(path)
            .and_then(|node| node.set_attributes(&SetAttributes::new().mode(*mode))),
    };
    done.map_or_else(|error| error.errno(), |()| 0)
}

/// Adds to `lines` one line for every file below the directory `below`: path, mode, access list and
/// default list.
fn facts(root: &Path, below: &Path, lines: &mut Vec<String>) -> io::Result<()> {
    let mut names = fs::read_dir(root.join(below))?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.by_ref().collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let path = below.join(name);
        let full = root.join(&path);
        let metadata = fs::symlink_metadata(&full)?;
        let mut value = vec![0; 1 << 16];
        let lists = [ACCESS, DEFAULT].map(|list| {
            let length = rustix::fs::lgetxattr(&full, list, &mut value)?;
            Ok::<_, Errno>(value.iter().take(length).copied().collect::<Vec<_>>())
        });
        lines.push(format!("{} {:o} {lists:?}", path.display(), metadata.mode()));
        if metadata.is_dir() {
            facts(root, &path, lines)?;
        }
    }
    Ok(())
}

fn facts_of(root: &Path) -> Result<Vec<String>, TrialError> {
    let mut lines = Vec::new();
    facts(root, Path::new(""), &mut lines).map_err(failed)?;
    Ok(lines)
}

pub(crate) fn check(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let theirs = geometry.make(folder.path())?;
    let copies = folder.path().join("ours");
    fs::create_dir(&copies).map_err(failed)?;
    let ours = theirs.copy(&copies)?;
    let (steps, umask) = (steps(), umask()?);
    let mount = theirs.mount(&[])?;
    let expected: Vec<i32> = steps.iter().map(|step| on_kernel(mount.path(), step)).collect();
    let expected_facts = facts_of(mount.path())?;
    mount.unmount()?;
    let volume = patiently(|| OpenOptions::new().write(true).open(&ours.data)).map_err(failed)?;
    for (index, (step, expected)) in steps.iter().zip(expected).enumerate() {
        let found = on_ours(&volume, umask, step);
        if found != expected {
            return Err(failed(format!("step {index} gives {found}, in the kernel {expected}")));
        }
    }
    volume.close().map_err(failed)?;
    if let Some(findings) = ours.findings()? {
        return Err(failed(findings));
    }
    let mount = ours.mount(&[])?;
    let found = facts_of(mount.path())?;
    mount.unmount()?;
    for (found, expected) in found.iter().zip(&expected_facts) {
        if found != expected {
            return Err(failed(format!("ours:   {found}\nkernel: {expected}")));
        }
    }
    if found.len() == expected_facts.len() { Ok(()) } else { Err(failed("another tree")) }
}
