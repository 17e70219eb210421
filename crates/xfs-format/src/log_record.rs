//! Records of the log (`xlog_rec_header`) and the operations inside them.
//!
//! Owns: the record header, its extended headers, the operation header, the checksum of a whole
//! record, and the packing of cycle numbers. Does **not** own the payload of log items, or the
//! search for records in the log.
//!
//! ```text
//! record   0 magic  4 cycle  8 version  12 payload bytes  16 LSN  24 tail LSN  32 CRC
//!         36 block of the record before  40 operations  44 cycle data[64]  300 byte order
//!        304 UUID  320 size of the writer's buffer  .. 328, padded to 512
//! extended 0 cycle  4 cycle data[64]  .. 260, padded to 512; one per 32 KiB of the buffer's size,
//!          except the first 32 KiB
//! operation 0 transaction  4 bytes  8 client  9 flags  .. 12
//! ```
//!
//! The cycle data holds the first four bytes of every block of the payload. In the payload the
//! record's cycle replaces those bytes, so that every block of the log shows in which cycle it was
//! written. The checksum covers the record as it is on disk, with the bytes replaced.

use core::mem::{offset_of, size_of};

use uuid::Uuid;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{BASIC_BLOCK_BYTES, Lsn};
pub use crate::checks::log_record::LogRecordCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::crc;
use crate::features::FormatVersion;

pub(crate) mod byte_order;
mod encode;

pub use byte_order::ByteOrder;
pub use encode::{OPERATION_BYTES, next_cycle, unmount_operation};

/// Magic number: the first word of a record.
#[doc(alias = "XLOG_HEADER_MAGIC_NUM")]
pub const LOG_RECORD_MAGIC: u32 = 0xfeed_babe;

/// Length in bytes of the largest buffer of a log writer, and therefore of the longest payload.
#[doc(alias = "XLOG_MAX_RECORD_BSIZE")]
pub const MAX_RECORD_BYTES: u32 = 256 << 10;

/// The largest number of records whose writes to the log are in progress at a time.
#[doc(alias = "XLOG_MAX_ICLOGS")]
pub const MAX_RECORDS_IN_FLIGHT: u32 = 8;

/// Number of payload bytes whose cycle data fits one header.
#[doc(alias = "XLOG_HEADER_CYCLE_SIZE")]
pub const BYTES_PER_HEADER: u32 = 32 << 10;

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
const CYCLE_WORDS: usize = 64;

/// The record header on disk.
#[doc(alias = "xlog_rec_header")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `LogRecordHeader`, documented there")]
pub struct LogRecordHeaderDisk {
    pub magic: U32,
    pub cycle: U32,
    pub version: U32,
    pub length: U32,
    pub lsn: U64,
    pub tail: U64,
    pub crc: [u8; 4],
    pub previous_block: U32,
    pub operations: U32,
    pub cycle_data: [U32; CYCLE_WORDS],
    pub byte_order: U32,
    pub uuid: [u8; 16],
    pub size: U32,
    pub pad: U32,
}

const _: () = assert!(size_of::<LogRecordHeaderDisk>() == 328);
const _: () = assert!(offset_of!(LogRecordHeaderDisk, size) == 320);

/// The two lengths of the header, in bytes, over which kernels compute the checksum: with the
/// padding at its end, and without it on 32-bit x86.
const CHECKSUM_LENGTHS: [usize; 2] = [size_of::<LogRecordHeaderDisk>(), 324];

const CRC_OFFSET: usize = offset_of!(LogRecordHeaderDisk, crc);

/// An extended header on disk.
#[doc(alias = "xlog_rec_ext_header")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "as in the record header")]
pub struct LogExtendedHeaderDisk {
    pub cycle: U32,
    pub cycle_data: [U32; CYCLE_WORDS],
}

const _: () = assert!(size_of::<LogExtendedHeaderDisk>() == 260);

/// The header of an operation on disk.
#[doc(alias = "xlog_op_header")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `LogOperation`, documented there")]
pub struct LogOperationDisk {
    pub transaction: U32,
    pub length: U32,
    pub client: u8,
    pub flags: u8,
    pub reserved: [u8; 2],
}

const _: () = assert!(size_of::<LogOperationDisk>() == 12);

bitflags::bitflags! {
    /// The effect of an operation on the transaction to which it belongs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OperationFlags: u8 {
        /// The transaction starts.
        const START = 1;
        /// The transaction is complete.
        const COMMIT = 2;
        /// The region continues in the next record.
        const CONTINUE = 4;
        /// The region began in an earlier record.
        const WAS_CONTINUED = 8;
        /// The continued region ends here.
        const END = 0x10;
        /// The volume was unmounted. The operation belongs to no transaction.
        const UNMOUNT = 0x20;
    }
}

