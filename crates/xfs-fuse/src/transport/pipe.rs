//! A way for contents from the image to the kernel that does not lead through our memory.
//!
//! Owns: the pipes of a mount, and sending what was put into one. Does **not** own: what is put there.
//!
//! Room in pipes is a user's share, of all of his programs together: so a mount has few, opens one when an answer
//! is put into it, and gives back those that rest. Who finds none that is free copies.
//!
//! What a pipe holds are references to the host's memory of the image, so it shows what is written there
//! until it has been sent; who fills it sees to it that nothing is. The kernel copies from it what it keeps.
//!
//! # Invariants
//!
//! - **I1** A pipe is empty before an answer is put into it. One that may not be is closed, and none comes in its place.
//! - **I2** Nobody waits for a pipe.

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

/// An answer with less contents is copied sooner than put into a pipe.
const LEAST_BYTES: usize = 64 << 10;
/// A mount has no more pipes: of 1 MiB each they are a sixteenth of what the system lets a user have by default.
const MOST_PIPES: usize = 4;
/// After so long without an answer pipes are given back, or after twice that.
pub(super) const REST: Duration = Duration::from_secs(10);

/// The pipes of a mount.
pub(super) struct Pipes {
    slots: Box<[CachePadded<Mutex<PipeSlot, Slot>>]>,
    /// Told when there is something that [`rest`](Self::rest) takes away.
    on_open: Box<dyn Fn() + Send + Sync>,
}

/// Where a pipe may be. Who holds its lock may use it.
#[derive(Default)]
struct PipeSlot {
    state: PipeState,
    /// Since the others were last given back.
    was_used: bool,
}

#[derive(Default)]
enum PipeState {
    #[default]
    Nothing,
    Open(Pipe),
    /// The system gave none that is large enough; it is asked again after a [rest](REST).
    Refused,
    /// Did not take what was put into it, or did not send it.
    Spoiled,
}

/// The pipes as one worker takes them.
#[derive(Clone, Copy)]
pub(super) struct WorkerPipes<'a> {
    pipes: &'a Pipes,
    /// Where he looks first, so that workers seldom meet.
    first: usize,
}

/// A pipe that one answer may be sent through, or the place for one.
pub(crate) struct PipeLease<'a> {
    pipes: &'a Pipes,
    slot: MutexGuard<'a, PipeSlot>,
}

/// A pipe.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// The most contents for which there is room.
    most_bytes: usize,
}

impl Pipes {
    /// None yet. `on_open` is called by who opens the first, and some others.
    pub(super) fn new(on_open: impl Fn() + Send + Sync + 'static) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (0..processors.min(MOST_PIPES)).map(|_| CachePadded::default()).collect();
        Self { slots, on_open: Box::new(on_open) }
    }

    /// The pipes for the worker of this index.
    pub(super) fn of(&self, index: usize) -> WorkerPipes<'_> {
        WorkerPipes { pipes: self, first: index }
    }

    /// Gives back what nobody has used since this was called last. Whether something is left for the next time.
    pub(super) fn rest(&self) -> bool {
        let mut is_left = false;
        for slot in &self.slots {
            // One whose lock is held is being used.
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
    /// One for an answer with so many bytes of contents: one that is open, sooner than the place for another.
    pub(super) fn take(self, length: usize) -> Option<PipeLease<'a>> {
        let Self { pipes, first } = self;
        if length < LEAST_BYTES {
            return None;
        }
        let (before, from) = pipes.slots.split_at(first % pipes.slots.len());
        let mut empty = None;
        for slot in from.iter().chain(before).filter_map(|slot| slot.try_lock()) {
            match &slot.state {
                // Another one would have no more room.
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
    /// Sends an answer whose so many bytes of contents `fill` puts into the pipe. `false`: it is to be copied.
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
    /// One with room for the longest answer, or for as much as the system gives.
    fn open() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // A header takes a place, which has room for a page; so does each page that contents touch.
        let around = 2 * rustix::param::page_size();
        let all = MAX_WRITE_BYTES as usize;
        // Who may not have more than the system's limit has that.
        let _ =
            fcntl_setpipe_size(&writer, all + around).or_else(|_| fcntl_setpipe_size(&writer, all));
        let most_bytes = fcntl_getpipe_size(&writer)?.saturating_sub(around);
        Ok(Self { reader, writer, most_bytes })
    }

    /// Whether an answer with so many bytes of contents is one for it.
    fn takes(&self, length: usize) -> bool {
        (LEAST_BYTES..=self.most_bytes).contains(&length)
    }

    /// Sends an answer whose contents `fill` puts into the pipe. `false`: not all of them were put there, or
    /// not sent, and the pipe is not to be used any more (I1).
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
        // The kernel takes an answer as a whole, also where nobody waits for it any more.
        match splice(&self.reader, None, to, None, length, SpliceFlags::empty()) {
            Ok(sent) => sent == length,
            Err(errno) => errno == Errno::NOENT,
        }
    }
}

#[cfg(test)]
mod tests;
