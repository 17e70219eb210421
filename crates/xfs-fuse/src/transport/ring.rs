//! An io_uring ring through which one worker receives requests and sends answers.
//!
//! Owns: the ring, the memory that the ring shares with the kernel, and the rule which side may
//! access that memory. Does **not** own: the meaning of requests, and the requests that bypass the
//! ring. The first request, FORGET and INTERRUPT come through `/dev/fuse`, and notifications are
//! sent to it.
//!
//! ```text
//!   open            enable, begin          wait              answer
//!  ─────► disabled ──────────────► kernel ──────► server ───────────┐
//!                                     ▲                             │
//!                                     └─────────────────────────────┘
//! ```
//!
//! A ring holds one request. The kernel has a queue per processor. It puts a request into a ring of
//! the processor on which the caller runs. Every queue needs a ring before any request arrives.
//!
//! # Promises
//!
//! - **I1** The kernel writes to the memory only while this thread is in `wait` or `begin`. The
//!   kernel does its work for a ring only in calls by the thread that enabled the ring
//!   (`DEFER_TASKRUN`). It discards unfinished work when that thread has ended.
//! - **I2** A ring can only give commands to open descriptors (`URING_CMD`), whatever is submitted.
//!   So a sandbox that allows `io_uring_enter` but no new rings gives no access to files, sockets
//!   or memory.

#![allow(unsafe_code, reason = "submissions name memory by address")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, register::Restriction, types};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::device::Device;
use super::pages::Pages;
use super::session::{MAX_WRITE_BYTES, PAGE_BYTES};
use super::wire::{OutHeader, RingCommand, RingHeader, ring};

/// Path of the file that lists the processors that the kernel may ever have. For each of these
/// processors, FUSE has one queue of requests.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// Pause before a retry when the kernel has no memory for a call that enters the ring.
const PAUSE: Duration = Duration::from_millis(1);
/// Offset of the list of memory areas in the memory that the ring shares with the kernel.
/// `ring::REGISTER` passes the list to the kernel.
const AREAS_OFFSET: usize = 2048;
/// Offset of the contents area in the memory that the ring shares with the kernel.
const CONTENTS_OFFSET: usize = PAGE_BYTES as usize;
/// Number of memory areas that [`ring::REGISTER`] names: the headers and the contents.
const AREAS: u32 = 2;
/// Offset of the number of memory areas in a submission queue entry. For most operations the field
/// at this offset is `len`.
const AREA_COUNT_OFFSET: usize = 24;

const _: () = assert!(size_of::<RingHeader>() <= AREAS_OFFSET);
const _: () = assert!(AREA_COUNT_OFFSET + size_of::<u32>() <= size_of::<Entry128>());

/// A ring that is disabled, and not yet connected to a volume's mount.
pub(crate) struct IdleRing(IoUring<Entry128>);

impl IdleRing {
    /// Opens a ring.
    ///
    /// # Errors
    ///
    /// EPERM if io_uring is forbidden, ENOSYS or EINVAL if the kernel is too old.
    pub(crate) fn open() -> io::Result<Self> {
        let mut builder = IoUring::<Entry128>::builder();
        builder.setup_r_disabled().setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(1)?;
        // Before the ring is enabled, so it holds for all submissions (I2).
        ring.submitter()
            .register_restrictions(&mut [Restriction::sqe_op(opcode::UringCmd80::CODE)])?;
        Ok(Self(ring))
    }

    /// Connects the ring to one queue of a connection.
    pub(crate) fn connect(self, device: Device, queue: u16) -> Ring {
        let length = CONTENTS_OFFSET + MAX_WRITE_BYTES as usize;
        Ring {
            ring: self.0,
            device,
            queue,
            memory: Pages::new(length, 0),
            owner: MemoryOwner::Unowned,
        }
    }
}

/// The side that may access the memory that the ring shares with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryOwner {
    Unowned,
    /// The kernel, which writes a request or reads an answer.
    Kernel,
    Server,
    /// The volume has been unmounted, and no more requests will come. The memory is not accessed
    /// any more.
    Closed,
}

/// A ring that belongs to a connection.
pub(crate) struct Ring {
    /// The ring. It is declared before the memory to which it refers, so that it is dropped first.
    ring: IoUring<Entry128>,
    device: Device,
    queue: u16,
    memory: Pages,
    owner: MemoryOwner,
}

