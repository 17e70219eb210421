//! Reading a regular file.

use std::io::{self, Read, Seek, SeekFrom};

use crate::Result;
use crate::errno::to_io_error;
use crate::metadata::Metadata;
use crate::node::Node;

/// A regular file open for reading.
///
/// [`read_at`](Self::read_at) may be called from any thread; [`Read`] and [`Seek`] go through a
/// position of this handle's own.
#[derive(Clone, Debug)]
pub struct File {
    node: Node,
    size: u64,
    position: u64,
}

impl File {
    pub(crate) fn new(node: Node) -> Result<Self> {
        let size = node.inode().core().size;
        Ok(Self { node, size, position: 0 })
    }

    /// Metadata.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.node.metadata()
    }

    /// The inode.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Reads from byte `offset` on; returns how many bytes were read, fewer than asked for only at
    /// the end of the file. Holes and unwritten extents read as zeros.
    ///
    /// # Errors
    ///
    /// The device's error; what the volume holds may be corrupt.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.node.inode().read_at(self.node.cache(), offset, buffer)
    }

    /// The first byte at or after `offset` that holds data, or `None` if none follows. Unwritten
    /// extents count as holes.
    ///
    /// # Errors
    ///
    /// What the volume holds may be corrupt.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.node.inode().seek_data(self.node.cache(), offset)
    }

    /// The first byte at or after `offset` that is in a hole; the end of the file is one.
    /// `None` if `offset` is past the end.
    ///
    /// # Errors
    ///
    /// What the volume holds may be corrupt.
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.node.inode().seek_hole(self.node.cache(), offset)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buffer).map_err(to_io_error)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
