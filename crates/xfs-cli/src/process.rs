//! Other processes: finding them in /proc, and waiting for them.
//!
//! Owns: descriptors of processes, by which a number cannot come to mean another one. Does **not** own: what a
//! process is to somebody.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process with this number, held open.
pub(crate) fn open(number: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()
}

/// All that are to be seen from here, each with the name of its folder.
pub(crate) fn all() -> impl Iterator<Item = (String, OwnedFd)> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let process = open(name.parse().ok()?)?;
        Some((name, process))
    })
}

/// Waits for something of a process, at most this long. Being hung up, as of one that is gone, is always waited for.
pub(crate) fn wait_for(
    process: &OwnedFd,
    wanted: PollFlags,
    patience: Duration,
) -> Result<bool, Errno> {
    let end = Instant::now() + patience;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now()));
        let mut polled = [PollFd::new(process, wanted)];
        match poll(&mut polled, left.ok().as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
