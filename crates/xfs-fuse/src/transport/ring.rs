//! A ring of io_uring through which one worker gets requests and gives answers.
//!
//! Owns: the ring, the memory that it shares with the kernel, and whose turn it is. Does **not** own: what
//! requests mean, and which of them go past it: the first one, FORGET and INTERRUPT come through
//! `/dev/fuse`, and what answers nothing goes there.
//!
//! ```text
//!   open            enable, begin          wait              answer
//!  ─────► disabled ──────────────► kernel's ────► ours ─────────────┐
//!                                     ▲                             │
//!                                     └─────────────────────────────┘
//! ```
//!
//! A ring has one place for a request. The kernel keeps a queue for each processor and puts a request
//! into a ring of the one on which it was asked for; all of them need a ring before any request comes.
//!
//! # Promises
//!
//! - **I1** The kernel writes to the memory only while this thread is in `wait` or `begin`: what it has to do
//!   for a ring it does as work of the thread that has enabled it (`DEFER_TASKRUN`), and what is left when that
//!   is gone it throws away.
//! - **I2** A ring can do nothing but give commands to descriptors that are open (`URING_CMD`), whatever is put into
//!   it: so a sandbox that allows `io_uring_enter`, and no new rings, opens no way to files, sockets or memory.

#![allow(unsafe_code, reason = "what is put into a ring names memory by its address")]

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

/// Which processors the kernel may have: as many queues.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// How long the kernel is given to find memory.
const PAUSE: Duration = Duration::from_millis(1);
/// Where, in the memory that is shared, the kernel is told of it.
const AREAS_OFFSET: usize = 2048;
/// Where the contents lie.
const CONTENTS_OFFSET: usize = PAGE_BYTES as usize;
/// As many pieces of memory as [`ring::REGISTER`] names: the headers and the contents.
const AREAS: u32 = 2;
/// Where an entry says how many there are, the same for each system call.
const AREA_COUNT_OFFSET: usize = 24;

const _: () = assert!(size_of::<RingHeader>() <= AREAS_OFFSET);
const _: () = assert!(AREA_COUNT_OFFSET + size_of::<u32>() <= size_of::<Entry128>());

/// A ring that belongs to nobody yet and does nothing.
pub(crate) struct IdleRing(IoUring<Entry128>);

impl IdleRing {
    /// A new one.
    ///
    /// # Errors
    ///
    /// EPERM where io_uring is forbidden, ENOSYS or EINVAL where the kernel is too old.
    pub(crate) fn open() -> io::Result<Self> {
        let mut builder = IoUring::<Entry128>::builder();
        builder.setup_r_disabled().setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(1)?;
        ring.submitter()
            .register_restrictions(&mut [Restriction::sqe_op(opcode::UringCmd80::CODE)])?;
        Ok(Self(ring))
    }

    /// The same, for a queue of a connection.
    pub(crate) fn connect(self, device: Device, queue: u16) -> Ring {
        let length = CONTENTS_OFFSET + MAX_WRITE_BYTES as usize;
        Ring {
            ring: self.0,
            device,
            queue,
            memory: Pages::new(length, 0),
            owner: MemoryOwner::Nobody,
        }
    }
}

/// Whose the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryOwner {
    Nobody,
    /// It puts a request there, or takes an answer.
    Kernel,
    Server,
    /// No request will come any more: the volume has been unmounted.
    Closed,
}

/// A ring of a connection.
pub(crate) struct Ring {
    /// Goes before the memory that it knows of.
    ring: IoUring<Entry128>,
    device: Device,
    queue: u16,
    memory: Pages,
    owner: MemoryOwner,
}

