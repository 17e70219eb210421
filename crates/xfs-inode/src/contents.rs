//! Reading the contents of a regular file.
//!
//! Owns: reads at an offset across written extents, unwritten extents and holes, and the search for
//! data and holes. Does **not** own a cache of file data. Bytes go from the device to the caller,
//! in one request per extent.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{BufferCache, IoError, PosixError, Result};
use xfs_device::BlockDevice;
use xfs_format::extent::{Extent, ExtentCheck};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::superblock::Unsupported;
use xfs_format::{BASIC_BLOCK_BYTES, DiskAddr, FileBlock, FsBlock, Geometry};

use crate::extent_map::{ExtentMap, Mapping};
use crate::fork::corrupt;
use crate::inode::Inode;

impl Inode {
    /// Reads from byte `offset` on, and returns the number of bytes read. Fewer bytes than
    /// requested are read only at the end of the file.
    ///
    /// # Errors
    ///
    /// [`PosixError::IsDirectory`] or [`PosixError::InvalidArgument`] if this is not a regular
    /// file; [`Unsupported::RealtimeData`] if the file is on a realtime device, and the volume was
    /// opened without this device; the device's error; the check that failed.
    pub fn read_at(&self, cache: &BufferCache, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let map = self.contents_map(cache)?;
        let device = self.contents_device(cache)?;
        let left = usize::try_from(self.core().size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut rest = buffer.split_at_mut(wanted).0;
        let mut at = offset;
        while !rest.is_empty() {
            let mapping = map.find(cache.geometry().file_block(at));
            let here = bytes_until(mapping.end(), at, cache.geometry());
            let here = usize::try_from(here).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) = rest.split_at_mut(here);
            match mapping {
                Mapping::Extent(extent) if !extent.unwritten => {
                    let address = self.address(cache.geometry(), &extent, at)?;
                    read_piece(&**device, address, piece)?;
                }
                _ => piece.fill(0),
            }
            rest = after;
            at = at.saturating_add(here as u64);
        }
        Ok(wanted)
    }

    /// Returns the byte range on the data device that [`read_at`](Self::read_at) would read.
    /// Returns `None` unless all of these bytes lie in one written extent on the data device.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at).
    pub fn device_range(
        &self,
        cache: &BufferCache,
        offset: u64,
        length: usize,
    ) -> Result<Option<Range<u64>>> {
        let (map, geometry) = (self.contents_map(cache)?, cache.geometry());
        let wanted = self.core().size.saturating_sub(offset).min(length as u64);
        let Mapping::Extent(extent) = map.find(geometry.file_block(offset)) else {
            return Ok(None);
        };
        let is_elsewhere = self.core().is_realtime() && !geometry.realtime.is_internal();
        let has_contents = cache.device().holds_file_contents() && !is_elsewhere;
        if !has_contents
            || extent.unwritten
            || wanted == 0
            || bytes_until(extent.end(), offset, geometry) < wanted
        {
            return Ok(None);
        }
        let start = self.address(geometry, &extent, offset)?;
        Ok(start.checked_add(wanted).map(|end| start..end))
    }

    /// Returns the offset of the first byte at or after `offset` that is not in a hole; `None` if
    /// the rest of the file is a hole. Unwritten extents count as holes.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at).
    #[doc(alias = "SEEK_DATA")]
    pub fn seek_data(&self, cache: &BufferCache, offset: u64) -> Result<Option<u64>> {
        self.seek(cache, offset, true)
    }

    /// Returns the offset of the first byte at or after `offset` that is in a hole, or the size of
    /// the file if there is no hole. Returns `None` if `offset` is not below the size of the file.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at).
    #[doc(alias = "SEEK_HOLE")]
    pub fn seek_hole(&self, cache: &BufferCache, offset: u64) -> Result<Option<u64>> {
        let size = self.core().size;
        let found = self.seek(cache, offset, false)?;
        Ok((offset < size).then(|| found.unwrap_or(size)))
    }

    fn seek(&self, cache: &BufferCache, offset: u64, written: bool) -> Result<Option<u64>> {
        let (map, geometry) = (self.contents_map(cache)?, cache.geometry());
        let size = self.core().size;
        if offset >= size {
            return Ok(None);
        }
        let mut at = offset;
        for mapping in map.mappings_from(geometry.file_block(offset)) {
            if mapping.is_written() == written {
                return Ok(Some(at));
            }
            at = at.saturating_add(bytes_until(mapping.end(), at, geometry));
            if at >= size {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the extent map of the data fork. Returns an error if this is not a regular file, or
    /// its data cannot be read.
    fn contents_map(&self, cache: &BufferCache) -> Result<&ExtentMap> {
        match self.file_type() {
            FileType::Regular => self.extent_map(cache, ForkKind::Data),
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Returns the device that holds the contents: the data device, or the realtime device for a
    /// realtime file.
    fn contents_device<'a>(&self, cache: &'a BufferCache) -> Result<&'a Arc<dyn BlockDevice>> {
        if self.core().is_realtime() {
            return cache.realtime_device().ok_or_else(|| Unsupported::RealtimeData.into());
        }
        Ok(cache.device())
    }

    /// Returns the byte address on the device of the byte at file offset `at`, which lies in
    /// `extent`.
    fn address(&self, geometry: &Geometry, extent: &Extent, at: u64) -> Result<u64> {
        let outside = || {
            let (file_block, start) = (extent.file_block, extent.start);
            let length_blocks = extent.length_blocks;
            let check = ExtentCheck::OutsideVolume { file_block, start, length_blocks };
            corrupt(self.core(), check).into()
        };
        let address = extent_address(geometry, extent.start, self.core().is_realtime());
        let start = geometry.blocks_to_bytes(extent.file_block.0);
        address
            .zip(start)
            .and_then(|(address, start)| address.checked_add(at.checked_sub(start)?))
            .ok_or_else(outside)
    }
}

/// Returns the byte address of a block of file contents: on the realtime device for a realtime
/// file, else on the data device. Returns `None` if there is no such block.
#[must_use]
pub fn extent_address(geometry: &Geometry, block: FsBlock, is_realtime: bool) -> Option<u64> {
    if is_realtime {
        return geometry.blocks_to_bytes(geometry.realtime.device_block(block)?);
    }
    geometry.block_disk_addr(block).and_then(DiskAddr::byte_offset)
}

/// Reads bytes of one written extent into a buffer. `offset` is the address of the first byte on
/// the device.
fn read_piece(device: &dyn BlockDevice, offset: u64, piece: &mut [u8]) -> Result<()> {
    let length_bytes = piece.len() as u64;
    read_contents(device, offset, piece).map_err(|source| {
        let at = DiskAddr(offset / u64::from(BASIC_BLOCK_BYTES));
        IoError::new("read", at, length_bytes, source).into()
    })
}

/// Reads bytes of a file from the device.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] if the device is a metadata image: its zeros must not be taken
/// for contents; the error of the device.
pub(crate) fn read_contents(
    device: &dyn BlockDevice,
    offset: u64,
    into: &mut [u8],
) -> io::Result<()> {
    if !device.holds_file_contents() {
        let message = "a metadata image holds no file contents";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    device.read_at(into, offset)
}

/// Returns the number of bytes from file offset `at` to the start of block `end`; at least 1, so
/// that a loop which advances by this number ends.
fn bytes_until(end: FileBlock, at: u64, geometry: &Geometry) -> u64 {
    let end = geometry.blocks_to_bytes(end.0).unwrap_or(u64::MAX);
    end.saturating_sub(at).max(1)
}

#[cfg(test)]
mod tests;
