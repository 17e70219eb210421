//! Inodes other than plain files and directories, and unusual metadata on all kinds.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev};

use super::Populate;
use crate::error::{Context, OracleError};
use crate::ioctl::{FileFlags, file_attributes, set_file_attributes};

/// Length of the longest target of a symbolic link in XFS, in bytes.
const TARGET_BYTES_MAX: usize = 1023;

pub(super) fn populate(here: &mut Populate) -> Result<(), OracleError> {
    nodes(here)?;
    links(here)?;
    owners_and_modes(here)?;
    times(here)?;
    projects(here)?;
    // Last, because nothing can be changed under these flags.
    flags(here)
}

fn nodes(here: &mut Populate) -> Result<(), OracleError> {
    let devices = [(0, 0), (1, 3), (8, 17), (255, 255), (256, 256), (511, 262_143)];
    for (major, minor) in devices {
        for (kind, name) in [(FileType::CharacterDevice, "char"), (FileType::BlockDevice, "block")]
        {
            let path = here.path(format!("{name}-{major}-{minor}"));
            rustix::fs::mknodat(CWD, &path, kind, Mode::from(0o640), makedev(major, minor))
                .context(|| path.display().to_string())?;
        }
    }
    let path = here.path("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0)
        .context(|| path.display().to_string())?;
    let path = here.path("socket");
    UnixListener::bind(&path).context(|| path.display().to_string())?;
    Ok(())
}

fn links(here: &mut Populate) -> Result<(), OracleError> {
    let folder = here.inside("links")?;
    for length in 1..=TARGET_BYTES_MAX {
        let target: String = ('a'..='z').cycle().take(length).collect();
        let path = folder.path(format!("{length}"));
        symlink(&target, &path).context(|| path.display().to_string())?;
    }
    let path = folder.path("up");
    symlink("../../..", &path).context(|| path.display().to_string())
}

fn owners_and_modes(here: &mut Populate) -> Result<(), OracleError> {
    for (uid, gid) in [(1000, 1000), (65534, 65535), (65536, 70000), (u32::MAX - 1, u32::MAX - 1)] {
        let path = here.write(format!("owner-{uid}-{gid}"), b"owned")?;
        chown(&path, Some(uid), Some(gid)).context(|| path.display().to_string())?;
    }
    let path = here.path("owner-link");
    symlink("owned", &path).context(|| path.display().to_string())?;
    lchown(&path, Some(4242), Some(2424)).context(|| path.display().to_string())?;
    for mode in [0, 0o1, 0o444, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777] {
        let path = here.touch(format!("mode-{mode:o}"))?;
        set_mode(&path, mode)?;
        let folder = here.inside(&format!("mode-folder-{mode:o}"))?;
        set_mode(&folder.folder, mode)?;
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), OracleError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).context(|| path.display().to_string())
}

/// Sets times around every limit of each of the two timestamp formats. A volume without bigtime
/// clamps them itself.
fn times(here: &mut Populate) -> Result<(), OracleError> {
    let first = i64::from(i32::MIN);
    let last = i64::from(i32::MAX);
    let seconds = [first - 1, first, first + 1, -1, 0, 1, last, last + 1, 5_000_000_000];
    for (index, second) in seconds.into_iter().chain([16_299_260_424, 16_299_260_425]).enumerate() {
        let path = here.touch(format!("time-{index}"))?;
        let time = |nanoseconds| Timespec { tv_sec: second, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: time(999_999_999), last_modification: time(1) };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)
            .context(|| path.display().to_string())?;
    }
    Ok(())
}

fn projects(here: &mut Populate) -> Result<(), OracleError> {
    for project in [1, 65535, 65536, u32::MAX - 1] {
        let path = here.touch(format!("project-{project}"))?;
        change(&path, FileFlags::empty(), project, 0)?;
    }
    let folder = here.inside("project-folder")?;
    change(&folder.folder, FileFlags::PROJECT_INHERIT, 77, 0)?;
    folder.touch("inherits")?;
    Ok(())
}

fn flags(here: &mut Populate) -> Result<(), OracleError> {
    let block = here.block_bytes as u32;
    let path = here.touch("extent-size")?;
    change(&path, FileFlags::EXTENT_SIZE, 0, 16 * block)?;
    fs::write(&path, b"takes sixteen blocks").context(|| path.display().to_string())?;
    let folder = here.inside("extent-size-folder")?;
    change(&folder.folder, FileFlags::EXTENT_SIZE_INHERIT, 0, 8 * block)?;
    folder.write("inherits", b"takes eight blocks")?;
    let flags = [
        ("immutable", FileFlags::IMMUTABLE),
        ("append", FileFlags::APPEND),
        ("sync", FileFlags::SYNC),
        ("noatime", FileFlags::NOATIME),
        ("nodump", FileFlags::NODUMP),
        ("nodefrag", FileFlags::NODEFRAG),
        ("several", FileFlags::NODUMP.union(FileFlags::NOATIME).union(FileFlags::IMMUTABLE)),
    ];
    for (name, flag) in flags {
        let path = here.write(name, b"flagged")?;
        change(&path, flag, 0, 0)?;
    }
    let folder = here.inside("nosymlinks")?;
    change(&folder.folder, FileFlags::NOSYMLINKS, 0, 0)?;
    let folder = here.inside("immutable-folder")?;
    folder.touch("inside")?;
    change(&folder.folder, FileFlags::IMMUTABLE, 0, 0)
}

fn change(
    path: &Path,
    flags: FileFlags,
    project_id: u32,
    extent_size: u32,
) -> Result<(), OracleError> {
    let what = || format!("{flags:?} of {}", path.display());
    let file = File::open(path).context(what)?;
    let mut attributes = file_attributes(&file).context(what)?;
    attributes.flags |= flags.bits();
    attributes.project_id = project_id;
    attributes.extent_size = extent_size;
    set_file_attributes(&file, attributes).context(what)
}
