//! The virtual disk inside an image file, as a device.
//!
//! Owns: the device type for all formats, and the trait by which a format locates the bytes of its
//! disk. Does **not** own the formats.
//!
//! # Writing
//!
//! A disk is written only if its map stores every byte of it in place: then a write changes no
//! table of the image, and the order of writes and flushes is that of the image file. All other
//! disks are read-only. If such an image were written, a crash between the write of the data and
//! that of the tables could lose writes on which the XFS log of the volume relies.

use std::io;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, SharedDevice, check_read, check_write};

const SECTOR_BYTES: u32 = 512;

/// Where a range of a virtual disk is stored.
#[derive(Clone, Copy)]
pub(crate) enum Location<'a> {
    /// The range is not stored, and reads as zeros.
    Zeros,
    /// The range is not stored in this image. The disk below the image (its backing file) has the
    /// range, at the same offset.
    Below(&'a SharedDevice),
    /// The range is stored in the file from this byte on.
    Stored(&'a SharedDevice, u64),
    /// The range is in a block that is not stored as plain bytes, such as a compressed one.
    /// [`BlockMap::read_encoded`] reads it. Only the map knows the meaning of the number.
    Encoded(u64),
}

/// The location of a range of the virtual disk, and the length of the range in bytes.
pub(crate) struct Run<'a> {
    pub(crate) location: Location<'a>,
    pub(crate) length_bytes: u64,
}

/// The map from offsets of a virtual disk to bytes of image files.
pub(crate) trait BlockMap: Send + Sync {
    /// Returns the length of the virtual disk in bytes.
    fn length_bytes(&self) -> u64;

    /// Returns where the byte at `offset` of the virtual disk is stored, and how many bytes from
    /// there on have the same kind of location.
    ///
    /// # Errors
    ///
    /// The error of a file, and an error for damaged tables.
    fn find(&self, offset: u64) -> io::Result<Run<'_>>;

    /// Reads a part of an encoded block into `piece`. The part starts at `offset` of the virtual
    /// disk and does not leave the block. `encoded` is the value that `find` has returned.
    ///
    /// # Errors
    ///
    /// The error of a file, and an error for a block that cannot be decoded.
    fn read_encoded(&self, offset: u64, encoded: u64, piece: &mut [u8]) -> io::Result<()>;

    /// Returns the files that hold the bytes of a disk that is written in place.
    fn files(&self) -> Vec<&SharedDevice>;
}

/// The virtual disk inside an image.
pub(crate) struct ImageDevice<M> {
    map: M,
    is_writable: bool,
}

impl<M: BlockMap> ImageDevice<M> {
    /// Creates a device that refuses writes.
    pub(crate) fn read_only(map: M) -> Self {
        Self { map, is_writable: false }
    }

    /// Creates a device over a map that stores every byte of the disk in place. The device is
    /// writable if all files are.
    pub(crate) fn in_place(map: M) -> Self {
        let is_writable = map.files().iter().all(|file| !file.is_read_only());
        Self { map, is_writable }
    }

    /// Returns the location of the range that starts at `offset` of the disk. If the bytes after
    /// this range continue it in the same file, they belong to the returned range too, up to
    /// `wanted` bytes in all.
    fn joined(&self, offset: u64, wanted: u64) -> io::Result<Run<'_>> {
        let mut run = self.map.find(offset)?;
        run.length_bytes = run.length_bytes.max(1);
        let Location::Stored(file, start) = run.location else { return Ok(run) };
        while run.length_bytes < wanted {
            let next = self.map.find(offset + run.length_bytes)?;
            match next.location {
                Location::Stored(other, at)
                    if Arc::ptr_eq(file, other)
                        && start.checked_add(run.length_bytes) == Some(at)
                        && next.length_bytes > 0 =>
                {
                    run.length_bytes = run.length_bytes.saturating_add(next.length_bytes);
                }
                _ => break,
            }
        }
        Ok(run)
    }
}

impl<M: BlockMap> BlockDevice for ImageDevice<M> {
    fn length_bytes(&self) -> u64 {
        self.map.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        !self.is_writable
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let run = self.joined(at, rest.len() as u64)?;
            let length = usize::try_from(run.length_bytes).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) =
                rest.split_at_mut_checked(length).expect("a piece is not longer than the buffer");
            match run.location {
                Location::Zeros => piece.fill(0),
                Location::Below(disk) => read_below(&**disk, piece, at)?,
                Location::Stored(file, start) => file.read_at(piece, start)?,
                Location::Encoded(encoded) => self.map.read_encoded(at, encoded, piece)?,
            }
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let run = self.joined(at, rest.len() as u64)?;
            let Location::Stored(file, start) = run.location else {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied));
            };
            let length = usize::try_from(run.length_bytes).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) =
                rest.split_at_checked(length).expect("a piece is not longer than the bytes");
            file.write_at(piece, start, durability)?;
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_writable {
            self.map.files().into_iter().try_for_each(|file| file.flush())?;
        }
        Ok(())
    }

    fn check_length(&self) -> io::Result<()> {
        self.map.files().into_iter().try_for_each(|file| file.check_length())
    }

    /// Does nothing: the blocks of a disk that is written in place stay allocated.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))
    }
}

/// Reads from the disk below an image. The bytes past the end of that disk are zeros.
fn read_below(disk: &dyn BlockDevice, piece: &mut [u8], offset: u64) -> io::Result<()> {
    let there = disk.length_bytes().saturating_sub(offset);
    let there = usize::try_from(there).unwrap_or(usize::MAX).min(piece.len());
    let (stored, past_end) =
        piece.split_at_mut_checked(there).expect("a part is not longer than the piece");
    past_end.fill(0);
    if stored.is_empty() { Ok(()) } else { disk.read_at(stored, offset) }
}
