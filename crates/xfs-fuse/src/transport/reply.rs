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
/// The buffer never shrinks, and bytes past the end of the answer keep their old values. Clearing a
/// megabyte for each read would cost as much as the read.
#[derive(Default)]
pub struct Reply<'a> {
    buffer: ReplyMemory<'a>,
    /// Length in bytes of the body as it is now.
    length: usize,
    /// The node whose cached attributes the kernel must drop before it gets this answer, if any.
    stale_attributes: Option<u64>,
    /// The node whose cached contents the kernel must drop after it has got this answer, if any.
    stale_contents: Option<u64>,
    /// The request and the pipes through which the answer can be sent while the handler runs.
    /// `None` if the answer can be sent only after the handler has returned.
    target: Option<PipeTarget<'a>>,
    is_sent: bool,
}

/// The pipes and the device with which the answer to one request can be sent.
struct PipeTarget<'a> {
    unique: u64,
    pipes: WorkerPipes<'a>,
    to: BorrowedFd<'a>,
}

/// The memory in which the body is built.
#[derive(Debug)]
enum ReplyMemory<'a> {
    /// Memory of this process, with room for the header before the body.
    Own(Pages),
    /// Memory from which the kernel takes the answer directly.
    Lent(&'a mut [u8]),
}

impl Default for ReplyMemory<'_> {
    fn default() -> Self {
        Self::Own(Pages::default())
    }
}

/// Length in bytes of the header, which precedes the body.
const HEADER_BYTES: usize = size_of::<OutHeader>();

impl ReplyMemory<'_> {
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
    /// Creates an answer whose body is built in `room`. A body that does not fit gets other memory.
    pub(crate) fn into_room(room: &'a mut [u8]) -> Self {
        Self { buffer: ReplyMemory::Lent(room), ..Self::default() }
    }

    /// Creates an answer that can be sent to the device `to` through one of these pipes.
    pub(super) fn through_pipes(pipes: WorkerPipes<'a>, to: BorrowedFd<'a>) -> Self {
        Self { target: Some(PipeTarget { unique: 0, pipes, to }), ..Self::default() }
    }

    /// Discards the previous answer and begins the answer to the request with the number `unique`.
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

    /// Returns a pipe for [`send_through_pipe`](Self::send_through_pipe). Returns `None` if the
    /// caller should copy the `length` bytes of contents instead.
    pub(crate) fn pipe_for(&self, length: usize) -> Option<PipeLease<'a>> {
        if self.is_new() { self.target.as_ref()?.pipes.take(length) } else { None }
    }

    fn is_new(&self) -> bool {
        self.length == 0 && self.stale_attributes.is_none() && !self.is_sent
    }

    /// Sends an answer that consists of `length` bytes of contents. `fill` puts them into the pipe
    /// and returns their number. Returns whether the request is answered. If not, the caller must
    /// copy the contents instead.
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

    /// Empties the body and forgets which caches the kernel must drop.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        (self.stale_attributes, self.stale_contents) = (None, None);
        self.is_sent = false;
    }

    /// Makes the kernel drop the cached attributes of a node before it gets this answer, even if
    /// the answer is an error. Needed if a request changes more than the kernel expects.
    pub(crate) fn invalidate_attributes(&mut self, node: u64) {
        self.stale_attributes = Some(node);
    }

    /// Returns the notification that makes the kernel drop a node's cached attributes, or `None` if
    /// none must be dropped. The notification is sent before the answer. The kernel takes it
    /// without waiting, because the notification does not concern contents.
    pub(crate) fn notice(&self) -> Option<StaleInode> {
        Some(stale_inode(self.stale_attributes?, -1))
    }

    /// Makes the kernel drop the cached contents of a file after it has got this answer, even if
    /// the answer is an error. Needed if a failed request has changed the contents. Another thread
    /// sends the notification, because sending it may wait for pages that a worker must fill.
    pub(crate) fn invalidate_contents(&mut self, node: u64) {
        self.stale_contents = Some(node);
    }

    /// Returns the node whose cached contents the kernel must drop, or `None` if there is none.
    pub(crate) fn stale_contents(&self) -> Option<u64> {
        self.stale_contents
    }

    /// Appends a structure to the body.
    pub(crate) fn add<T: IntoBytes + Immutable>(&mut self, part: &T) {
        self.add_bytes(part.as_bytes());
    }

    /// Appends bytes to the body.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Returns the length of the body in bytes.
    pub(crate) fn body_length(&self) -> usize {
        self.length
    }

    /// Returns the body.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.body().get(..self.length).expect("the memory holds the body")
    }

    /// Returns `Ok` with the answer if its body lies in memory of its own, because it did not fit
    /// in the memory that was lent for it. Otherwise returns `Err` with the answer, whose body
    /// stays in the lent memory.
    pub(crate) fn moved(self) -> Result<Reply<'static>, Self> {
        match self.buffer {
            ReplyMemory::Own(pages) => Ok(Reply {
                buffer: ReplyMemory::Own(pages),
                length: self.length,
                stale_attributes: self.stale_attributes,
                stale_contents: self.stale_contents,
                ..Reply::default()
            }),
            ReplyMemory::Lent(_) => Err(Self { target: None, is_sent: false, ..self }),
        }
    }

    /// Appends up to `most` bytes to the body. `fill` writes them into a slice of this length and
    /// returns how many it has written.
    pub(crate) fn fill_with(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        self.length += fill(self.room(most))?.min(most);
        Ok(())
    }

    /// Returns the `length` bytes of the buffer that follow the body.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        if self.buffer.body().len() < end {
            self.grow(end);
        }
        let room = self.buffer.body_mut().get_mut(self.length..end);
        room.expect("the memory was grown to hold the longer body")
    }

    /// Makes room for a body of at least `end` bytes, and keeps the present body. The body starts
    /// at a page boundary, because it may be data read from a file.
    fn grow(&mut self, end: usize) {
        let larger = Pages::new(HEADER_BYTES + end.max(2 * self.length), HEADER_BYTES);
        let mut larger = ReplyMemory::Own(larger);
        let old = self.body();
        let place = larger.body_mut().get_mut(..old.len());
        place.expect("the larger memory holds the old body").copy_from_slice(old);
        self.buffer = larger;
    }

    /// Returns the header of the answer. If `outcome` is an error, empties the body first.
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

    /// Returns the header and the body, ready to be sent.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let header = self.header(unique, outcome);
        let has_place =
            matches!(&self.buffer, ReplyMemory::Own(pages) if !pages.bytes().is_empty());
        if !has_place {
            self.grow(self.length);
        }
        let ReplyMemory::Own(pages) = &mut self.buffer else {
            unreachable!("grown memory belongs to the answer")
        };
        let written = header.write_to_prefix(pages.bytes_mut());
        written.expect("memory that is not empty has room for the header");
        let answer = pages.bytes().get(..HEADER_BYTES + self.length);
        answer.expect("the memory holds the body after the header")
    }
}

/// Returns the notification that makes the kernel drop what it has cached of a node: its
/// attributes, and its contents from `offset` on. A negative `offset` means attributes only.
pub(super) fn stale_inode(node: u64, offset: i64) -> StaleInode {
    let length = size_of::<StaleInode>() as u32;
    let header = OutHeader { length, error: NOTICE_STALE_INODE, unique: 0 };
    StaleInode { header, node, offset, length: 0 }
}

#[cfg(test)]
mod tests;
