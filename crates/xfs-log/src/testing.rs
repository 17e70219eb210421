//! A writer of log images for the tests of this crate. It lays out records as the kernel does.

pub(crate) mod decode;
pub(crate) mod item;

use std::sync::Arc;

use uuid::Uuid;
use xfs_device::MemoryDevice;
use xfs_format::log_item::{CHECKPOINT, HostOrder, LoggedItem, TransactionHeader};
use xfs_format::log_record::{
    CLIENT_TRANSACTION, LOG_RECORD_MAGIC, LogVersion, OperationFlags, RecordChecksums,
};
use xfs_format::{DiskAddr, Lsn, crc};

use crate::device::{LogDevice, LogGeometry};

pub(crate) const UUID: Uuid = Uuid::from_bytes([7; 16]);

const BLOCK: usize = 512;
const CRC_OFFSET: usize = 32;
const UNMOUNT_OPERATION: [u8; 12] = [0xb0, 0xc0, 0xd0, 0xd0, 0, 0, 0, 8, 0xaa, 0x20, 0, 0];

/// The image of a log to which tests append records.
#[derive(Clone)]
pub(crate) struct LogImage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: Lsn,
    /// The LSN of the tail that the next record names.
    pub(crate) tail: Lsn,
    /// The size of in-core log buffers, in bytes, that the header of the next record states.
    pub(crate) size: u32,
}

impl LogImage {
    /// Creates a log without records, all zeros.
    pub(crate) fn new(length_blocks: u32) -> Self {
        let bytes = vec![0; length_blocks as usize * BLOCK];
        Self { bytes, head: Lsn::new(1, 0), tail: Lsn::new(1, 0), size: 32 << 10 }
    }

    /// Creates a log as mkfs leaves it: with one unmount record.
    pub(crate) fn fresh(length_blocks: u32) -> Self {
        let mut log = Self::new(length_blocks);
        log.append_unmount();
        log
    }

    pub(crate) fn length(&self) -> u32 {
        (self.bytes.len() / BLOCK) as u32
    }

    /// Returns the log of a version 5 volume.
    pub(crate) fn device(&self) -> LogDevice {
        self.device_with(RecordChecksums::Required)
    }

    pub(crate) fn device_with(&self, checksums: RecordChecksums) -> LogDevice {
        let device = MemoryDevice::from_bytes(&self.bytes).unwrap();
        let geometry = LogGeometry {
            start: DiskAddr(0),
            length_blocks: self.length(),
            sector_bytes: 512,
            stripe_unit_bytes: 1,
            uuid: UUID,
            version: LogVersion::V2,
            checksums,
        };
        LogDevice::with_geometry(Arc::new(device), geometry).unwrap()
    }

    pub(crate) fn block_mut(&mut self, block: u32) -> &mut [u8] {
        let block = (block % self.length()) as usize;
        &mut self.bytes[block * BLOCK..][..BLOCK]
    }

    /// Appends a record with a payload of this many blocks. Returns the block number of the record.
    pub(crate) fn append(&mut self, payload_blocks: u32) -> u32 {
        let payload = (0..payload_blocks as usize * BLOCK).map(|at| (at % 253) as u8).collect();
        self.append_payload(payload, 2)
    }

    /// Appends a record with these operations (transaction number, flags, bytes). Returns the block
    /// number of the record.
    pub(crate) fn append_operations(&mut self, operations: &[(u32, OperationFlags, &[u8])]) -> u32 {
        let mut payload = Vec::new();
        for (transaction, flags, bytes) in operations {
            payload.extend_from_slice(&transaction.to_be_bytes());
            payload.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            payload.extend_from_slice(&[CLIENT_TRANSACTION, flags.bits(), 0, 0]);
            payload.extend_from_slice(bytes);
        }
        payload.resize(payload.len().next_multiple_of(BLOCK).max(BLOCK), 0);
        self.append_payload(payload, operations.len() as u32)
    }

