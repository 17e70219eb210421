//! An answer to the kernel, in a buffer that each worker keeps.

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::pages::Pages;
use super::wire::{NOTICE_STALE_INODE, OutHeader, StaleInode};

/// An answer that is being written. It has no bytes until a handler adds some.
///
/// The buffer only grows, and what lies behind the answer is left as it is: clearing a megabyte for
/// each read would cost as much as the read.
#[derive(Debug, Default)]
pub struct Reply {
    buffer: Pages,
    /// Bytes of the answer: the header, whose place is kept free, and the body.
    length: usize,
    /// The node of which the kernel is told first that its attributes have changed.
    outdated: Option<u64>,
}

impl Reply {
    /// Forgets the answer before.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        self.outdated = None;
        self.add(&OutHeader::default());
    }

    /// Has the kernel forget the attributes of a node before it gets this answer, whatever it says: where
    /// a request changes more than the kernel accounts for.
    pub(crate) fn outdate(&mut self, node: u64) {
        self.outdated = Some(node);
    }

    /// The message for that, which is sent before the answer. The kernel waits for nothing to take it,
    /// as it is about attributes and not about contents.
    pub(crate) fn notice(&self) -> Option<StaleInode> {
        Some(stale_inode(self.outdated?, -1))
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
        self.length.saturating_sub(size_of::<OutHeader>())
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
        if self.buffer.bytes().len() < end {
            self.grow(end);
        }
        self.buffer.bytes_mut().get_mut(self.length..end).unwrap_or_default()
    }

    /// Room for `end` bytes at the least, with what was added so far. The body starts a page: it may be
    /// what was read from a file.
    fn grow(&mut self, end: usize) {
        let mut larger = Pages::new(end.max(2 * self.length), size_of::<OutHeader>());
        let old = self.buffer.bytes().get(..self.length).unwrap_or_default();
        if let Some(place) = larger.bytes_mut().get_mut(..old.len()) {
            place.copy_from_slice(old);
        }
        self.buffer = larger;
    }

    /// The bytes to send.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let error = match outcome {
            Ok(()) => 0,
            Err(errno) => {
                self.length = size_of::<OutHeader>();
                -errno.raw_os_error()
            }
        };
        let header = OutHeader { length: self.length as u32, error, unique };
        // The place for it is there since `clear`.
        let _ = header.write_to_prefix(self.buffer.bytes_mut());
        self.buffer.bytes().get(..self.length).unwrap_or_default()
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