/// The client number in each operation of a transaction.
#[doc(alias = "XFS_TRANSACTION")]
pub const CLIENT_TRANSACTION: u8 = 0x69;

/// The client number in the operation of an unmount record.
#[doc(alias = "XFS_LOG")]
pub const CLIENT_LOG: u8 = 0xaa;

/// The header of an operation. The bytes of the operation follow, padded to a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOperation {
    /// The identifier of the transaction to which the operation belongs.
    #[doc(alias = "oh_tid")]
    pub transaction: u32,
    /// Number of bytes of the operation after its header.
    #[doc(alias = "oh_len")]
    pub length: u32,
    /// The number of the client, the part of XFS that wrote the operation.
    pub client: u8,
    /// The effect of the operation on its transaction.
    pub flags: OperationFlags,
}

impl LogOperation {
    /// Decodes an operation header. `place` is the address of the header in the log, for messages.
    ///
    /// # Errors
    ///
    /// Returns [`Check::Truncated`] if there are too few bytes. Also returns an error if the client
    /// is unknown.
    pub fn decode(bytes: &[u8], place: StructureAddress) -> Result<Self, Corruption> {
        let corrupt = |check: Check| Corruption::new(Structure::LogRecord, place, check);
        let Ok((disk, _)) = LogOperationDisk::ref_from_prefix(bytes) else {
            let needed = size_of::<LogOperationDisk>();
            return Err(corrupt(Check::Truncated { available: bytes.len(), needed }));
        };
        let client = disk.client;
        if client != CLIENT_TRANSACTION && client != CLIENT_LOG {
            return Err(corrupt(LogRecordCheck::Client { client }.into()));
        }
        Ok(Self {
            transaction: disk.transaction.get(),
            length: disk.length.get(),
            client,
            flags: OperationFlags::from_bits_retain(disk.flags),
        })
    }
}

/// The version of a log.
#[doc(alias = "XLOG_VERSION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogVersion {
    /// Each record has one header and comes from a buffer of at most 32 KiB. Only v4 volumes have
    /// such logs.
    V1,
    /// Records can have extended headers, and padding to a stripe unit.
    V2,
}

impl LogVersion {
    /// Returns the version that a record header stores as `raw`, or `None` if it is unknown.
    #[must_use]
    pub const fn decode(raw: u32) -> Option<Self> {
        match raw {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Returns the number that a record header stores.
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// Whether the records of a log must have checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordChecksums {
    /// Every record with items has a checksum. Volumes of version 5 have such logs. The unmount
    /// record that mkfs.xfs and xfs_repair write has none, and holds no items.
    Required,
    /// A record may have no checksum: its field is 0. Volumes of version 4 have such logs.
    Optional,
}

impl RecordChecksums {
    /// Returns the rule for the log of a volume of this version.
    #[must_use]
    pub const fn of(version: FormatVersion) -> Self {
        match version {
            FormatVersion::V4 => Self::Optional,
            FormatVersion::V5 => Self::Required,
        }
    }
}

/// The header of a record. Decoding has checked its sizes: the record has at most
/// [`MAX_RECORD_BYTES`] of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecordHeader {
    /// The cycle of the log in which the record was written.
    pub cycle: u32,
    /// Length of the payload in bytes, including padding to the log's stripe unit.
    pub length: u32,
    /// The LSN of the record.
    pub lsn: Lsn,
    /// The tail of the log when this record was written. A recovery with this record as the newest
    /// one starts at the tail.
    pub tail: Lsn,
    /// The checksum; 0 if the writer made none.
    pub crc: u32,
    /// The basic block at which the previous record starts. In the first record of a log, all bits
    /// of this number are ones.
    pub previous_block: u32,
    /// Number of operations in the payload.
    pub operations: u32,
    /// The byte order of log items.
    pub byte_order: ByteOrder,
    /// The UUID of the volume to which the log belongs.
    pub uuid: Uuid,
    /// Length of the writer's buffer in bytes, from which the number of headers follows.
    pub size: u32,
    /// The version of the log.
    pub version: LogVersion,
}

impl LogRecordHeader {
    /// Returns whether this basic block starts with the magic number of a record.
    #[must_use]
    pub fn is_here(block: &[u8]) -> bool {
        read_word(block, 0) == Some(LOG_RECORD_MAGIC)
    }

