//! The disk inside a qcow2 image with extended L2 entries, or one that was not closed, read-only.
//!
//! Owns: reading these images, which the crate `imago` does not read. `imago` reads all others.
//!
//! ```text
//! L1 entry  8 bytes: bits 9-55 offset of an L2 table, 0 for none
//! L2 entry  8 bytes: bits 9-55 offset of the cluster, bit 0 reads as zeros, bit 62 compressed;
//!           extended by 8 bytes: bits 0-31 which of the 32 subclusters are allocated, bits 32-63
//!           which read as zeros
//! compressed cluster: bits 0..x of the entry its offset, x..62 further sectors that it touches,
//!           x = 62 - (log2 of the cluster size - 8); raw deflate
//! ```
//!
//! Nothing in an image is trusted. A table entry is read when it is needed, so a table costs no
//! memory. An offset past the end of the file is a read error.

use std::io;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use xfs_sync::{Mutex, Volume};

use super::header::{ImageHeader, number};
use super::{ClusterLocation, ClusterMap, SECTOR_BYTES};
use crate::device::BlockDevice;
use crate::file::FileDevice;

const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Number of subclusters of a cluster whose L2 entry is extended.
const SUBCLUSTERS: u64 = 32;
/// Base-2 logarithm of the largest cluster size that qemu supports, in bytes.
const MAX_CLUSTER_LOG: u32 = 21;
const MIN_CLUSTER_LOG: u32 = 9;
/// Base-2 logarithm of the smallest size of a cluster with an extended entry: 16 KiB.
const MIN_EXTENDED_LOG: u32 = 14;

/// The map of an image that is read through its L1 and L2 tables.
pub(super) struct ClusterTables {
    header: ImageHeader,
    /// The index and the bytes of the cluster that was decompressed last.
    decompressed: Mutex<Option<(u64, Vec<u8>)>, Volume>,
}

impl ClusterTables {
    /// Creates the map. Returns `None` if the header has impossible values.
    pub(super) fn new(header: ImageHeader) -> Option<Self> {
        let min = if header.has_extended_l2 { MIN_EXTENDED_LOG } else { MIN_CLUSTER_LOG };
        if !(min..=MAX_CLUSTER_LOG).contains(&header.cluster_log) {
            return None;
        }
        let map = Self { header, decompressed: Mutex::new(None) };
        let mapped_log = header.cluster_log + map.entries_log();
        let needed = header.size_bytes.div_ceil(1 << mapped_log);
        (needed <= header.l1_entries.into()).then_some(map)
    }

    /// Returns the base-2 logarithm of the number of entries in an L2 table.
    fn entries_log(&self) -> u32 {
        self.header.cluster_log - if self.header.has_extended_l2 { 4 } else { 3 }
    }

    /// Returns the result of [`ClusterMap::find`], but at most up to the end of the cluster or
    /// subcluster.
    fn locate(&self, file: &FileDevice, offset: u64) -> io::Result<(ClusterLocation, u64)> {
        let cluster_bytes = 1_u64 << self.header.cluster_log;
        let (cluster, within) = (offset >> self.header.cluster_log, offset % cluster_bytes);
        let rest = cluster_bytes - within;
        let (first, second) = (cluster >> self.entries_log(), cluster % (1 << self.entries_log()));
        let table = read_entry(file, self.header.l1_offset, first * 8)? & OFFSET_MASK;
        if table == 0 {
            return Ok((ClusterLocation::Zeros, rest));
        }
        let entry_bytes = if self.header.has_extended_l2 { 16 } else { 8 };
        let entry = read_entry(file, table, second * entry_bytes)?;
        let host = (entry & OFFSET_MASK) + within;
        if entry & COMPRESSED != 0 {
            return Ok((ClusterLocation::Encoded(entry), rest));
        }
        if !self.header.has_extended_l2 {
            let is_zero = entry & ZERO != 0 || entry & OFFSET_MASK == 0;
            return Ok((
                if is_zero { ClusterLocation::Zeros } else { ClusterLocation::Host(host) },
                rest,
            ));
        }
        let bitmap = read_entry(file, table, second * entry_bytes + 8)?;
        let part_bytes = cluster_bytes / SUBCLUSTERS;
        let part = within / part_bytes;
        let is_there = bitmap >> part & 1 != 0 && bitmap >> (part + SUBCLUSTERS) & 1 == 0;
        let rest = part_bytes - within % part_bytes;
        let is_placed = is_there && entry & OFFSET_MASK != 0;
        Ok((if is_placed { ClusterLocation::Host(host) } else { ClusterLocation::Zeros }, rest))
    }

    fn decompress(
        &self,
        file: &FileDevice,
        entry: u64,
        cluster_bytes: usize,
    ) -> io::Result<Vec<u8>> {
        let offset_bits = 62 - (self.header.cluster_log - 8);
        let start = entry & ((1 << offset_bits) - 1);
        let sectors = ((entry & (COMPRESSED - 1)) >> offset_bits) + 1;
        // Up to the end of the last sector, or of the file.
        let end = (start / u64::from(SECTOR_BYTES) + sectors) * u64::from(SECTOR_BYTES);
        let end = end.min(file.length_bytes());
        let length = end.checked_sub(start).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut packed = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_at(&mut packed, start)?;
        let mut bytes = vec![0; cluster_bytes];
        let packed = std::iter::once(packed.as_slice());
        match decompress_slice_iter_to_slice(&mut bytes, packed, false, true) {
            Ok(length) if length == cluster_bytes => Ok(bytes),
            _ => Err(super::damaged()),
        }
    }
}

impl ClusterMap for ClusterTables {
    fn length_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn find(
        &self,
        file: &FileDevice,
        offset: u64,
        _length_bytes: u64,
    ) -> io::Result<(ClusterLocation, u64)> {
        self.locate(file, offset)
    }

    /// Copies a part of a compressed cluster into `piece`. `entry` is the cluster's L2 entry.
    fn read_encoded(
        &self,
        file: &FileDevice,
        offset: u64,
        entry: u64,
        piece: &mut [u8],
    ) -> io::Result<()> {
        let cluster_bytes = 1_usize << self.header.cluster_log;
        let cluster = offset >> self.header.cluster_log;
        let within = usize::try_from(offset).unwrap_or(0) % cluster_bytes;
        let mut last = self.decompressed.lock();
        let (_, bytes) = match last.take().filter(|(number, _)| *number == cluster) {
            Some(known) => last.insert(known),
            None => last.insert((cluster, self.decompress(file, entry, cluster_bytes)?)),
        };
        let found = bytes.get(within..).and_then(|rest| rest.get(..piece.len()));
        piece.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Reads the 8-byte entry that lies `offset` bytes after the start of a table. The table starts at
/// byte `table` of the file.
fn read_entry(file: &FileDevice, table: u64, offset: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    let at = table.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
    file.read_at(&mut bytes, at)?;
    Ok(number(&bytes, 0, 8))
}