    /// Appends a record with one whole transaction. Returns the LSN of the record.
    pub(crate) fn append_transaction(&mut self, id: u32, items: &[LoggedItem<'_>]) -> Lsn {
        self.append_operations_of(transaction(id, items))
    }

    /// Appends one record with a transaction for each item. Returns the LSN of the record.
    pub(crate) fn append_together(&mut self, items: &[LoggedItem<'_>]) -> Lsn {
        let items = (1..).zip(items.chunks(1));
        self.append_operations_of(items.flat_map(|(id, item)| transaction(id, item)).collect())
    }

    /// Appends a record with a transaction that is never committed.
    pub(crate) fn append_unfinished(&mut self, id: u32) {
        self.append_uncommitted(id, &[]);
    }

    /// Appends a record with a transaction that has these items and no COMMIT.
    pub(crate) fn append_uncommitted(&mut self, id: u32, items: &[LoggedItem<'_>]) {
        let mut operations = transaction(id, items);
        operations.pop();
        self.append_operations_of(operations);
    }

    fn append_operations_of(&mut self, operations: Vec<Operation>) -> Lsn {
        let lsn = self.head;
        let operations: Vec<_> =
            operations.iter().map(|(id, flags, bytes)| (*id, *flags, bytes.as_slice())).collect();
        self.append_operations(&operations);
        lsn
    }

    /// Appends an unmount record that names itself as the tail: nothing before it has to be
    /// replayed. Returns its block number.
    pub(crate) fn append_unmount(&mut self) -> u32 {
        self.append_padded_unmount(1)
    }

    /// Appends an unmount record with a payload of this many blocks. Returns its block number.
    pub(crate) fn append_padded_unmount(&mut self, payload_blocks: u32) -> u32 {
        let mut payload = vec![0; payload_blocks as usize * BLOCK];
        payload[..12].copy_from_slice(&UNMOUNT_OPERATION);
        self.tail = self.head;
        self.append_payload(payload, 1)
    }

    fn append_payload(&mut self, mut payload: Vec<u8>, operations: u32) -> u32 {
        let (start, cycle, length) = (self.head.block(), self.head.cycle(), self.length());
        let cycle_of = |block: u32| cycle + u32::from(block >= length);
        let header_blocks = self.size.div_ceil(32 << 10).max(1);
        let mut headers = vec![0; header_blocks as usize * BLOCK];
        let mut put = |at: usize, word: u32| {
            headers[at..at + 4].copy_from_slice(&word.to_be_bytes());
        };
        let words = [LOG_RECORD_MAGIC, cycle, 2, payload.len() as u32, cycle, start];
        for (index, word) in words.into_iter().enumerate() {
            put(4 * index, word);
        }
        put(24, self.tail.cycle());
        put(28, self.tail.block());
        put(36, u32::MAX);
        put(40, operations);
        put(300, 1);
        put(320, self.size);
        for header in 1..header_blocks {
            put(header as usize * BLOCK, cycle_of(start + header));
        }
        headers[304..320].copy_from_slice(UUID.as_bytes());
        for (index, block) in payload.chunks_exact_mut(BLOCK).enumerate() {
            let (header, word) = (index / 64, index % 64);
            let at = header * BLOCK + if header == 0 { 44 } else { 4 } + 4 * word;
            headers[at..at + 4].copy_from_slice(&block[..4]);
            let cycle = cycle_of(start + header_blocks + index as u32);
            block[..4].copy_from_slice(&cycle.to_be_bytes());
        }
        seal(&mut headers, &payload);
        let record = [headers, payload].concat();
        for (block, bytes) in (start..).zip(record.chunks_exact(BLOCK)) {
            self.block_mut(block).copy_from_slice(bytes);
        }
        let end = start + (record.len() / BLOCK) as u32;
        self.head = Lsn::new(cycle_of(end), end % length);
        start
    }

    /// Appends records with payloads of `payload_blocks` blocks, until the log has wrapped `turns`
    /// times: the head is then in cycle `turns` + 1.
    pub(crate) fn fill(&mut self, turns: u32, payload_blocks: u32) {
        while self.head.cycle() <= turns {
            self.tail = self.head;
            self.append(payload_blocks);
        }
    }

    /// Lowers the cycle number of a block by one, as if the last write to the block were lost.
    pub(crate) fn make_stale(&mut self, block: u32) {
        let cycle = xfs_format::log_record::block_cycle(self.block_mut(block)) - 1;
        self.block_mut(block)[..4].copy_from_slice(&cycle.to_be_bytes());
    }
}

impl LogImage {
    /// Changes the header of the record at `block`, and computes its checksum again.
    pub(crate) fn edit_header(&mut self, block: u32, change: impl FnOnce(&mut [u8])) {
        let header = self.block_mut(block);
        let payload_bytes = u32::from_be_bytes(header[12..16].try_into().unwrap()) as usize;
        change(header);
        let mut headers = header.to_vec();
        let payload: Vec<u8> = (0..payload_bytes.div_ceil(BLOCK) as u32)
            .flat_map(|index| self.block_mut(block + 1 + index).to_vec())
            .collect();
        seal(&mut headers, &payload);
        self.block_mut(block).copy_from_slice(&headers);
    }
}

/// An operation of a record: transaction number, flags, bytes.
type Operation = (u32, OperationFlags, Vec<u8>);

/// Returns the operations of a whole transaction with these items.
fn transaction(id: u32, items: &[LoggedItem<'_>]) -> Vec<Operation> {
    let order = HostOrder::Little;
    let regions: Vec<_> = items.iter().flat_map(|item| item.encode(order)).collect();
    let count = regions.len() as u32;
    let header = TransactionHeader { kind: CHECKPOINT, transaction: id, regions: count };
    let mut operations = vec![(id, OperationFlags::START, Vec::new())];
    operations.push((id, OperationFlags::empty(), header.encode(order)));
    operations.extend(regions.into_iter().map(|region| (id, OperationFlags::empty(), region)));
    operations.push((id, OperationFlags::COMMIT, Vec::new()));
    operations
}

/// Stores the record's checksum in the headers. The checksum covers 328 bytes of the first header,
/// as on a 64-bit kernel.
fn seal(headers: &mut [u8], payload: &[u8]) {
    let mut covered = headers[..328].to_vec();
    let used = payload.len().div_ceil(32 << 10);
    for header in 1..used {
        covered.extend_from_slice(&headers[header * BLOCK..][..260]);
    }
    covered.extend_from_slice(payload);
    crc::seal(&mut covered, CRC_OFFSET);
    headers[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&covered[CRC_OFFSET..CRC_OFFSET + 4]);
}
