//! Makes the files of the test cases, and performs the operations on them, by calls of the library.

use std::ffi::OsStr;
use std::path::Path;

use ferroxfs::DeviceNumber;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::SetMode;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::watch::{Scope, WatchEvents};
use ferroxfs::{
    Access, CreateOptions, NewKind, Node, PosixError, Result, SetAttributes, Timestamp, Volume,
};

use super::operation::{CAPABLE, Made, Operation};
use super::scene::{Found, Guard, Kind, Scene};

const CONTENTS: [u8; 4096] = [7; 4096];

fn creation(mode: u16, umask: u16) -> CreateOptions {
    CreateOptions::new(mode).umask(umask)
}

/// Makes the files of a scene, as root.
pub(super) fn build(volume: &Volume, folder: &Path, scene: &Scene) -> Result<()> {
    volume.create_node(folder, &NewKind::Directory, &creation(0o755, 0))?;
    scene.0.iter().try_for_each(|found| make(volume, &folder.join(found.path), found))?;
    scene.0.iter().try_for_each(|found| guard(volume, &folder.join(found.path), found))
}

fn make(volume: &Volume, path: &Path, found: &Found) -> Result<()> {
    let (kind, mode) = match found.kind {
        Kind::Regular => (NewKind::Regular, 0),
        Kind::Directory => (NewKind::Directory, 0),
        Kind::Fifo => (NewKind::Fifo, 0),
        Kind::Symlink => (NewKind::Symlink(b"../e/g"), 0o777),
    };
    let node = volume.create_node(path, &kind, &creation(mode, 0))?;
    if found.kind == Kind::Regular {
        node.open()?.write_at(&CONTENTS, 0)?;
    }
    let (uid, gid) = (Some(found.uid), Some(found.gid));
    let mut changes = SetAttributes::new();
    changes.uid = uid;
    changes.gid = gid;
    node.set_attributes(&changes)?;
    node.set_attributes(&SetAttributes::new().mode(found.mode))?;
    let set = |name: &str, value: &[u8]| node.set_attribute(name, value, SetMode::Either);
    if matches!(found.kind, Kind::Regular | Kind::Directory) {
        set("user.a", b"user")?;
    }
    set("trusted.a", b"trusted")?;
    set("security.a", b"security")?;
    if found.is_capable { set("security.capability", &CAPABLE) } else { Ok(()) }
}

fn guard(volume: &Volume, path: &Path, found: &Found) -> Result<()> {
    let node = volume.lookup_no_follow(path)?;
    for (name, list) in [("access", &found.access), ("default", &found.default)] {
        let Some(list) = list else { continue };
        node.set_attribute(format!("system.posix_acl_{name}"), list, SetMode::Either)?;
    }
    let flags = match found.guard {
        Guard::None => return Ok(()),
        Guard::Immutable => ExtendedFlags::IMMUTABLE,
        Guard::Append => ExtendedFlags::APPEND,
    };
    node.set_attributes(&SetAttributes::new().xflags(node.metadata().xflags ^ flags))
}

/// Performs one operation as the user of the volume.
pub(super) fn perform(
    volume: &Volume,
    folder: &Path,
    operation: &Operation,
    umask: u16,
) -> Result<String> {
    let file = folder.join("d/f");
    match operation {
        Operation::Find(path) => {
            let found = volume.symlink_metadata(folder.join(path))?;
            Ok(format!("{:o}", found.mode))
        }
        Operation::List => list(volume, &folder.join("d")),
        Operation::Access(wanted) => {
            volume.access(file, Access::from_bits_truncate(*wanted)).map(|()| String::new())
        }
        Operation::ReadLink => {
            let target = volume.read_link(file)?.into_encoded_bytes();
            let target = std::ffi::CString::new(target).map_err(|_| PosixError::InvalidArgument)?;
            Ok(format!("{target:?}"))
        }
        Operation::ReadAttribute(name) => {
            let value = volume.lookup_no_follow(file)?.attribute(OsStr::new(name))?;
            Ok(format!("{value:?}"))
        }
        Operation::ListAttributes => attributes(&volume.lookup_no_follow(file)?),
        Operation::Make(made, mode) => {
            let kind = match made {
                Made::Regular => NewKind::Regular,
                Made::Directory => NewKind::Directory,
                Made::Fifo => NewKind::Fifo,
                Made::Symlink => NewKind::Symlink(b"nowhere"),
                Made::Device(major, minor) => {
                    NewKind::CharacterDevice(DeviceNumber { major: *major, minor: *minor })
                }
            };
            let mode = if *made == Made::Symlink { 0o777 } else { *mode };
            let made = volume.create_node(folder.join("d/n"), &kind, &creation(mode, umask));
            made.map(|_| String::new())
        }
        Operation::Temporary(mode) => {
            let made = volume.lookup(folder.join("d"))?.create_unnamed(&creation(*mode, umask))?;
            volume.lookup(folder.join("e"))?.link(&made, "h").map(|()| String::new())
        }
        other => change(volume, folder, &file, other).map(|()| String::new()),
    }
}

