//! Reading and writing file data on the device.
//!
//! Owns: the I/O of the bytes of one extent, and filling the rest of the first and last block of a
//! write. Does **not** own the choice of the extent, or the time when its bytes become visible in
//! the file.

use std::sync::Arc;

use xfs_buffer::{BufferCache, IoError, PosixError, Result};
use xfs_device::{BlockDevice, Durability};
use xfs_format::extent::Extent;
use xfs_format::superblock::Unsupported;
use xfs_format::{BASIC_BLOCK_BYTES, DiskAddr, FileBlock, Geometry};

use super::LiveInode;
use super::write::CHUNK_BYTES;
use crate::contents::{extent_address, read_contents};
use crate::edit::BlockRange;

/// The device that holds the contents of a file: the data device, or the realtime device for a
/// realtime file.
#[derive(Clone, Copy)]
pub(super) struct ContentsDevice<'a> {
    device: &'a Arc<dyn BlockDevice>,
    geometry: &'a Geometry,
    is_realtime: bool,
}

impl<'a> ContentsDevice<'a> {
    /// Returns the device of the contents of `live`.
    ///
    /// # Errors
    ///
    /// [`Unsupported::RealtimeData`] for a realtime file without a realtime device.
    pub(super) fn of(live: &LiveInode, cache: &'a BufferCache) -> Result<Self> {
        let geometry = cache.geometry();
        let is_realtime = live.is_realtime(geometry);
        let device = match is_realtime {
            true => cache.realtime_device().ok_or(Unsupported::RealtimeData)?,
            false => cache.device(),
        };
        Ok(Self { device, geometry, is_realtime })
    }

    /// Returns the byte address on the device of file offset `offset`, which lies in `extent`.
    fn address(&self, extent: &Extent, offset: u64) -> Option<u64> {
        let start = extent_address(self.geometry, extent.start, self.is_realtime)?;
        let within = offset.checked_sub(self.geometry.blocks_to_bytes(extent.file_block.0)?)?;
        start.checked_add(within)
    }
}

/// Bytes of a file to be written to the device.
#[derive(Clone, Copy)]
pub(super) struct FileBytes<'a> {
    /// The file offset of the first byte.
    pub(super) offset: u64,
    /// The bytes to write.
    pub(super) bytes: &'a [u8],
}

impl FileBytes<'_> {
    /// Returns the file offset after the last byte.
    pub(super) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

/// Returns the part of `piece` whose blocks lie in `extent`. The extent starts before the end of
/// the piece. The part is empty if the extent ends before the piece.
pub(super) fn clip<'a>(
    piece: FileBytes<'a>,
    extent: &Extent,
    geometry: &Geometry,
) -> FileBytes<'a> {
    let start = geometry.blocks_to_bytes(extent.file_block.0);
    let start = start.expect("the extent starts before the end of the piece");
    // An extent may end past the largest offset; the piece does not.
    let end = geometry.blocks_to_bytes(extent.end().0).unwrap_or(u64::MAX);
    let from = start.saturating_sub(piece.offset);
    let to = end.saturating_sub(piece.offset).min(piece.bytes.len() as u64);
    let bytes = piece.bytes.get(from as usize..to as usize);
    let bytes = bytes.expect("the extent starts before the end of the piece");
    FileBytes { offset: piece.offset.max(start), bytes }
}

fn failed(operation: &'static str, offset: u64, length: usize, source: std::io::Error) -> IoError {
    let at = DiskAddr(offset / u64::from(BASIC_BLOCK_BYTES));
    IoError::new(operation, at, length as u64, source)
}

/// Writes a piece of a file to the device. The whole piece lies in `extent`.
pub(super) fn write(
    target: ContentsDevice<'_>,
    extent: &Extent,
    piece: FileBytes<'_>,
) -> Result<()> {
    if piece.bytes.is_empty() {
        return Ok(());
    }
    let offset = target.address(extent, piece.offset).ok_or(PosixError::InvalidArgument)?;
    target
        .device
        .write_at(piece.bytes, offset, Durability::Cached)
        .map_err(|source| failed("write", offset, piece.bytes.len(), source).into())
}

/// Reads bytes of an extent from the device; `at` is the file offset of the first byte.
pub(super) fn read(
    source: ContentsDevice<'_>,
    extent: &Extent,
    at: u64,
    into: &mut [u8],
) -> Result<()> {
    let offset = source.address(extent, at).ok_or(PosixError::InvalidArgument)?;
    let length = into.len();
    read_contents(&**source.device, offset, into)
        .map_err(|source| failed("read", offset, length, source).into())
}

/// Copies the contents of a range of whole file blocks from one extent to another. The file blocks
/// of the range lie in both extents.
pub(super) fn copy(
    device: ContentsDevice<'_>,
    from: &Extent,
    to: &Extent,
    range: BlockRange,
) -> Result<()> {
    let geometry = device.geometry;
    let bytes_of = |block: FileBlock| geometry.blocks_to_bytes(block.0);
    let ends = bytes_of(range.start).zip(bytes_of(range.end()));
    let (mut at, end) = ends.ok_or(PosixError::FileTooLarge)?;
    let mut bytes = Vec::new();
    while at < end {
        bytes.resize(usize::try_from(end - at).map_or(CHUNK_BYTES, |all| all.min(CHUNK_BYTES)), 0);
        read(device, from, at, &mut bytes)?;
        write(device, to, FileBytes { offset: at, bytes: &bytes })?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Writes a piece of a file to blocks that hold no contents of the file yet. The rest of the first
/// and of the last block is copied from `old`, or zeroed if `old` is `None`. Without this, the
/// contents of an earlier owner of the blocks would become visible in the file.
pub(super) fn write_whole_blocks(
    device: ContentsDevice<'_>,
    extent: &Extent,
    piece: FileBytes<'_>,
    old: Option<&Extent>,
) -> Result<()> {
    let size = u64::from(device.geometry.block_size);
    let mut rest = piece;
    // The head up to the end of its block, then the whole blocks, then the tail from the start of
    // its block.
    let head = rest.offset % size;
    if head != 0 {
        let length = rest.bytes.len().min((size - head) as usize);
        let (bytes, after) = rest.bytes.split_at(length);
        write_block(device, extent, FileBytes { bytes, ..rest }, old)?;
        rest = FileBytes { offset: rest.offset + bytes.len() as u64, bytes: after };
    }
    if rest.bytes.is_empty() {
        return Ok(());
    }
    let tail = (rest.end() % size) as usize;
    let (whole, bytes) = rest.bytes.split_at(rest.bytes.len() - tail);
    write(device, extent, FileBytes { bytes: whole, ..rest })?;
    if bytes.is_empty() {
        return Ok(());
    }
    let offset = rest.offset + whole.len() as u64;
    write_block(device, extent, FileBytes { offset, bytes }, old)
}

/// Writes one whole block: the bytes of the piece that lie in it, and around them the bytes of
/// `old`, or zeros if `old` is `None`.
fn write_block(
    device: ContentsDevice<'_>,
    extent: &Extent,
    piece: FileBytes<'_>,
    old: Option<&Extent>,
) -> Result<()> {
    let size = device.geometry.block_size as usize;
    let start = piece.offset - piece.offset % size as u64;
    let mut block = vec![0; size];
    if let Some(old) = old {
        read(device, old, start, &mut block)?;
    }
    let within = (piece.offset - start) as usize;
    let place = block.get_mut(within..within + piece.bytes.len());
    place.ok_or(PosixError::InvalidArgument)?.copy_from_slice(piece.bytes);
    write(device, extent, FileBytes { offset: start, bytes: &block })
}