    /// Decodes the header in a basic block, and checks its version and sizes.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn decode(block: &[u8], place: StructureAddress) -> Result<Self, Corruption> {
        let corrupt = |check: Check| Corruption::new(Structure::LogRecord, place, check);
        let Ok((disk, _)) = LogRecordHeaderDisk::ref_from_prefix(block) else {
            let needed = size_of::<LogRecordHeaderDisk>();
            return Err(corrupt(Check::Truncated { available: block.len(), needed }));
        };
        let (found, expected) = (disk.magic.get().into(), LOG_RECORD_MAGIC.into());
        if found != expected {
            return Err(corrupt(Check::Magic { found, expected }));
        }
        Self::check_sizes(disk).map_err(|check| corrupt(check.into()))?;
        Ok(Self {
            cycle: disk.cycle.get(),
            length: disk.length.get(),
            lsn: Lsn(disk.lsn.get()),
            tail: Lsn(disk.tail.get()),
            crc: crc::stored(block, CRC_OFFSET).unwrap_or(0),
            previous_block: disk.previous_block.get(),
            operations: disk.operations.get(),
            byte_order: match disk.byte_order.get() {
                1 => ByteOrder::LittleEndian,
                2 => ByteOrder::BigEndian,
                other => ByteOrder::Other(other),
            },
            uuid: Uuid::from_bytes(disk.uuid),
            size: disk.size.get(),
            version: LogVersion::decode(disk.version.get()).expect("the version was checked"),
        })
    }

    fn check_sizes(disk: &LogRecordHeaderDisk) -> Result<(), LogRecordCheck> {
        let (version, length, size) = (disk.version.get(), disk.length.get(), disk.size.get());
        let most = match LogVersion::decode(version) {
            None => return Err(LogRecordCheck::Version { version }),
            Some(LogVersion::V1) => BYTES_PER_HEADER,
            Some(LogVersion::V2) => MAX_RECORD_BYTES,
        };
        if size > most || !size.is_multiple_of(BASIC_BLOCK_BYTES) {
            return Err(LogRecordCheck::Size { size });
        }
        // Old versions of mkfs.xfs wrote one record that is longer than its buffer size.
        let limit = if disk.operations.get() == 1 { MAX_RECORD_BYTES } else { size };
        if length == 0 || length > limit {
            return Err(LogRecordCheck::Length { length, size });
        }
        Ok(())
    }

