//! An answer to the kernel, in a buffer that each worker keeps.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::pages::Pages;
use super::pipe::{PipeLease, WorkerPipes};
use super::wire::{NOTICE_STALE_INODE, OutHeader, StaleInode};

/// An answer that is being written. It has no bytes until a handler adds some.
///
/// The buffer only grows, and what lies behind the answer is left as it is: clearing a megabyte for
/// each read would cost as much as the read.
#[derive(Default)]
pub struct Reply<'a> {
    buffer: Buffer<'a>,
    /// Bytes of the body so far.
    length: usize,
    /// The node of which the kernel is told first that its attributes have changed.
    stale_attributes: Option<u64>,
    /// The node of which the kernel is told afterwards that its contents have changed.
    stale_contents: Option<u64>,
    /// Which request it answers, and how it can be sent before it is returned.
    target: Option<PipeTarget<'a>>,
    is_sent: bool,
}

/// A way to the kernel through a pipe.
struct PipeTarget<'a> {
    unique: u64,
    pipes: WorkerPipes<'a>,
    to: BorrowedFd<'a>,
}

/// Where the body is written.
#[derive(Debug)]
enum Buffer<'a> {
    /// Behind the place of its header.
    Own(Pages),
    /// From where the kernel takes it.
    Lent(&'a mut [u8]),
}

impl Default for Buffer<'_> {
    fn default() -> Self {
        Self::Own(Pages::default())
    }
}

/// What is sent in front of the body lies before it.
const HEADER_BYTES: usize = size_of::<OutHeader>();

impl Buffer<'_> {
    fn body(&self) -> &[u8] {
        match self {
            Self::Own(pages) => pages.bytes().get(HEADER_BYTES..).unwrap_or_default(),
            Self::Lent(room) => room,
        }
    }

    fn body_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(pages) => pages.bytes_mut().get_mut(HEADER_BYTES..).unwrap_or_default(),
            Self::Lent(room) => room,
        }
    }
}

impl<'a> Reply<'a> {
    /// An answer that is written into this memory as long as it fits, without its header.
    pub(crate) fn into_room(room: &'a mut [u8]) -> Self {
        Self { buffer: Buffer::Lent(room), ..Self::default() }
    }

    /// An answer that can be sent to a device through one of these pipes.
    pub(super) fn through_pipes(pipes: WorkerPipes<'a>, to: BorrowedFd<'a>) -> Self {
        Self { target: Some(PipeTarget { unique: 0, pipes, to }), ..Self::default() }
    }

    /// Forgets the answer before. This one is to the request of that number.
    pub(super) fn begin(&mut self, unique: u64) {
        self.clear();
        if let Some(target) = &mut self.target {
            target.unique = unique;
        }
    }

