//! `umount`: ends a mount and waits until its image is closed.

use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use xfs_fuse::{PROCESS_ATTRIBUTE, Unmount, unmount};

use super::Run;
use super::stats::read_attribute;
use crate::cli::UmountArguments;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::sandbox::Reach;

/// How long the process that serves may take to close the volume.
const PATIENCE_SECONDS: i64 = 120;

struct Umount {
    folder: PathBuf,
    when: Unmount,
}

/// Nothing is opened: an open folder would be in use.
pub(super) fn open(arguments: UmountArguments) -> Box<dyn Run> {
    let when = if arguments.lazy { Unmount::WhenUnused } else { Unmount::Now };
    Box::new(Umount { folder: arguments.folder, when })
}

impl Run for Umount {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, _: &mut Console) -> Result<(), Failure> {
        let failed = |error| Failure::host(self.folder.as_os_str(), &error);
        // Held open, so that the number cannot come to mean another process.
        let server = find_server(&self.folder)?;
        unmount(&self.folder, self.when).map_err(|error| match is_busy(&error) {
            true => failed(error).hint(
                "who uses it is shown by fuser -vm DIR; --lazy takes it out of the tree at once",
            ),
            false => failed(error),
        })?;
        let (Some(server), Unmount::Now) = (server, self.when) else { return Ok(()) };
        let patience = Timespec { tv_sec: PATIENCE_SECONDS, tv_nsec: 0 };
        let mut ended = [PollFd::new(&server, PollFlags::IN)];
        match poll(&mut ended, Some(&patience)).map_err(|errno| failed(errno.into()))? {
            0 => Err(Failure::new(Exit::Failed, "unmounted, but its image is still being closed")),
            _ => Ok(()),
        }
    }
}

/// fusermount3 has only words for it.
fn is_busy(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY) || error.to_string().contains("busy")
}

/// The process that serves a mount; `None` if it is not to be seen from here, was killed, or cannot read
/// the root of the volume.
fn find_server(folder: &Path) -> Result<Option<OwnedFd>, Failure> {
    // What stat(2) says may come from before it was killed.
    match rustix::fs::getxattr(folder, PROCESS_ATTRIBUTE, &mut [0_u8; 0]) {
        Err(errno) if hides_server(errno) => return Ok(None),
        _ => {}
    }
    let number = read_attribute(folder, PROCESS_ATTRIBUTE)?;
    let pid = std::str::from_utf8(&number).ok().and_then(|number| number.parse().ok());
    Ok(pid.and_then(Pid::from_raw).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()))
}

/// Whether a mount that gives this for its root can be ended all the same: its server was killed, or finds
/// the root damaged (EUCLEAN), or cannot read it from the device.
fn hides_server(errno: Errno) -> bool {
    matches!(errno, Errno::NOTCONN | Errno::UCLEAN | Errno::IO)
}

#[cfg(test)]
mod tests;