    /// Checks that the header belongs at `block` of the log of the volume `uuid`. The log has
    /// `log_blocks` basic blocks.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify_place(&self, block: u32, log_blocks: u32, uuid: Uuid) -> Result<(), Corruption> {
        let corrupt = |check: Check| {
            Corruption::new(Structure::LogRecord, StructureAddress::Log(block), check)
        };
        // Very old logs have no UUID.
        if self.uuid != uuid && !self.uuid.is_nil() {
            return Err(corrupt(Check::ForeignUuid { found: self.uuid }));
        }
        if self.lsn != Lsn::new(self.cycle, block) {
            return Err(corrupt(LogRecordCheck::Misplaced { lsn: self.lsn }.into()));
        }
        let (tail, lsn) = (self.tail, self.lsn);
        let reachable = tail <= lsn && tail.cycle().saturating_add(1) >= lsn.cycle();
        if tail.cycle() == 0 || tail.block() >= log_blocks || !reachable {
            return Err(corrupt(LogRecordCheck::Tail { tail, lsn }.into()));
        }
        if self.total_blocks() > log_blocks {
            return Err(corrupt(LogRecordCheck::LongerThanLog { log_blocks }.into()));
        }
        Ok(())
    }

    /// Returns the number of basic blocks of the header and the extended headers.
    #[must_use]
    pub const fn header_blocks(&self) -> u32 {
        match self.version {
            LogVersion::V2 if self.size > BYTES_PER_HEADER => self.size.div_ceil(BYTES_PER_HEADER),
            _ => 1,
        }
    }

    /// Returns the number of basic blocks of the payload.
    #[must_use]
    pub const fn payload_blocks(&self) -> u32 {
        self.length.div_ceil(BASIC_BLOCK_BYTES)
    }

    /// Returns the number of basic blocks of the whole record.
    #[must_use]
    pub const fn total_blocks(&self) -> u32 {
        self.header_blocks() + self.payload_blocks()
    }

    /// Checks the checksum of `record`, a whole record with the bytes that it has on disk. A record
    /// without a checksum passes if checksums are optional, or if it is an unmount record.
    ///
    /// # Errors
    ///
    /// Returns [`Check::Checksum`] if the checksum is wrong, [`LogRecordCheck::NoChecksum`] if a
    /// required one is absent, or [`Check::Truncated`] if there are too few bytes.
    pub fn verify_checksum(
        &self,
        record: &[u8],
        place: StructureAddress,
        checksums: RecordChecksums,
    ) -> Result<(), Corruption> {
        if self.crc == 0 && (checksums == RecordChecksums::Optional || self.is_unmount(record)) {
            return Ok(());
        }
        let corrupt = |check: Check| Corruption::new(Structure::LogRecord, place, check);
        let mut computed = 0;
        for header_length in CHECKSUM_LENGTHS {
            let Some(crc) = self.compute_checksum(record, header_length) else {
                let needed = self.total_blocks() as usize * BLOCK;
                return Err(corrupt(Check::Truncated { available: record.len(), needed }));
            };
            if crc == self.crc {
                return Ok(());
            }
            // The usual length comes first. The message contains the checksum for that length.
            computed = if computed == 0 { crc } else { computed };
        }
        if self.crc == 0 {
            return Err(corrupt(LogRecordCheck::NoChecksum.into()));
        }
        Err(corrupt(Check::Checksum { stored: self.crc, computed }))
    }

    /// Returns whether the only operation of this record says that the volume was unmounted.
    fn is_unmount(&self, record: &[u8]) -> bool {
        let payload = record.get(self.header_blocks() as usize * BLOCK..).unwrap_or_default();
        let operation = LogOperation::decode(payload, StructureAddress::Log(self.lsn.block()));
        self.operations == 1
            && operation.is_ok_and(|operation| {
                let LogOperation { client, flags, .. } = operation;
                client == CLIENT_LOG && flags.contains(OperationFlags::UNMOUNT)
            })
    }

    fn compute_checksum(&self, record: &[u8], header_length: usize) -> Option<u32> {
        let mut sum = crc::compute(record.get(..header_length)?, CRC_OFFSET)?;
        let used_headers = self.length.div_ceil(BYTES_PER_HEADER).min(self.header_blocks());
        for header in 1..used_headers as usize {
            let extended = record.get(header * BLOCK..)?;
            sum = crc::append(sum, extended.get(..size_of::<LogExtendedHeaderDisk>())?);
        }
        let payload = record.get(self.header_blocks() as usize * BLOCK..)?;
        Some(crc::append(sum, payload.get(..self.length as usize)?))
    }

    /// Restores in `record` the first four bytes of every payload block from the cycle data.
    ///
    /// # Errors
    ///
    /// Returns [`Check::Truncated`] if there are too few bytes.
    #[doc(alias = "xlog_unpack_data")]
    pub fn unpack(&self, record: &mut [u8], place: StructureAddress) -> Result<(), Corruption> {
        self.exchange_words(record).ok_or_else(|| {
            let needed = self.total_blocks() as usize * BLOCK;
            let check = Check::Truncated { available: record.len(), needed };
            Corruption::new(Structure::LogRecord, place, check)
        })
    }

    fn exchange_words(&self, record: &mut [u8]) -> Option<()> {
        let header_bytes = self.header_blocks() as usize * BLOCK;
        let (headers, payload) = record.split_at_mut_checked(header_bytes)?;
        let payload = payload.get_mut(..self.payload_blocks() as usize * BLOCK)?;
        for (index, block) in payload.chunks_exact_mut(BLOCK).enumerate() {
            let (header, word) = (index / CYCLE_WORDS, index % CYCLE_WORDS);
            let first = encode::cycle_data_offset(header);
            // A record that is longer than its buffer has no cycle data for the blocks past the
            // buffer.
            let Some(start) = (header * BLOCK < header_bytes).then_some(header * BLOCK + first)
            else {
                break;
            };
            let kept = *headers.get(start + 4 * word..)?.first_chunk::<4>()?;
            *block.first_chunk_mut::<4>()? = kept;
        }
        Some(())
    }
}

/// Returns the cycle in which a basic block of the log was written; 0 if it was never written.
#[doc(alias = "xlog_get_cycle")]
#[must_use]
pub fn block_cycle(block: &[u8]) -> u32 {
    let word = |offset| read_word(block, offset).expect("a basic block has 512 bytes");
    match word(0) {
        LOG_RECORD_MAGIC => word(4),
        word => word,
    }
}

fn read_word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(U32::ref_from_prefix(bytes.get(offset..)?).ok()?.0.get())
}

#[cfg(test)]
mod tests;
