//! The disk inside a qcow2 image, read-only, with the disks below it.
//!
//! Owns: the tables and the compressed clusters. Does **not** own the header ([`header`]), new
//! images ([`writing`]), or which backing files are followed ([`crate::neighbour`]).
//!
//! ```text
//! L1 entry  8 bytes: bits 9-55 offset of an L2 table, 0 for none
//! L2 entry  8 bytes: bits 9-55 offset of the cluster, bit 0 reads as zeros, bit 62 compressed;
//!           extended by 8 bytes: bits 0-31 which of the 32 subclusters are allocated, bits 32-63
//!           which read as zeros
//! compressed cluster: bits 0..x of the entry its offset, x..62 further sectors that it touches,
//!           x = 62 - (log2 of the cluster size - 8); raw deflate, or a zstd frame
//! ```
//!
//! Nothing in an image is trusted. A table entry is read when it is needed, so a table costs little
//! memory. An offset past the end of the file is a read error.
//!
//! A qcow2 image that exists is never written. A write can change the tables and reference counts.
//! A crash between the write of these and that of the data could lose writes on which the XFS log
//! of the volume relies.

mod header;
mod writing;

use std::io::{self, Read};

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use xfs_device::{Contents, SharedDevice};
use xfs_sync::{Mutex, Volume};

use crate::device::{BlockMap, ImageDevice, Location, Run};
use crate::error::{FileRole, ImageError};
use crate::neighbour::Surroundings;
use crate::open::open_below;
use crate::tables::{ByteOrder, Table, TablePages};
use header::{Compression, ImageHeader};
pub use writing::{ClusterCompression, MAX_QCOW2_BYTES, write_qcow2};

const SECTOR_BYTES: u64 = 512;
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Number of subclusters of a cluster whose L2 entry is extended.
const SUBCLUSTERS: u64 = 32;
/// Base-2 logarithm of the largest cluster size that qemu supports, in bytes.
const MAX_CLUSTER_LOG: u32 = 21;
const MIN_CLUSTER_LOG: u32 = 9;
/// Base-2 logarithm of the smallest size in bytes that a cluster with an extended L2 entry may
/// have: 16 KiB.
const MIN_EXTENDED_LOG: u32 = 14;
/// Base-2 logarithm of the largest window of a zstd frame, in bytes. A frame holds one cluster, so
/// no larger window is of use.
const ZSTD_WINDOW_LOG: u32 = MAX_CLUSTER_LOG + 1;

/// The map from offsets of the disk to clusters of a qcow2 image.
pub(crate) struct ClusterMap {
    file: SharedDevice,
    below: Option<SharedDevice>,
    header: ImageHeader,
    pages: TablePages,
    /// The index and the bytes of the cluster that was decompressed last.
    decompressed: Mutex<Option<(u64, Vec<u8>)>, Volume>,
}

/// Opens the disk inside the image, and the disks below it.
///
/// # Errors
///
/// See [`ImageError`].
pub(crate) fn open(
    file: SharedDevice,
    surroundings: Option<&Surroundings>,
) -> Result<ImageDevice<ClusterMap>, ImageError> {
    let header = ImageHeader::read(&*file)?;
    let below = match &header.backing {
        None => None,
        Some(backing) => {
            let format = backing.format.as_deref();
            Some(open_below(surroundings, &backing.name, FileRole::Backing, format)?)
        }
    };
    let map = ClusterMap {
        file,
        below,
        header,
        pages: TablePages::new(),
        decompressed: Mutex::new(None),
    };
    if map.is_possible() {
        return Ok(ImageDevice::read_only(map));
    }
    Err(ImageError::damaged(Contents::Qcow2, "header"))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the tables of the qcow2 image are damaged")
}

impl ClusterMap {
    /// Returns whether the cluster size is supported and the L1 table covers the disk.
    fn is_possible(&self) -> bool {
        let header = &self.header;
        let min = if header.has_extended_l2 { MIN_EXTENDED_LOG } else { MIN_CLUSTER_LOG };
        if !(min..=MAX_CLUSTER_LOG).contains(&header.cluster_log) {
            return false;
        }
        let mapped_log = header.cluster_log + self.entries_log();
        header.size_bytes.div_ceil(1 << mapped_log) <= header.l1_entries.into()
    }

    /// Returns the base-2 logarithm of the number of entries in an L2 table.
    fn entries_log(&self) -> u32 {
        self.header.cluster_log - if self.header.has_extended_l2 { 4 } else { 3 }
    }

