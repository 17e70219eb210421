//! Pipes that carry file contents from the image to the kernel without a copy in this process's
//! memory.
//!
//! Owns: the pipes of a mount, and sending their contents. Does **not** own: filling them.
//!
//! Pipe memory is limited per user, for all programs of that user together. So a mount has few
//! pipes, opens a pipe when an answer is put into it, and closes idle pipes. A worker that finds no
//! free pipe copies instead.
//!
//! A pipe holds references to the host's page cache of the image, so later writes to the image
//! would show in the answer until the pipe's contents have been sent. The thread that fills a pipe
//! prevents such writes. The kernel makes its own copy of the data that it keeps.
//!
//! # Invariants
//!
//! - **I1** A pipe is empty before an answer is put into it. A pipe that may be non-empty is
//!   closed, and its slot gets no other pipe.
//! - **I2** No thread waits for a pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use xfs_sync::{CachePadded, Mutex, MutexGuard, Slot};
use zerocopy::IntoBytes;

use super::session::MAX_WRITE_BYTES;
use super::wire::OutHeader;

/// The fewest bytes of contents that are sent through a pipe. For fewer bytes a copy is faster.
const LEAST_BYTES: usize = 64 << 10;
/// The most pipes of a mount. At 1 MiB each they take a sixteenth of a user's default limit.
const MOST_PIPES: usize = 4;
/// The time without use after which an open pipe may be closed. An unused pipe is closed at the
/// latest after twice this time.
pub(super) const REST: Duration = Duration::from_secs(10);

/// The pipes of a mount.
pub(super) struct Pipes {
    slots: Box<[CachePadded<Mutex<PipeSlot, Slot>>]>,
    /// Called after each attempt to open a pipe. From that call on, the owner of the pipes must
    /// call [`rest`](Self::rest) regularly.
    on_open: Box<dyn Fn() + Send + Sync>,
}

/// A slot for one pipe. A thread may use the pipe while it holds the lock of the slot.
#[derive(Default)]
struct PipeSlot {
    state: PipeState,
    /// Whether the pipe was used since [`Pipes::rest`] was last called.
    was_used: bool,
}

#[derive(Default)]
enum PipeState {
    #[default]
    Nothing,
    Open(Pipe),
    /// The system refused a pipe of sufficient size. The next call of `Pipes::rest` permits
    /// another attempt.
    Refused,
    /// The pipe failed to take or to send a whole answer. The slot is never used again.
    Spoiled,
}

/// The pipes of a mount, in the order in which one worker looks for a free one.
#[derive(Clone, Copy)]
pub(super) struct WorkerPipes<'a> {
    pipes: &'a Pipes,
    /// Index of the pipe slot at which this worker begins to look for a free one. Workers begin at
    /// different slots, so that they seldom want the same one.
    first: usize,
}

/// A locked pipe slot, which one answer uses. The slot has an open pipe, or none yet.
pub(crate) struct PipeLease<'a> {
    pipes: &'a Pipes,
    slot: MutexGuard<'a, PipeSlot>,
}

/// An open pipe.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Number of bytes of contents that fit in the pipe.
    most_bytes: usize,
}

impl Pipes {
    /// Creates the places for the pipes of a mount, without opening a pipe. `on_open` is called
    /// after each attempt to open a pipe.
    pub(super) fn new(on_open: impl Fn() + Send + Sync + 'static) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (0..processors.min(MOST_PIPES)).map(|_| CachePadded::default()).collect();
        Self { slots, on_open: Box::new(on_open) }
    }

    /// Returns the pipes of the mount for the worker with this index: in the order in which the
    /// worker looks for a free one.
    pub(super) fn of(&self, index: usize) -> WorkerPipes<'_> {
        WorkerPipes { pipes: self, first: index }
    }

    /// Closes pipes that were not used since the previous call. Returns whether this function must
    /// be called again later.
    pub(super) fn rest(&self) -> bool {
        let mut is_left = false;
        for slot in &self.slots {
            // A locked slot is in use.
            let Some(mut slot) = slot.try_lock() else {
                is_left = true;
                continue;
            };
            if matches!(slot.state, PipeState::Nothing | PipeState::Spoiled) {
                continue;
            }
            if std::mem::take(&mut slot.was_used) {
                is_left = true;
            } else {
                slot.state = PipeState::Nothing;
            }
        }
        is_left
    }
}

