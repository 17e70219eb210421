//! An answer to the kernel, in a buffer that each worker reuses.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::pages::Pages;
use super::pipe::{PipeLease, WorkerPipes};
use super::wire::{NOTICE_STALE_INODE, OutHeader, StaleInode};

/// An answer under construction. The body is empty until a handler adds bytes.
///
/// The buffer only grows, and bytes past the end of the answer keep old values. Clearing a megabyte
/// for each read would cost as much as the read.
#[derive(Default)]
pub struct Reply<'a> {
    buffer: Buffer<'a>,
    /// Length of the body so far, in bytes.
    length: usize,
    /// The node whose cached attributes the kernel must drop before it gets the answer.
    stale_attributes: Option<u64>,
    /// The node whose cached contents the kernel must drop after it has the answer.
    stale_contents: Option<u64>,
    /// The request and the pipes through which the answer can be sent before the handler returns.
    /// `None` if the answer can only be sent afterwards.
    target: Option<PipeTarget<'a>>,
    is_sent: bool,
}

/// A way to the kernel through a pipe.
struct PipeTarget<'a> {
    unique: u64,
    pipes: WorkerPipes<'a>,
    to: BorrowedFd<'a>,
}

/// The memory of the body.
#[derive(Debug)]
enum Buffer<'a> {
    /// Our own memory, with room for the header before the body.
    Own(Pages),
    /// Memory from which the kernel takes the answer.
    Lent(&'a mut [u8]),
}

impl Default for Buffer<'_> {
    fn default() -> Self {
        Self::Own(Pages::default())
    }
}

/// The header precedes the body.
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
    /// Creates an answer that uses `room` for its body as long as the body fits.
    pub(crate) fn into_room(room: &'a mut [u8]) -> Self {
        Self { buffer: Buffer::Lent(room), ..Self::default() }
    }

    /// Creates an answer that can be sent to a device through one of these pipes.
    pub(super) fn through_pipes(pipes: WorkerPipes<'a>, to: BorrowedFd<'a>) -> Self {
        Self { target: Some(PipeTarget { unique: 0, pipes, to }), ..Self::default() }
    }

    /// Discards the previous answer and starts one to the request `unique`.
    pub(super) fn begin(&mut self, unique: u64) {
        self.clear();
        if let Some(target) = &mut self.target {
            target.unique = unique;
        }
    }

    /// Returns whether the answer has been sent already.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Returns a pipe, or `None` if `length` bytes of contents are not best sent by
    /// [`send_through_pipe`](Self::send_through_pipe).
    pub(crate) fn pipe_for(&self, length: usize) -> Option<PipeLease<'a>> {
        if self.is_new() { self.target.as_ref()?.pipes.take(length) } else { None }
    }

    fn is_new(&self) -> bool {
        self.length == 0 && self.stale_attributes.is_none() && !self.is_sent
    }

    /// Sends an answer that consists of `length` bytes of contents. `fill` puts them into the pipe
    /// and returns how many it has put. Returns `true` if the request is answered, `false` if the
    /// caller must copy instead.
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

    /// Discards the previous answer.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        (self.stale_attributes, self.stale_contents) = (None, None);
        self.is_sent = false;
    }

    /// Makes the kernel drop the attributes of a node before it gets this answer, whether the
    /// answer is an error or not. Needed where a request changes more than the kernel accounts for.
    pub(crate) fn invalidate_attributes(&mut self, node: u64) {
        self.stale_attributes = Some(node);
    }

    /// Returns the notification that makes the kernel drop a node's attributes, which is sent
    /// before the answer. The kernel accepts this notification without waiting, as it does not
    /// concern contents.
    pub(crate) fn notice(&self) -> Option<StaleInode> {
        Some(stale_inode(self.stale_attributes?, -1))
    }

    /// Makes the kernel drop the contents of a file once it has this answer, whether the answer is
    /// an error or not. Needed where a failed request has changed the contents. Another thread
    /// sends the notification, because sending it may wait for pages that a worker must fill.
    pub(crate) fn invalidate_contents(&mut self, node: u64) {
        self.stale_contents = Some(node);
    }

    /// Returns the node whose contents the kernel must drop, if any.
    pub(crate) fn stale_contents(&self) -> Option<u64> {
        self.stale_contents
    }

    /// Appends a structure.
    pub(crate) fn add<T: IntoBytes + Immutable>(&mut self, part: &T) {
        self.add_bytes(part.as_bytes());
    }

    /// Appends bytes.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Returns the length of the body.
    pub(crate) fn body_length(&self) -> usize {
        self.length
    }

    /// Returns the body.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.body().get(..self.length).unwrap_or_default()
    }

    /// Returns the answer as `Ok` if it outgrew the borrowed memory, and otherwise `self` unchanged
    /// as `Err`.
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

    /// Appends up to `most` bytes. `fill` gets the room for them and returns how many it has
    /// written.
    pub(crate) fn fill_with(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        self.length += fill(self.room(most))?.min(most);
        Ok(())
    }

    /// Returns the next `length` bytes of the buffer.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        if self.buffer.body().len() < end {
            self.grow(end);
        }
        self.buffer.body_mut().get_mut(self.length..end).unwrap_or_default()
    }

    /// Makes room for at least `end` bytes and keeps the bytes added so far. The body starts at a
    /// page boundary, as it may be data read from a file.
    fn grow(&mut self, end: usize) {
        let larger = Pages::new(HEADER_BYTES + end.max(2 * self.length), HEADER_BYTES);
        let mut larger = Buffer::Own(larger);
        let old = self.body();
        if let Some(place) = larger.body_mut().get_mut(..old.len()) {
            place.copy_from_slice(old);
        }
        self.buffer = larger;
    }

    /// Returns the header. If `outcome` is an error, the body becomes empty.
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

    /// Returns the bytes to send.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let header = self.header(unique, outcome);
        let has_place = matches!(&self.buffer, Buffer::Own(pages) if !pages.bytes().is_empty());
        if !has_place {
            self.grow(self.length);
        }
        let Buffer::Own(pages) = &mut self.buffer else { return &[] };
        // Non-empty pages have room for the header before the body.
        let _ = header.write_to_prefix(pages.bytes_mut());
        pages.bytes().get(..HEADER_BYTES + self.length).unwrap_or_default()
    }
}

/// Returns the notification that the kernel's cached state of a node is out of date: its
/// attributes, and its contents from `offset` on, unless `offset` is negative.
pub(super) fn stale_inode(node: u64, offset: i64) -> StaleInode {
    let length = size_of::<StaleInode>() as u32;
    let header = OutHeader { length, error: NOTICE_STALE_INODE, unique: 0 };
    StaleInode { header, node, offset, length: 0 }
}

#[cfg(test)]
mod tests;
