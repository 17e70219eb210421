//! The location of the log on its device, and reading and writing its blocks and records.

use xfs_buffer::{Error, IoError, Result};
use xfs_device::{Durability, SharedDevice};
use xfs_format::features::VersionFlags;
use xfs_format::log_record::{
    LogRecordCheck, LogRecordHeader, LogVersion, RecordChecksums, block_cycle,
};
use xfs_format::{
    BASIC_BLOCK_BYTES, Corruption, DiskAddr, Structure, StructureAddress, Superblock, Uuid,
};

/// The location of the log on its device. Addresses and lengths count basic blocks of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGeometry {
    /// The address of the log's first block on the device.
    pub start: DiskAddr,
    /// Number of blocks of the log: at least 1. All blocks together take at most 2 GiB.
    pub length_blocks: u32,
    /// The sector size in bytes. The log writer aligns records to it.
    pub sector_bytes: u32,
    /// The log's stripe unit in bytes. The writer pads records to multiples of the stripe unit; 1
    /// means no padding.
    pub stripe_unit_bytes: u32,
    /// The UUID that records carry: the volume's current UUID.
    pub uuid: Uuid,
    /// The version of the log.
    pub version: LogVersion,
    /// Whether each record with items must have a checksum.
    pub checksums: RecordChecksums,
}

impl LogGeometry {
    /// Returns the location of the log of the volume with this superblock.
    #[must_use]
    pub fn new(superblock: &Superblock) -> Self {
        let geometry = &superblock.geometry;
        let start = if superblock.has_external_log() {
            DiskAddr(0)
        } else {
            let start = geometry.block_disk_addr(superblock.log_start);
            start.expect("an internal log lies in the volume: the superblock was verified")
        };
        Self {
            start,
            length_blocks: superblock.log_blocks.saturating_mul(geometry.block_basic_blocks()),
            sector_bytes: superblock.log_sector_bytes(),
            stripe_unit_bytes: superblock.log_stripe_unit_bytes,
            uuid: superblock.uuid,
            version: if superblock.version_flags.contains(VersionFlags::LOGV2) {
                LogVersion::V2
            } else {
                LogVersion::V1
            },
            checksums: RecordChecksums::of(geometry.version),
        }
    }

    fn length_bytes(&self) -> u64 {
        u64::from(self.length_blocks) * u64::from(BASIC_BLOCK_BYTES)
    }
}

/// The device of a log, with the log's location on it.
///
/// Invariant: the whole log lies on the device.
pub struct LogDevice {
    device: SharedDevice,
    geometry: LogGeometry,
}

impl LogDevice {
    /// Creates the log device of the volume with this superblock. `device` is the data device, or
    /// the log's own device if [`Superblock::has_external_log`] returns `true`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if part of the log lies outside the device.
    pub fn new(device: SharedDevice, superblock: &Superblock) -> Result<Self> {
        Self::with_geometry(device, LogGeometry::new(superblock))
    }

