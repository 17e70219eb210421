//! Restores a metadata image to an image file or a device.
//!
//! The superblock is marked as in progress until all other blocks are durable, so that a restore
//! that was cut off is never mounted.

use std::io;

use xfs_device::{MetadumpError, MetadumpHeader, MetadumpReader, MetadumpSource, volume_length};
use xfs_format::superblock::{self, SuperblockDisk};
use zerocopy::FromBytes;

/// Number of bytes that are copied at once.
const CHUNK_BYTES: u64 = 1 << 20;
const SECTOR: usize = 512;

/// The target of a restore.
pub trait RestoreTarget {
    /// Sets the length of the target to `length_bytes`. A new file then reads as zeros.
    ///
    /// # Errors
    ///
    /// The error of the host, for example if a device is too small.
    fn set_length(&mut self, length_bytes: u64) -> io::Result<()>;

    /// Writes bytes at an offset.
    ///
    /// # Errors
    ///
    /// The error of the host.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable: a power cut does not undo them.
    ///
    /// # Errors
    ///
    /// The error of the host.
    fn flush(&mut self) -> io::Result<()>;
}

/// The reason why an image could not be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] MetadumpError),
    /// The target cannot be written.
    #[error("the target cannot be written: {0}")]
    Target(#[source] io::Error),
    /// The caller stopped the restore.
    #[error("the restore was stopped")]
    Stopped,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The description in the header of the image.
    pub header: MetadumpHeader,
    /// The length of the volume in bytes.
    pub length_bytes: u64,
    /// Number of bytes of the volume that the image holds.
    pub written_bytes: u64,
}

/// Restores the image in `source` to `target`. The restore ends when `is_stopped` returns `true`.
///
/// # Errors
///
/// A [`RestoreError`]. The target then has no usable volume, unless the last write of the
/// superblock or the flush after it failed.
pub fn restore(
    source: impl MetadumpSource,
    target: &mut dyn RestoreTarget,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Restored, RestoreError> {
    let mut reader = MetadumpReader::open(source)?;
    let mut first = [0; SECTOR];
    let mut length = None;
    let mut written_bytes = 0;
    while let Some(extent) = reader.next_extent()? {
        let mut at = extent.start;
        let end = extent.start + extent.length_bytes;
        let length_bytes = match length {
            Some(length) => length,
            None => {
                reader.read(&mut first)?;
                let found = volume_length(&first).filter(|_| extent.start == 0);
                let found = found.ok_or(MetadumpError::NoSuperblock)?;
                target.set_length(found).map_err(RestoreError::Target)?;
                let marked = in_progress(first);
                target.write_at(0, &marked).map_err(RestoreError::Target)?;
                // A device may hold the superblock of an older volume. No block of the new one may
                // reach the device before the mark.
                target.flush().map_err(RestoreError::Target)?;
                (at, length) = (SECTOR as u64, Some(found));
                found
            }
        };
        if end > length_bytes {
            return Err(MetadumpError::PastEnd { at: end - 1, length_bytes }.into());
        }
        written_bytes += extent.length_bytes;
        while at < end {
            if is_stopped() {
                return Err(RestoreError::Stopped);
            }
            let count = CHUNK_BYTES.min(end - at);
            let mut bytes = vec![0; usize::try_from(count).expect("a chunk is 1 MiB")];
            reader.read(&mut bytes)?;
            if at == 0 {
                // An image may hold its superblock twice. The mark stays until the end.
                let (sector, _) = bytes.split_at_mut(SECTOR);
                first.copy_from_slice(sector);
                sector.copy_from_slice(&in_progress(first));
            }
            target.write_at(at, &bytes).map_err(RestoreError::Target)?;
            at += count;
        }
    }
    let length_bytes = length.ok_or(MetadumpError::NoSuperblock)?;
    target.flush().map_err(RestoreError::Target)?;
    target.write_at(0, &first).map_err(RestoreError::Target)?;
    target.flush().map_err(RestoreError::Target)?;
    Ok(Restored { header: reader.header(), length_bytes, written_bytes })
}

/// Returns the superblock with the mark "in progress" (`sb_inprogress`), with which a volume cannot
/// be mounted.
fn in_progress(mut sector: [u8; SECTOR]) -> [u8; SECTOR] {
    if let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(&mut sector) {
        disk.in_progress = 1;
    }
    superblock::seal(&mut sector);
    sector
}
