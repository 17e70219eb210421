//! Reading the exit status of a process that is not a child of this process.
//!
//! Owns: reading the status from the kernel through a process descriptor. Since Linux 6.15, an
//! ioctl returns the status after the parent has reaped the process. Until the parent reaps the
//! process, the status is read in /proc. Does **not** own: waiting for the end of the process.

#![allow(unsafe_code, reason = "an ioctl is declared by its number and the layout of a buffer")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct pidfd_info` of the kernel in its first version (`PIDFD_INFO_SIZE_VER0`), which later
/// kernels accept too.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessFacts {
    /// In a request, the fields that the caller wants. In the answer, the fields that the kernel
    /// has filled.
    mask: u64,
    cgroup: u64,
    /// The ids of processes, users and groups, which are not used.
    numbers: [u32; 11],
    exit_status: i32,
}

const _: () = assert!(size_of::<ProcessFacts>() == 64);

const PIDFD_GET_INFO: Opcode = opcode::read_write::<ProcessFacts>(0xff, 11);
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// Returns the exit status of a process that has ended. `None` if the status is unknown.
pub(super) fn exit_status(process: impl AsFd) -> Option<ExitStatus> {
    heard(process.as_fd()).or_else(|| unheard(process.as_fd()))
}

/// Returns the exit status of a process that its parent has reaped. `None` if the kernel does not
/// return it.
fn heard(process: BorrowedFd<'_>) -> Option<ExitStatus> {
    let mut facts = ProcessFacts { mask: PIDFD_INFO_EXIT, ..ProcessFacts::default() };
    // SAFETY: the kernel reads and writes one `struct pidfd_info` of the size in the number of the
    // call, of which every bit pattern is valid.
    let told = unsafe { ioctl(process, Updater::<PIDFD_GET_INFO, ProcessFacts>::new(&mut facts)) };
    let has_status = told.is_ok() && facts.mask & PIDFD_INFO_EXIT != 0;
    has_status.then(|| ExitStatus::from_raw(facts.exit_status))
}

/// Returns the exit status of a process that has ended and that its parent has not reaped. `None`
/// if the process still runs, or if this user may not see the status. A PID is not reused before
/// the parent reaps the process.
fn unheard(process: BorrowedFd<'_>) -> Option<ExitStatus> {
    let facts = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let facts = std::fs::read_to_string(facts).ok()?;
    let number = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
    let folder = format!("/proc/{number}");
    let owner = std::fs::metadata(&folder).ok()?.uid();
    let own = rustix::process::geteuid();
    if !own.is_root() && own.as_raw() != owner {
        // For other users the kernel always shows zero.
        return None;
    }
    let stat = std::fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let (state, status) = (fields.next()?, fields.next_back()?);
    (state == "Z").then(|| status.parse().ok().map(ExitStatus::from_raw))?
}

#[cfg(test)]
mod tests;