    /// Whether it has been sent, so that nothing is to be sent any more.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// A pipe, where so many bytes of contents are best sent by [`send_through_pipe`](Self::send_through_pipe).
    pub(crate) fn pipe_for(&self, length: usize) -> Option<PipeLease<'a>> {
        if self.is_new() { self.target.as_ref()?.pipes.take(length) } else { None }
    }

    fn is_new(&self) -> bool {
        self.length == 0 && self.stale_attributes.is_none() && !self.is_sent
    }

    /// Sends an answer that is so many bytes of contents, which `fill` puts into the pipe; it says how many it
    /// has put. The request is answered then. Where it returns `false` it is not: those are to be copied.
    pub(crate) fn send_through_pipe(
        &mut self,
        pipe: PipeLease<'_>,
        length: usize,
        fill: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> bool {
        let Some(PipeTarget { unique, to, .. }) = self.target.as_ref().filter(|_| self.is_new())
        else {
            return false;
        };
        let header =
            OutHeader { length: (HEADER_BYTES + length) as u32, error: 0, unique: *unique };
        self.is_sent = pipe.send(length, *to, &header, fill);
        self.is_sent
    }

    /// Forgets the answer before.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        (self.stale_attributes, self.stale_contents) = (None, None);
        self.is_sent = false;
    }

    /// Has the kernel forget the attributes of a node before it gets this answer, whatever it says: where
    /// a request changes more than the kernel accounts for.
    pub(crate) fn invalidate_attributes(&mut self, node: u64) {
        self.stale_attributes = Some(node);
    }

    /// The message for that, which is sent before the answer. The kernel waits for nothing to take it,
    /// as it is about attributes and not about contents.
    pub(crate) fn notice(&self) -> Option<StaleInode> {
        Some(stale_inode(self.stale_attributes?, -1))
    }

    /// Has the kernel drop what it holds of a file, once it has this answer, whatever it says: where a request
    /// that fails has changed the contents. Another thread tells it, as that may have to wait for pages that a
    /// worker has to fill.
    pub(crate) fn invalidate_contents(&mut self, node: u64) {
        self.stale_contents = Some(node);
    }

    /// The node for which that is to be done.
    pub(crate) fn stale_contents(&self) -> Option<u64> {
        self.stale_contents
    }

    /// Adds a structure.
    pub(crate) fn add<T: IntoBytes + Immutable>(&mut self, part: &T) {
        self.add_bytes(part.as_bytes());
    }

    /// Adds bytes.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// How many bytes the body has.
    pub(crate) fn body_length(&self) -> usize {
        self.length
    }

    /// The body.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.body().get(..self.length).unwrap_or_default()
    }

    /// The answer, if it did not stay in the memory that was lent for it; else as it was.
    pub(crate) fn moved(self) -> Result<Reply<'static>, Self> {
        match self.buffer {
            Buffer::Own(pages) => Ok(Reply {
                buffer: Buffer::Own(pages),
                length: self.length,
                stale_attributes: self.stale_attributes,
                stale_contents: self.stale_contents,
                ..Reply::default()
            }),
            Buffer::Lent(_) => Err(Self { target: None, is_sent: false, ..self }),
        }
    }

    /// Adds up to `most` bytes: `fill` gets the room for them and returns how many it has written.
    pub(crate) fn fill_with(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        self.length += fill(self.room(most))?.min(most);
        Ok(())
    }

    /// So many bytes behind the answer.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        if self.buffer.body().len() < end {
            self.grow(end);
        }
        self.buffer.body_mut().get_mut(self.length..end).unwrap_or_default()
    }

    /// Room for `end` bytes at the least, with what was added so far. The body starts a page: it may be
    /// what was read from a file.
    fn grow(&mut self, end: usize) {
        let larger = Pages::new(HEADER_BYTES + end.max(2 * self.length), HEADER_BYTES);
        let mut larger = Buffer::Own(larger);
        let old = self.body();
        if let Some(place) = larger.body_mut().get_mut(..old.len()) {
            place.copy_from_slice(old);
        }
        self.buffer = larger;
    }

    /// The header, and without the body where it is an error.
    pub(crate) fn header(&mut self, unique: u64, outcome: Result<(), Errno>) -> OutHeader {
        let error = match outcome {
            Ok(()) => 0,
            Err(errno) => {
                self.length = 0;
                -errno.raw_os_error()
            }
        };
        OutHeader { length: (HEADER_BYTES + self.length) as u32, error, unique }
    }

    /// The bytes to send.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let header = self.header(unique, outcome);
        let has_place = matches!(&self.buffer, Buffer::Own(pages) if !pages.bytes().is_empty());
        if !has_place {
            self.grow(self.length);
        }
        let Buffer::Own(pages) = &mut self.buffer else { return &[] };
        // Pages that are not empty have the place for it in front of the body.
        let _ = header.write_to_prefix(pages.bytes_mut());
        pages.bytes().get(..HEADER_BYTES + self.length).unwrap_or_default()
    }
}

/// The message that what the kernel knows of a node is out of date: its attributes, and from `offset` on
/// its contents, unless that is negative.
pub(super) fn stale_inode(node: u64, offset: i64) -> StaleInode {
    let length = size_of::<StaleInode>() as u32;
    let header = OutHeader { length, error: NOTICE_STALE_INODE, unique: 0 };
    StaleInode { header, node, offset, length: 0 }
}

#[cfg(test)]
mod tests;