    fn absent(&self) -> Location<'_> {
        self.below.as_ref().map_or(Location::Zeros, Location::Below)
    }

    fn entry(&self, start: u64, index: u64) -> io::Result<u64> {
        let table = Table { start, entry_bytes: 8, order: ByteOrder::Big };
        self.pages.entry(&*self.file, table, index)
    }

    /// Returns the location of byte `within` of a cluster with a plain L2 entry.
    fn plain(&self, entry: u64, within: u64) -> Location<'_> {
        match (entry & ZERO != 0, entry & OFFSET_MASK) {
            (true, _) => Location::Zeros,
            (false, 0) => self.absent(),
            (false, start) => Location::Stored(&self.file, start + within),
        }
    }

    /// Returns the location of byte `within` of a cluster with an extended L2 entry.
    fn extended(&self, entry: u64, bitmap: u64, within: u64) -> io::Result<Location<'_>> {
        let part = within / (self.cluster_bytes() / SUBCLUSTERS);
        let is_allocated = bitmap >> part & 1 != 0;
        let is_zero = bitmap >> (part + SUBCLUSTERS) & 1 != 0;
        match (is_zero, is_allocated, entry & OFFSET_MASK) {
            (true, _, _) => Ok(Location::Zeros),
            (false, false, _) => Ok(self.absent()),
            (false, true, 0) => Err(damaged()),
            (false, true, start) => Ok(Location::Stored(&self.file, start + within)),
        }
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.header.cluster_log
    }

    fn decompress(&self, entry: u64) -> io::Result<Vec<u8>> {
        let offset_bits = 62 - (self.header.cluster_log - 8);
        let start = entry & ((1 << offset_bits) - 1);
        let sectors = ((entry & (COMPRESSED - 1)) >> offset_bits) + 1;
        // Up to the end of the last sector, or of the file.
        let end = (start / SECTOR_BYTES + sectors) * SECTOR_BYTES;
        let end = end.min(self.file.length_bytes());
        let length = end.checked_sub(start).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut packed = vec![0; usize::try_from(length).map_err(|_| damaged())?];
        self.file.read_at(&mut packed, start)?;
        let mut bytes = vec![0; self.cluster_bytes() as usize];
        match self.header.compression {
            Compression::Deflate => {
                let packed = std::iter::once(packed.as_slice());
                match decompress_slice_iter_to_slice(&mut bytes, packed, false, true) {
                    Ok(length) if length == bytes.len() => Ok(bytes),
                    _ => Err(damaged()),
                }
            }
            Compression::Zstd => unpack_zstd(&packed, &mut bytes).map(|()| bytes),
        }
    }
}

/// Fills `bytes` from the zstd frame at the start of `packed`. Bytes after the frame are ignored.
fn unpack_zstd(packed: &[u8], bytes: &mut [u8]) -> io::Result<()> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?.single_frame();
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    decoder.read_exact(bytes).map_err(|_| damaged())
}

impl BlockMap for ClusterMap {
    fn length_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn find(&self, offset: u64) -> io::Result<Run<'_>> {
        let cluster_bytes = self.cluster_bytes();
        let (cluster, within) = (offset >> self.header.cluster_log, offset % cluster_bytes);
        let rest = cluster_bytes - within;
        let (first, second) = (cluster >> self.entries_log(), cluster % (1 << self.entries_log()));
        let table = self.entry(self.header.l1_offset, first)? & OFFSET_MASK;
        if table == 0 {
            return Ok(Run { location: self.absent(), length_bytes: rest });
        }
        let width = if self.header.has_extended_l2 { 2 } else { 1 };
        let entry = self.entry(table, second * width)?;
        if entry & COMPRESSED != 0 {
            return Ok(Run { location: Location::Encoded(entry), length_bytes: rest });
        }
        if !self.header.has_extended_l2 {
            return Ok(Run { location: self.plain(entry, within), length_bytes: rest });
        }
        let bitmap = self.entry(table, second * width + 1)?;
        let part_bytes = cluster_bytes / SUBCLUSTERS;
        let length_bytes = part_bytes - within % part_bytes;
        Ok(Run { location: self.extended(entry, bitmap, within)?, length_bytes })
    }

    /// Fills `piece` with bytes of the disk from `offset` on. They lie in a compressed cluster,
    /// whose L2 entry is `entry`.
    fn read_encoded(&self, offset: u64, entry: u64, piece: &mut [u8]) -> io::Result<()> {
        let cluster = offset >> self.header.cluster_log;
        let within = (offset % self.cluster_bytes()) as usize;
        let mut last = self.decompressed.lock();
        let (_, bytes) = match last.take().filter(|(number, _)| *number == cluster) {
            Some(known) => last.insert(known),
            None => last.insert((cluster, self.decompress(entry)?)),
        };
        let found = bytes.get(within..).and_then(|rest| rest.get(..piece.len()));
        piece.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn files(&self) -> Vec<&SharedDevice> {
        vec![&self.file]
    }
}
