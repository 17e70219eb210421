//! Other processes: finding them in /proc, and waiting for them.
//!
//! Owns: descriptors of processes, with which a reused PID cannot be mistaken for the old process.
//! Does **not** own: finding out what a process does for a mount.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Opens a descriptor of the process with the PID `number`; `None` if there is no such process.
pub(crate) fn open(number: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()
}

/// Returns all visible processes, each with its name in /proc, which is its PID.
pub(crate) fn all() -> impl Iterator<Item = (String, OwnedFd)> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let process = open(name.parse().ok()?)?;
        Some((name, process))
    })
}

/// Waits for an event of a process, at most as long as `patience`. The end of the process is always
/// an event. Returns false if no event has happened in that time.
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