fn list(volume: &Volume, directory: &Path) -> Result<String> {
    let names = volume.read_dir(directory)?;
    let names = names.map(|entry| Ok(entry?.name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(format!("{names:?}"))
}

fn attributes(node: &Node) -> Result<String> {
    let names = node.attributes().into_iter();
    let names = names.map(|attribute| Ok(attribute?.name.to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(format!("{names:?}"))
}

fn change(volume: &Volume, folder: &Path, file: &Path, operation: &Operation) -> Result<()> {
    let node = || volume.lookup_no_follow(file);
    match operation {
        Operation::SetAttribute(name, value) => node()?.set_attribute(name, value, SetMode::Either),
        Operation::RemoveAttribute(name) => node()?.remove_attribute(name),
        Operation::ChangeMode(mode) => {
            let changes = SetAttributes::new().mode(*mode);
            volume.lookup(file)?.set_attributes(&changes)
        }
        Operation::ChangeOwner(uid, gid) => node()?.set_attributes(&{
            let mut changes = SetAttributes::new();
            changes.uid = *uid;
            changes.gid = *gid;
            changes
        }),
        Operation::Touch => node()?.touch(),
        Operation::SetTimes => {
            let time = Timestamp::new(5, 5);
            node()?.set_attributes(&{
                let mut changes = SetAttributes::new();
                changes.accessed = time;
                changes.modified = time;
                changes
            })
        }
        Operation::SetFlags(flags, project) => set_flags(&node()?, *flags, *project),
        Operation::Unlink => volume.remove_file(file),
        Operation::RemoveDirectory => volume.remove_dir(file),
        Operation::Rename(to, mode) => {
            let (directory, name) = to.split_once('/').ok_or(PosixError::InvalidArgument)?;
            let from = volume.lookup(folder.join("d"))?;
            from.rename("f", &volume.lookup(folder.join(directory))?, name, *mode)
        }
        Operation::Link => volume.hard_link(file, folder.join("e/h")),
        Operation::Watch => node()?.watch(WatchEvents::ATTRIB, Scope::Inode).map(drop),
        other => on_contents(volume, folder, &node()?, other),
    }
}

/// Inverts `flags` of a file and sets its project ID. Checks the access for reading first, because
/// the kernel's ioctl needs a file that is open for reading.
fn set_flags(node: &Node, flags: u32, project: u32) -> Result<()> {
    node.access(Access::READ)?;
    let xflags = node.metadata().xflags ^ ExtendedFlags::from_bits_retain(flags);
    let (xflags, project_id) = (Some(xflags), Some(project));
    let mut changes = SetAttributes::new();
    changes.xflags = xflags;
    changes.project_id = project_id;
    node.set_attributes(&changes)
}

fn on_contents(volume: &Volume, folder: &Path, node: &Node, operation: &Operation) -> Result<()> {
    let other = || volume.lookup_no_follow(folder.join("e/g"))?.open();
    match operation {
        Operation::OpenToRead => node.open_read_only().map(drop),
        Operation::OpenToWrite => node.open().map(drop),
        Operation::OpenToWriteOnly => node.open_write_only().map(drop),
        Operation::OpenQuietly => node.open_read_only().and_then(|_| node.check_owner()),
        Operation::Write => node.open()?.write_at(b"x", 0).map(drop),
        Operation::Truncate => node.open()?.set_len(1),
        Operation::Allocate => {
            node.open()?.change_range(0..8192, RangeMode::Allocate(AllocateMode::Extend))
        }
        Operation::Share => {
            let from = node.open_read_only()?;
            other()?.clone_range(0, &from, 0, CONTENTS.len() as u64)
        }
        Operation::Exchange => {
            let from = node.open()?;
            from.exchange_range(0, &other()?, 0, CONTENTS.len() as u64)
        }
        _ => Err(PosixError::InvalidArgument.into()),
    }
}