    /// Creates a log device with this geometry.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub fn with_geometry(device: SharedDevice, geometry: LogGeometry) -> Result<Self> {
        let (log_bytes, device_bytes) = (geometry.length_bytes(), device.length_bytes());
        let start = geometry.start.byte_offset().unwrap_or(u64::MAX);
        let end = start.checked_add(log_bytes);
        if log_bytes == 0 || end.is_none_or(|end| end > device_bytes) {
            let check = LogRecordCheck::PastDevice { start, log_bytes, device_bytes };
            return Err(
                Corruption::new(Structure::LogRecord, StructureAddress::Log(0), check).into()
            );
        }
        Ok(Self { device, geometry })
    }

    /// Sets the UUID that records must carry from now on.
    pub(crate) fn with_uuid(mut self, uuid: Uuid) -> Self {
        self.geometry.uuid = uuid;
        self
    }

    /// Returns the location of the log on its device.
    #[must_use]
    pub const fn geometry(&self) -> &LogGeometry {
        &self.geometry
    }

    /// Returns the number of blocks of the log.
    #[must_use]
    pub const fn length_blocks(&self) -> u32 {
        self.geometry.length_blocks
    }

    /// Returns the block number that lies `count` blocks after `block` in the ring of the log:
    /// block 0 follows the last block.
    #[must_use]
    pub fn advance(&self, block: u32, count: u32) -> u32 {
        let sum = u64::from(block) + u64::from(count);
        (sum % u64::from(self.length_blocks())) as u32
    }

    /// Returns the number of blocks from `start` up to `end`, where block 0 follows the last block.
    /// Returns 0 if `start` and `end` are equal.
    #[must_use]
    pub fn distance(&self, start: u32, end: u32) -> u32 {
        if end >= start { end - start } else { self.length_blocks() - start + end }
    }

    /// Reads `count` blocks from `block` on. Block 0 follows the last block.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if the device fails.
    pub fn read_blocks(&self, block: u32, count: u32) -> Result<Vec<u8>> {
        let count = count.min(self.length_blocks());
        let mut bytes = vec![0; count as usize * BASIC_BLOCK_BYTES as usize];
        self.read_into(block, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` with the blocks from `block` on. Block 0 follows the last block. The length of
    /// `bytes` must be a multiple of a block, and at most the length of the log.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if the device fails.
    pub(crate) fn read_into(&self, block: u32, bytes: &mut [u8]) -> Result<()> {
        let until_end = self.length_blocks().saturating_sub(block) as usize;
        let first_bytes = bytes.len().min(until_end * BASIC_BLOCK_BYTES as usize);
        let (first, second) = bytes.split_at_mut(first_bytes);
        self.read_range(block, first)?;
        self.read_range(0, second)
    }

    fn read_range(&self, block: u32, bytes: &mut [u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = DiskAddr(self.geometry.start.0 + u64::from(block));
        let offset = at.0 * u64::from(BASIC_BLOCK_BYTES);
        self.device.read_at(bytes, offset).map_err(|source| {
            let length_bytes = bytes.len() as u64;
            Error::Io(IoError::new("read", at, length_bytes, source))
        })
    }

    /// Writes whole blocks from `block` on. Block 0 follows the last block.
    pub(crate) fn write_blocks(
        &self,
        block: u32,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<()> {
        let until_end = self.length_blocks().saturating_sub(block) as usize;
        let first = bytes.len().min(until_end * BASIC_BLOCK_BYTES as usize);
        let (first, second) = bytes.split_at(first);
        self.write_range(block, first, durability)?;
        self.write_range(0, second, durability)
    }

    fn write_range(&self, block: u32, bytes: &[u8], durability: Durability) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = DiskAddr(self.geometry.start.0 + u64::from(block));
        let offset = at.0 * u64::from(BASIC_BLOCK_BYTES);
        self.device.write_at(bytes, offset, durability).map_err(|source| {
            let length_bytes = bytes.len() as u64;
            Error::Io(IoError::new("write", at, length_bytes, source))
        })
    }

    /// Makes all earlier writes to the log device durable.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        self.device.flush()
    }

    /// Returns the number of the cycle in which a block was last written.
    pub(crate) fn read_cycle(&self, block: u32) -> Result<u32> {
        Ok(block_cycle(&self.read_blocks(block, 1)?))
    }

    /// Reads the header of the record at `block`, and checks all of the header except the checksum.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if the device fails, and [`Error::Corrupt`] if the bytes are not a
    /// valid header.
    pub fn read_header(&self, block: u32) -> Result<LogRecordHeader> {
        let header =
            LogRecordHeader::decode(&self.read_blocks(block, 1)?, StructureAddress::Log(block))?;
        header.verify_place(block, self.length_blocks(), self.geometry.uuid)?;
        Ok(header)
    }

    /// Reads and checks a whole record. The first four bytes of each block stay the cycle number
    /// with which the writer replaced them. A record has at most 260 KiB.
    ///
    /// The checksum is checked first: if it fails, nothing else in the header is reliable. Any
    /// other error is about bytes that a writer meant to write.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if the device fails, and [`Error::Corrupt`] if the bytes are not a
    /// valid record.
    pub fn read_record(&self, block: u32) -> Result<(LogRecordHeader, Vec<u8>)> {
        let place = StructureAddress::Log(block);
        let header = LogRecordHeader::decode(&self.read_blocks(block, 1)?, place)?;
        let record = self.read_blocks(block, header.total_blocks())?;
        if header.total_blocks() <= self.length_blocks() {
            header.verify_checksum(&record, place, self.geometry.checksums)?;
        }
        header.verify_place(block, self.length_blocks(), self.geometry.uuid)?;
        Ok((header, record))
    }
}

#[cfg(test)]
mod tests;