impl Ring {
    /// What else the connection is asked goes there.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Makes it usable, by this thread and no other.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Asks for the first request.
    ///
    /// # Errors
    ///
    /// What the kernel does not like about it.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let memory = self.memory.bytes_mut();
        let start = memory.as_mut_ptr().expose_provenance();
        let areas =
            [[start, size_of::<RingHeader>()], [start + CONTENTS_OFFSET, MAX_WRITE_BYTES as usize]];
        let place = memory.get_mut(AREAS_OFFSET..).unwrap_or_default();
        areas.write_to_prefix(place).map_err(|_| Errno::INVAL)?;
        self.push(ring::REGISTER, 0, Some((start + AREAS_OFFSET) as u64))?;
        self.ring.submit()?;
        // It is heard of again when there is a request, or at once if it is refused.
        self.take()
    }

    /// Waits for a request, having given the answer to the one before. `false`: the volume has been unmounted.
    pub(crate) fn wait(&mut self) -> io::Result<bool> {
        while self.owner == MemoryOwner::Kernel {
            self.take()?;
            if self.owner != MemoryOwner::Kernel {
                break;
            }
            let Err(error) = self.ring.submit_and_wait(1) else { continue };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // It lacks memory for the moment. What was pushed is still there.
                Some(Errno::AGAIN | Errno::BUSY) => thread::sleep(PAUSE),
                _ => return Err(error),
            }
        }
        Ok(self.owner == MemoryOwner::Server)
    }

    /// The request that has come, and room for its answer where the contents are.
    pub(crate) fn message(&mut self) -> Option<(RingHeader, &mut [u8])> {
        if self.owner != MemoryOwner::Server {
            return None;
        }
        let (head, contents) = self.memory.bytes_mut().split_at_mut_checked(CONTENTS_OFFSET)?;
        let (header, _) = RingHeader::read_from_prefix(head).ok()?;
        Some((header, contents))
    }

    /// Answers with the bytes that lie where the contents are, when the next request is waited for.
    pub(crate) fn answer(&mut self, answer: OutHeader) -> io::Result<()> {
        let memory = self.memory.bytes_mut();
        let (mut header, _) = RingHeader::read_from_prefix(memory).map_err(|_| Errno::INVAL)?;
        let length = (answer.length as usize).saturating_sub(size_of::<OutHeader>());
        answer.write_to_prefix(&mut header.head).map_err(|_| Errno::INVAL)?;
        header.entry.length = length as u32;
        header.write_to_prefix(memory).map_err(|_| Errno::INVAL)?;
        self.push(ring::ANSWER, header.entry.commit, None)
    }

    /// Puts a command into the ring, which the kernel sees when it is entered.
    fn push(&mut self, command: u32, commit: u64, places: Option<u64>) -> io::Result<()> {
        let mut bytes = [0; 80];
        let command_for_queue = RingCommand { commit, queue: self.queue, ..RingCommand::default() };
        command_for_queue.write_to_prefix(&mut bytes).map_err(|_| Errno::INVAL)?;
        let device = types::Fd(self.device.as_fd().as_raw_fd());
        let mut entry = opcode::UringCmd80::new(device, command).cmd(bytes).addr(places).build();
        if places.is_some() {
            let number =
                (&raw mut entry).cast::<u8>().wrapping_add(AREA_COUNT_OFFSET).cast::<u32>();
            // SAFETY: it lies within the entry, aligned to 4 in a structure aligned to 8, and any bytes are a
            // valid entry: the crate gives no other way to the field `len` of this command.
            unsafe { number.write(AREAS) };
        }
        // SAFETY: the memory that it names belongs to `self`, which lets go of it after the ring; until
        // then it is not moved, and this thread looks at it in its turn only (I1).
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
        self.owner = MemoryOwner::Kernel;
        Ok(())
    }

    /// Looks at what the kernel says of the command before, if it has said anything: that there is a request, or
    /// that there will be none any more.
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

/// How many queues the kernel has for a connection.
pub(crate) fn queues() -> io::Result<usize> {
    let text = std::fs::read_to_string(POSSIBLE)?;
    count(text.trim()).ok_or_else(|| Errno::INVAL.into())
}

/// How many numbers there are in a list such as `0-3,8`.
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
