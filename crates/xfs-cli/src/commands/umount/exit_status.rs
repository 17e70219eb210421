//! How a process ended that is no child of ours.
//!
//! Owns: asking the kernel by a descriptor of the process: by a call once its parent has heard of the end (Linux
//! 6.15), in /proc before, which can take any time where the parent is a container's. Does **not** own: waiting
//! for the end.

#![allow(unsafe_code, reason = "an ioctl is declared by its number and the layout of a buffer")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct pidfd_info`, as it was first (`PIDFD_INFO_SIZE_VER0`): later kernels take it too.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessFacts {
    /// What is asked for; in the answer, what there is.
    mask: u64,
    cgroup: u64,
    /// Numbers of processes, users and groups.
    numbers: [u32; 11],
    exit_status: i32,
}

const _: () = assert!(size_of::<ProcessFacts>() == 64);

const PIDFD_GET_INFO: Opcode = opcode::read_write::<ProcessFacts>(0xff, 11);
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// The exit status of a process that has ended, as for its parent. `None` where nobody says it.
pub(super) fn exit_status(process: impl AsFd) -> Option<ExitStatus> {
    heard(process.as_fd()).or_else(|| unheard(process.as_fd()))
}

/// Of a process whose parent has heard of its end.
fn heard(process: BorrowedFd<'_>) -> Option<ExitStatus> {
    let mut facts = ProcessFacts { mask: PIDFD_INFO_EXIT, ..ProcessFacts::default() };
    // SAFETY: the kernel reads and writes one `struct pidfd_info` of the size that the number says, of which
    // every bit pattern is valid.
    let told = unsafe { ioctl(process, Updater::<PIDFD_GET_INFO, ProcessFacts>::new(&mut facts)) };
    let has_status = told.is_ok() && facts.mask & PIDFD_INFO_EXIT != 0;
    has_status.then(|| ExitStatus::from_raw(facts.exit_status))
}

/// Of a process whose parent has not: until then its number is not another's.
fn unheard(process: BorrowedFd<'_>) -> Option<ExitStatus> {
    let facts = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let facts = std::fs::read_to_string(facts).ok()?;
    let number = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
    let folder = format!("/proc/{number}");
    let owner = std::fs::metadata(&folder).ok()?.uid();
    let own = rustix::process::geteuid();
    if !own.is_root() && own.as_raw() != owner {
        // Others see a zero in any case.
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