impl Ring {
    /// Returns the descriptor of `/dev/fuse`, for messages that do not go through the ring.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Enables the ring. From now on only the calling thread can use it.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Asks the kernel for the first request.
    ///
    /// # Errors
    ///
    /// The kernel's error if it refuses the ring.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let memory = self.memory.bytes_mut();
        let start = memory.as_mut_ptr().expose_provenance();
        let areas =
            [[start, size_of::<RingHeader>()], [start + CONTENTS_OFFSET, MAX_WRITE_BYTES as usize]];
        let place = memory.get_mut(AREAS_OFFSET..).unwrap_or_default();
        areas.write_to_prefix(place).map_err(|_| Errno::INVAL)?;
        self.push(ring::REGISTER, 0, Some((start + AREAS_OFFSET) as u64))?;
        self.ring.submit()?;
        // The kernel completes the command when there is a request, or at once if it refuses.
        self.take()
    }

    /// Submits the previous answer and waits for a request. Returns `false` when the volume has
    /// been unmounted.
    pub(crate) fn wait(&mut self) -> io::Result<bool> {
        while self.owner == MemoryOwner::Kernel {
            self.take()?;
            if self.owner != MemoryOwner::Kernel {
                break;
            }
            let Err(error) = self.ring.submit_and_wait(1) else { continue };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // The kernel lacks memory for the moment. The pushed entry is still in the ring.
                Some(Errno::AGAIN | Errno::BUSY) => thread::sleep(PAUSE),
                _ => return Err(error),
            }
        }
        Ok(self.owner == MemoryOwner::Server)
    }

    /// Returns the header of the request and the contents area. The contents of the answer must be
    /// put into the same area. Returns `None` if there is no request.
    pub(crate) fn message(&mut self) -> Option<(RingHeader, &mut [u8])> {
        if self.owner != MemoryOwner::Server {
            return None;
        }
        let (head, contents) = self.memory.bytes_mut().split_at_mut_checked(CONTENTS_OFFSET)?;
        let (header, _) = RingHeader::read_from_prefix(head).ok()?;
        Some((header, contents))
    }

    /// Sets the header of the answer, whose contents are in the contents area. The next `wait`
    /// submits it.
    pub(crate) fn answer(&mut self, answer: OutHeader) -> io::Result<()> {
        let memory = self.memory.bytes_mut();
        let (mut header, _) = RingHeader::read_from_prefix(memory).map_err(|_| Errno::INVAL)?;
        let length = (answer.length as usize).saturating_sub(size_of::<OutHeader>());
        answer.write_to_prefix(&mut header.head).map_err(|_| Errno::INVAL)?;
        header.entry.length = length as u32;
        header.write_to_prefix(memory).map_err(|_| Errno::INVAL)?;
        self.push(ring::ANSWER, header.entry.commit, None)
    }

    /// Puts a command into the ring, which the kernel sees at the next submission. `commit`
    /// identifies the answered request. `places` is the address of the list of memory areas, which
    /// only the command `REGISTER` has.
    fn push(&mut self, command: u32, commit: u64, places: Option<u64>) -> io::Result<()> {
        let mut bytes = [0; 80];
        let command_for_queue = RingCommand { commit, queue: self.queue, ..RingCommand::default() };
        command_for_queue.write_to_prefix(&mut bytes).map_err(|_| Errno::INVAL)?;
        let device = types::Fd(self.device.as_fd().as_raw_fd());
        let mut entry = opcode::UringCmd80::new(device, command).cmd(bytes).addr(places).build();
        if places.is_some() {
            let number =
                (&raw mut entry).cast::<u8>().wrapping_add(AREA_COUNT_OFFSET).cast::<u32>();
            // SAFETY: the field lies within the entry, aligned to 4 in a structure aligned to 8,
            // and any bytes are a valid entry. The crate gives no other access to the field `len`
            // of this command.
            unsafe { number.write(AREAS) };
        }
        // SAFETY: the memory that the entry names belongs to `self`, which drops it after the ring.
        // Until then it is not moved, and this thread accesses it only while it owns it (I1).
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
        self.owner = MemoryOwner::Kernel;
        Ok(())
    }

    /// Takes the completion of the previous command out of the ring, if the kernel has completed
    /// it. A completion means that a request has arrived, or that no more requests will come.
    fn take(&mut self) -> io::Result<()> {
        let Some(said) = self.ring.completion().next() else { return Ok(()) };
        self.owner = match said.result() {
            0 => MemoryOwner::Server,
            error => match Errno::from_raw_os_error(-error) {
                Errno::NOTCONN | Errno::CANCELED | Errno::NODEV | Errno::CONNABORTED => {
                    MemoryOwner::Closed
                }
                errno => return Err(errno.into()),
            },
        };
        Ok(())
    }
}

/// Returns the number of queues that the kernel has for a connection.
pub(crate) fn queues() -> io::Result<usize> {
    let text = std::fs::read_to_string(POSSIBLE)?;
    count(text.trim()).ok_or_else(|| Errno::INVAL.into())
}

/// Returns the number of processors in a list such as `0-3,8`, or `None` if the list is malformed.
fn count(list: &str) -> Option<usize> {
    list.split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .try_fold(0_usize, |sum, length| sum.checked_add(length?))
}

#[cfg(test)]
mod tests;
