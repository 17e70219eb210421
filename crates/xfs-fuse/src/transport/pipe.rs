//! A way for contents from the image to the kernel that does not lead through our memory.
//!
//! Owns: a pipe for each worker, and sending what was put into it. Does **not** own: what is put there.
//!
//! What a pipe holds are references to the host's memory of the image, so it shows what is written there
//! until it has been sent; who fills it sees to it that nothing is. The kernel copies from it what it keeps.
//!
//! # Invariants
//!
//! - **I1** A pipe is empty before an answer is put into it. One that may not be is not used any more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use zerocopy::IntoBytes;

use super::session::MAX_WRITE_BYTES;
use super::wire::OutHeader;

/// An answer with less contents is copied sooner than put into a pipe.
const LEAST_BYTES: usize = 64 << 10;

/// A pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// The most contents for which there is room.
    most_bytes: usize,
}

impl Pipe {
    /// One with room for the longest answer, or for as much as the system gives.
    pub(super) fn open() -> io::Result<Self> {
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
    pub(super) fn takes(&self, length: usize) -> bool {
        (LEAST_BYTES..=self.most_bytes).contains(&length)
    }

    /// Sends an answer whose contents `fill` puts into the pipe. `false`: not all of them were put there, or
    /// not sent, and the pipe is not to be used any more (I1).
    pub(super) fn send(
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
