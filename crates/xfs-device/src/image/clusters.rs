//! The disk inside a qcow2 image with extended L2 entries, or one that was not closed, read-only.
//!
//! Owns: the images that the crate `imago` does not read. `imago` reads all others.
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
//! Nothing in an image is trusted. An entry is read when it is needed, so a table costs no memory.
//! An offset past the end of the file is a read error.

use std::io;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use xfs_sync::{Mutex, Volume};

use super::SECTOR_BYTES;
use super::header::{ImageHeader, number};
use crate::device::{BlockDevice, Durability, check_read};
use crate::file::FileDevice;

const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Subclusters of a cluster with an extended entry.
const SUBCLUSTERS: u64 = 32;
/// The largest cluster that qemu creates and reads.
const MAX_CLUSTER_LOG: u32 = 21;
const MIN_CLUSTER_LOG: u32 = 9;
/// A cluster with extended entries has at least 16 KiB.
const MIN_EXTENDED_LOG: u32 = 14;

/// The disk.
pub(super) struct ClusterDevice {
    file: FileDevice,
    header: ImageHeader,
    /// The number and the bytes of the cluster that was decompressed last.
    decompressed: Mutex<Option<(u64, Vec<u8>)>, Volume>,
}

/// The location of a range of the disk.
enum ClusterLocation {
    Zeros,
    /// At this byte of the file.
    Host(u64),
    /// In the compressed cluster of this L2 entry.
    Compressed(u64),
}

impl ClusterDevice {
    /// Creates the device. Returns `None` if the header is impossible.
    pub(super) fn new(file: FileDevice, header: ImageHeader) -> Option<Self> {
        let min = if header.has_extended_l2 { MIN_EXTENDED_LOG } else { MIN_CLUSTER_LOG };
        if !(min..=MAX_CLUSTER_LOG).contains(&header.cluster_log) {
            return None;
        }
        let device = Self { file, header, decompressed: Mutex::new(None) };
        let mapped_log = header.cluster_log + device.entries_log();
        let needed = header.size_bytes.div_ceil(1 << mapped_log);
        (needed <= header.l1_entries.into()).then_some(device)
    }

    /// Returns the logarithm of the number of entries in an L2 table.
    fn entries_log(&self) -> u32 {
        self.header.cluster_log - if self.header.has_extended_l2 { 4 } else { 3 }
    }

    /// Returns the location of the byte at `offset` of the disk, and how many bytes from there on
    /// have the same kind of location.
    fn find(&self, offset: u64) -> io::Result<(ClusterLocation, u64)> {
        let cluster_bytes = 1_u64 << self.header.cluster_log;
        let (cluster, within) = (offset >> self.header.cluster_log, offset % cluster_bytes);
        let rest = cluster_bytes - within;
        let (first, second) = (cluster >> self.entries_log(), cluster % (1 << self.entries_log()));
        let table = self.entry(self.header.l1_offset, first * 8)? & OFFSET_MASK;
        if table == 0 {
            return Ok((ClusterLocation::Zeros, rest));
        }
        let entry_bytes = if self.header.has_extended_l2 { 16 } else { 8 };
        let entry = self.entry(table, second * entry_bytes)?;
        let host = (entry & OFFSET_MASK) + within;
        if entry & COMPRESSED != 0 {
            return Ok((ClusterLocation::Compressed(entry), rest));
        }
        if !self.header.has_extended_l2 {
            let is_zero = entry & ZERO != 0 || entry & OFFSET_MASK == 0;
            return Ok((
                if is_zero { ClusterLocation::Zeros } else { ClusterLocation::Host(host) },
                rest,
            ));
        }
        let bitmap = self.entry(table, second * entry_bytes + 8)?;
        let part_bytes = cluster_bytes / SUBCLUSTERS;
        let part = within / part_bytes;
        let is_there = bitmap >> part & 1 != 0 && bitmap >> (part + SUBCLUSTERS) & 1 == 0;
        let rest = part_bytes - within % part_bytes;
        let is_placed = is_there && entry & OFFSET_MASK != 0;
        Ok((if is_placed { ClusterLocation::Host(host) } else { ClusterLocation::Zeros }, rest))
    }

    fn entry(&self, table: u64, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let at = table.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.file.read_at(at, &mut bytes)?;
        Ok(number(&bytes, 0, 8))
    }

    /// Copies a part of a compressed cluster.
    fn read_compressed(&self, offset: u64, entry: u64, piece: &mut [u8]) -> io::Result<()> {
        let cluster_bytes = 1_usize << self.header.cluster_log;
        let cluster = offset >> self.header.cluster_log;
        let within = usize::try_from(offset).unwrap_or(0) % cluster_bytes;
        let mut last = self.decompressed.lock();
        let (_, bytes) = match last.take().filter(|(number, _)| *number == cluster) {
            Some(known) => last.insert(known),
            None => last.insert((cluster, self.decompress(entry, cluster_bytes)?)),
        };
        let found = bytes.get(within..).and_then(|rest| rest.get(..piece.len()));
        piece.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn decompress(&self, entry: u64, cluster_bytes: usize) -> io::Result<Vec<u8>> {
        let offset_bits = 62 - (self.header.cluster_log - 8);
        let start = entry & ((1 << offset_bits) - 1);
        let sectors = ((entry & (COMPRESSED - 1)) >> offset_bits) + 1;
        // Up to the end of the last sector, or of the file.
        let end = (start / u64::from(SECTOR_BYTES) + sectors) * u64::from(SECTOR_BYTES);
        let end = end.min(self.file.length_bytes());
        let length = end.checked_sub(start).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut packed = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read_at(start, &mut packed)?;
        let mut bytes = vec![0; cluster_bytes];
        let packed = std::iter::once(packed.as_slice());
        match decompress_slice_iter_to_slice(&mut bytes, packed, false, true) {
            Ok(length) if length == cluster_bytes => Ok(bytes),
            _ => Err(super::damaged()),
        }
    }
}

impl BlockDevice for ClusterDevice {
    fn length_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (location, length) = self.find(at)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let Some((piece, after)) = rest.split_at_mut_checked(length) else { break };
            match location {
                ClusterLocation::Zeros => piece.fill(0),
                ClusterLocation::Host(host) => self.file.read_at(host, piece)?,
                ClusterLocation::Compressed(entry) => self.read_compressed(at, entry, piece)?,
            }
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8], _durability: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
