//! Makes the files of the test cases, and performs the operations on them, by system calls of the
//! kernel.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ferroxfs::RenameMode;
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec,
    Timestamps, Uid, XattrFlags, inotify,
};
use rustix::io::Errno;

use super::Answer;
use super::operation::{CAPABLE, Made, Operation};
use super::scene::{Found, Guard, Kind, Scene};

/// The contents of regular files.
const CONTENTS: [u8; 4096] = [7; 4096];

/// Makes the files of a scene, as root.
pub(super) fn build(folder: &Path, scene: &Scene) -> Result<(), Errno> {
    rustix::fs::mkdir(folder, Mode::from_raw_mode(0o755))?;
    scene.0.iter().try_for_each(|found| make(&folder.join(found.path), found))?;
    scene.0.iter().try_for_each(|found| guard(&folder.join(found.path), found))
}

fn make(path: &Path, found: &Found) -> Result<(), Errno> {
    match found.kind {
        Kind::Regular => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
            file.write_all_at(&CONTENTS, 0).map_err(|_| Errno::IO)?;
        }
        Kind::Directory => rustix::fs::mkdir(path, Mode::empty())?,
        Kind::Fifo => rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::empty(), 0)?,
        Kind::Symlink => rustix::fs::symlink("../e/g", path)?,
    }
    let owner = (Some(Uid::from_raw(found.uid)), Some(Gid::from_raw(found.gid)));
    rustix::fs::chownat(CWD, path, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
    if found.kind != Kind::Symlink {
        rustix::fs::chmod(path, Mode::from_raw_mode(found.mode.into()))?;
    }
    let set =
        |name: &str, value: &[u8]| rustix::fs::lsetxattr(path, name, value, XattrFlags::empty());
    if matches!(found.kind, Kind::Regular | Kind::Directory) {
        set("user.a", b"user")?;
    }
    set("trusted.a", b"trusted")?;
    set("security.a", b"security")?;
    if found.is_capable { set("security.capability", &CAPABLE) } else { Ok(()) }
}

fn guard(path: &Path, found: &Found) -> Result<(), Errno> {
    for (name, list) in [("access", &found.access), ("default", &found.default)] {
        let Some(list) = list else { continue };
        let name = format!("system.posix_acl_{name}");
        rustix::fs::lsetxattr(path, name, list, XattrFlags::empty())?;
    }
    let flags = match found.guard {
        Guard::None => return Ok(()),
        Guard::Immutable => 0x8,
        Guard::Append => 0x10,
    };
    xfs_oracle::change_flags(&open(path, OFlags::RDONLY)?, flags, 0)
}