impl<'a> WorkerPipes<'a> {
    /// Returns a free pipe slot for an answer with `length` bytes of contents, preferably one whose
    /// pipe is open. Returns `None` if the caller must copy the contents instead.
    pub(super) fn take(self, length: usize) -> Option<PipeLease<'a>> {
        let Self { pipes, first } = self;
        if length < LEAST_BYTES {
            return None;
        }
        let (before, from) = pipes.slots.split_at(first % pipes.slots.len());
        let mut empty = None;
        // A locked slot is skipped (I2).
        for slot in from.iter().chain(before).filter_map(|slot| slot.try_lock()) {
            match &slot.state {
                // Another pipe would have no more room.
                PipeState::Open(pipe) => {
                    return pipe.takes(length).then_some(PipeLease { pipes, slot });
                }
                PipeState::Nothing => {
                    empty.get_or_insert(slot);
                }
                PipeState::Refused | PipeState::Spoiled => {}
            }
        }
        empty.map(|slot| PipeLease { pipes, slot })
    }
}

impl PipeLease<'_> {
    /// Sends an answer. `fill` puts its `length` bytes of contents into the pipe. Returns `false`
    /// if the caller must copy the contents instead.
    pub(super) fn send(
        mut self,
        length: usize,
        to: BorrowedFd<'_>,
        header: &OutHeader,
        fill: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> bool {
        if length < LEAST_BYTES {
            return false;
        }
        self.slot.was_used = true;
        if matches!(self.slot.state, PipeState::Nothing) {
            let opened = Pipe::open().ok().filter(|pipe| pipe.takes(LEAST_BYTES));
            self.slot.state = opened.map_or(PipeState::Refused, PipeState::Open);
            (self.pipes.on_open)();
        }
        let PipeState::Open(pipe) = &self.slot.state else { return false };
        if !pipe.takes(length) {
            return false;
        }
        let is_sent = pipe.send(to, header, fill);
        if !is_sent {
            self.slot.state = PipeState::Spoiled;
        }
        is_sent
    }
}

impl Pipe {
    /// Opens a pipe that can hold the longest answer, or as much as the system permits.
    fn open() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // The header takes a buffer of one page, and so does each page that the contents touch.
        let around = 2 * rustix::param::page_size();
        let all = MAX_WRITE_BYTES as usize;
        // If the limit forbids the larger size, try the size that the limit allows.
        let _ =
            fcntl_setpipe_size(&writer, all + around).or_else(|_| fcntl_setpipe_size(&writer, all));
        let most_bytes = fcntl_getpipe_size(&writer)?.saturating_sub(around);
        Ok(Self { reader, writer, most_bytes })
    }

    /// Returns whether `length`, the number of bytes of an answer's contents, is neither too small
    /// nor too large for this pipe.
    fn takes(&self, length: usize) -> bool {
        (LEAST_BYTES..=self.most_bytes).contains(&length)
    }

    /// Sends an answer. `fill` puts the answer's contents into the pipe. Returns `false` if `fill`
    /// did not supply all contents or the kernel did not take the whole answer. Then the pipe must
    /// not be used again (I1).
    fn send(
        &self,
        to: BorrowedFd<'_>,
        header: &OutHeader,
        fill: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> bool {
        let head = header.as_bytes();
        let length = header.length as usize;
        let has_head = rustix::io::write(&self.writer, head).is_ok_and(|put| put == head.len());
        let is_full =
            has_head && fill(self.writer.as_fd()).is_ok_and(|put| head.len() + put == length);
        if !is_full {
            return false;
        }
        // The kernel takes an answer as a whole, even if no caller waits for it any more.
        match splice(&self.reader, None, to, None, length, SpliceFlags::empty()) {
            Ok(sent) => sent == length,
            Err(errno) => errno == Errno::NOENT,
        }
    }
}

#[cfg(test)]
mod tests;
