//! Reading and writing a regular file.

mod ranges;

use std::io::{self, Read, Seek, SeekFrom, Write};

use xfs_buffer::PosixError;

use crate::Result;
use crate::errno::to_io_error;
use crate::metadata::Metadata;
use crate::node::Node;
use crate::writing::check_contents_mutable;

pub use ranges::{AllocateMode, RangeMode};

/// A regular file that is open: for reading, and for writing where its volume is.
///
/// Every method that takes an offset may be called from any thread; [`Read`], [`Write`] and
/// [`Seek`] go through a position of this handle's own. What is written is durable once
/// [`sync_all`](Self::sync_all), [`sync_data`](Self::sync_data) or
/// [`Volume::sync`](crate::Volume::sync) has returned.
#[derive(Clone, Debug)]
pub struct File {
    node: Node,
    position: u64,
}

impl File {
    pub(crate) fn new(node: Node) -> Self {
        Self { node, position: 0 }
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
        let entry = self.node.writable().ok().map(|(_, entry)| entry);
        let _contents = entry.map(|entry| entry.contents().read());
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

    /// Writes at byte `offset` and returns how many bytes were written: all of them, unless the
    /// volume became full on the way. What lies between the end of the file and `offset` reads as
    /// zeros. The data is on the device before the file shows it, so that a crash exposes nothing
    /// that was there before.
    ///
    /// # Errors
    ///
    /// EROFS, ENOSPC, EFBIG, EPERM for an immutable file; the device's error.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let (parts, entry) = self.node.writable()?;
        let _contents = entry.contents().write();
        check_contents_mutable(&entry.core(), offset)?;
        let (live, now) = (entry.live(), parts.clock.now());
        parts.with_room(|| live.write_at(&parts.journal, offset, bytes, now))
    }

    /// Sets the length: what is cut off is freed, what is added reads as zeros.
    ///
    /// # Errors
    ///
    /// EROFS, EFBIG, ENOSPC, EPERM; the device's error.
    pub fn set_len(&self, length_bytes: u64) -> Result<()> {
        let (parts, entry) = self.node.writable()?;
        let _contents = entry.contents().write();
        check_contents_mutable(&entry.core(), 0)?;
        entry.live().truncate(&parts.journal, length_bytes, parts.clock.now())
    }

    /// Returns when the data and everything of the inode is durable, its names included where they
    /// were made before.
    ///
    /// # Errors
    ///
    /// EROFS; what stopped the log. The volume is shut down then.
    pub fn sync_all(&self) -> Result<()> {
        let (parts, entry) = self.node.writable()?;
        parts.sync(entry)
    }

    /// Returns when the data, and what is needed to read it, is durable.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buffer).map_err(to_io_error)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write_at(self.position, bytes).map_err(to_io_error)?;
        self.position += written as u64;
        Ok(written)
    }

    /// Nothing is kept back: use [`File::sync_all`] to have it durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.metadata().size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl Node {
    /// This regular file, for reading and writing.
    pub(crate) fn as_file(&self) -> Result<File> {
        match self.file_type() {
            crate::FileType::Regular => Ok(File::new(self.clone())),
            crate::FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }
}