fn open(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Performs one operation with the credentials of this thread.
pub(super) fn perform(folder: &Path, operation: &Operation) -> Answer {
    let file = folder.join("d/f");
    let answer = match operation {
        Operation::Find(path) => find(&folder.join(path)),
        Operation::List => list(&folder.join("d")),
        Operation::Access(wanted) => access(&file, *wanted),
        Operation::ReadLink => rustix::fs::readlink(&file, Vec::new()).map(|to| format!("{to:?}")),
        Operation::ReadAttribute(name) => attribute(&file, name),
        Operation::ListAttributes => attributes(&file),
        other => change(folder, &file, other).map(|()| String::new()),
    };
    answer.map_err(Errno::raw_os_error)
}

fn find(path: &Path) -> Result<String, Errno> {
    let stat = rustix::fs::lstat(path)?;
    Ok(format!("{:o}", stat.st_mode))
}

fn list(directory: &Path) -> Result<String, Errno> {
    let open = open(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let names = Dir::new(OwnedFd::from(open))?.map(|entry| Ok(entry?.file_name().to_owned()));
    let names = names.collect::<Result<Vec<_>, Errno>>()?;
    let names = names.iter().map(|name| name.to_string_lossy());
    let mut names: Vec<_> = names.filter(|name| !matches!(&**name, "." | "..")).collect();
    names.sort();
    Ok(format!("{names:?}"))
}

fn access(path: &Path, wanted: u16) -> Result<String, Errno> {
    let wanted = Access::from_bits_retain(wanted.into());
    rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS).map(|()| String::new())
}

fn attribute(path: &Path, name: &str) -> Result<String, Errno> {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::lgetxattr(path, name, &mut value)?;
    value.truncate(length);
    Ok(format!("{value:?}"))
}

fn attributes(path: &Path) -> Result<String, Errno> {
    let mut names = vec![0; 1 << 16];
    let length = rustix::fs::llistxattr(path, &mut names)?;
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(String::from_utf8_lossy).collect();
    names.sort();
    Ok(format!("{names:?}"))
}

fn change(folder: &Path, file: &Path, operation: &Operation) -> Result<(), Errno> {
    match operation {
        Operation::SetAttribute(name, value) => {
            rustix::fs::lsetxattr(file, *name, value, XattrFlags::empty())
        }
        Operation::RemoveAttribute(name) => rustix::fs::lremovexattr(file, *name),
        Operation::ChangeMode(mode) => rustix::fs::chmod(file, Mode::from_raw_mode((*mode).into())),
        Operation::ChangeOwner(uid, gid) => {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, file, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        }
        Operation::Touch => set_times(file, rustix::fs::UTIME_NOW),
        Operation::SetTimes => set_times(file, 5),
        Operation::SetFlags(flags, project) => {
            xfs_oracle::change_flags(&open(file, OFlags::RDONLY)?, *flags, *project)
        }
        Operation::Make(made, mode) => make_new(&folder.join("d/n"), *made, (*mode).into()),
        Operation::Unlink => rustix::fs::unlink(file),
        Operation::RemoveDirectory => rustix::fs::rmdir(file),
        Operation::Rename(to, mode) => {
            let flags = match mode {
                RenameMode::Replace => RenameFlags::empty(),
                RenameMode::NoReplace => RenameFlags::NOREPLACE,
                RenameMode::Exchange => RenameFlags::EXCHANGE,
                RenameMode::Whiteout => RenameFlags::WHITEOUT,
                _ => unreachable!("the operations of this test have no mode {mode:?}"),
            };
            rustix::fs::renameat_with(CWD, file, CWD, folder.join(to), flags)
        }
        Operation::Link => rustix::fs::linkat(CWD, file, CWD, folder.join("e/h"), AtFlags::empty()),
        Operation::Temporary(mode) => {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode((*mode).into());
            let open = rustix::fs::open(folder.join("d"), flags, mode)?;
            let from = format!("/proc/thread-self/fd/{}", open.as_raw_fd());
            rustix::fs::linkat(CWD, from, CWD, folder.join("e/h"), AtFlags::SYMLINK_FOLLOW)
        }
        other => on_contents(folder, file, other),
    }
}

fn on_contents(folder: &Path, file: &Path, operation: &Operation) -> Result<(), Errno> {
    match operation {
        Operation::OpenToRead => open(file, OFlags::RDONLY).map(drop),
        Operation::OpenToWrite => open(file, OFlags::RDWR).map(drop),
        Operation::OpenToWriteOnly => open(file, OFlags::WRONLY).map(drop),
        Operation::OpenQuietly => open(file, OFlags::RDONLY | OFlags::NOATIME).map(drop),
        Operation::Write => rustix::io::pwrite(open(file, OFlags::RDWR)?, b"x", 0).map(drop),
        Operation::Truncate => rustix::fs::ftruncate(open(file, OFlags::RDWR)?, 1),
        Operation::Allocate => {
            let open = open(file, OFlags::RDWR)?;
            rustix::fs::fallocate(open, FallocateFlags::empty(), 0, 8192)
        }
        Operation::Share => {
            let from = open(file, OFlags::RDONLY)?;
            xfs_oracle::share_contents(&from, &open(&folder.join("e/g"), OFlags::RDWR)?)
        }
        Operation::Exchange => {
            let from = open(file, OFlags::RDWR)?;
            xfs_oracle::exchange_contents(&from, &open(&folder.join("e/g"), OFlags::RDWR)?)
        }
        Operation::Watch => {
            let watches = inotify::init(inotify::CreateFlags::CLOEXEC)?;
            let flags = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DONT_FOLLOW;
            inotify::add_watch(watches, file, flags).map(drop)
        }
        _ => Err(Errno::INVAL),
    }
}

fn set_times(path: &Path, nanoseconds: i64) -> Result<(), Errno> {
    let time = Timespec { tv_sec: 5, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn make_new(path: &Path, made: Made, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    let (kind, device) = match made {
        Made::Directory => return rustix::fs::mkdir(path, mode),
        Made::Symlink => return rustix::fs::symlink("nowhere", path),
        Made::Regular => (FileType::RegularFile, 0),
        Made::Fifo => (FileType::Fifo, 0),
        Made::Device(major, minor) => {
            (FileType::CharacterDevice, rustix::fs::makedev(major, minor))
        }
    };
    rustix::fs::mknodat(CWD, path, kind, mode, device)
}
