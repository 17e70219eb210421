//! The fuzz target for recovery: a log with one record of arbitrary contents, replayed onto the
//! golden image.
//!
//! The input is the number of operations in 4 bytes, big-endian, and then the payload of a record
//! with the operations. The record around the payload is valid.

use std::hint::black_box;
use std::sync::Arc;

use ferroxfs::OpenOptions;
use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::agi::AGI_SECTOR;
use xfs_format::dquot::{DQUOT_BLOCK_BYTES, QuotaKind, dquot_at};
use xfs_format::log_item::{
    BufferFlags, BufferFormat, BufferRegion, BufferType, CHECKPOINT, CHUNK_BYTES, DquotFormat,
    DquotItem, ExtentFree, HostOrder, InodeCreate, InodeFormat, InodeItem, IntentExtents,
    LoggedBuffer, LoggedFields, LoggedItem, QuotaOff, TransactionHeader, core_to_log,
};
use xfs_format::log_record::{
    ByteOrder, CLIENT_TRANSACTION, LogOperation, LogRecordHeader, OperationFlags, unmount_operation,
};
use xfs_format::{
    AgBlock, AgNumber, BASIC_BLOCK_BYTES, BlockKind, DiskAddr, FsBlock, Lsn, Superblock,
    SuperblockDisk,
};
use xfs_log::{LogDevice, LogGeometry, RecoveryError, Replayed, replay};
use xfs_testkit::golden;
use zerocopy::{FromBytes, IntoBytes};

use super::dquots::build_block;
use crate::seeds;

const LOG_BLOCKS: u32 = 256;
const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
/// Cycle of the forged log. It is later than any cycle in the golden image, so every item is newer
/// than the image.
const CYCLE: u32 = 50;
/// Largest payload in bytes of a record that a log buffer of 32 KiB can hold.
const MAX_PAYLOAD_BYTES: usize = 32 << 10;
const ORDER: HostOrder = HostOrder::Little;

/// Fuzzes recovery: makes a log from the input, replays it onto the golden image, and reads the
/// resulting volume.
pub fn recovery(input: &[u8]) {
    let Some(Ok(replayed)) = replay_input(input) else { return };
    let options = OpenOptions::new().no_recovery(true);
    if let Ok(volume) = options.open_device(replayed.device()) {
        let names = volume.read_dir("/").map(|names| names.take(100).count());
        black_box((names.ok(), volume.space().ok()));
    }
}

fn replay_input(input: &[u8]) -> Option<Result<Replayed, RecoveryError>> {
    let (operations, payload) = input.split_first_chunk::<4>()?;
    let payload = payload.get(..MAX_PAYLOAD_BYTES).unwrap_or(payload);
    let superblock = superblock()?;
    let log = log(u32::from_be_bytes(*operations), payload, &superblock)?;
    Some(replay(Arc::new(golden()), &log, &superblock))
}

/// Returns the superblock of the golden image, changed so that the log is on a device of its own.
/// Returns `None` if the superblock does not decode.
fn superblock() -> Option<Superblock> {
    let sector = golden().bytes(DiskAddr(0), BLOCK)?;
    let place = xfs_format::StructureAddress::Disk(DiskAddr(0));
    let mut superblock = Superblock::decode(&sector, place).ok()?;
    superblock.log_start = FsBlock(0);
    Some(superblock)
}

/// Creates a log with an unmount record, followed by a record with the payload `payload`. The
/// header of that record counts `operations` operations. Returns `None` if the payload does not fit
/// into the log.
fn log(operations: u32, payload: &[u8], superblock: &Superblock) -> Option<LogDevice> {
    let mut geometry = LogGeometry::new(superblock);
    geometry.length_blocks = LOG_BLOCKS;
    let mut bytes = vec![0; LOG_BLOCKS as usize * BLOCK];
    for block in bytes.chunks_exact_mut(BLOCK) {
        block.first_chunk_mut::<4>()?.copy_from_slice(&(CYCLE - 1).to_be_bytes());
    }
    let (unmount, unmount_bytes) = unmount_operation();
    let unmount = [&unmount.encode()[..], &unmount_bytes].concat();
    let records = [(0, 1, unmount.as_slice()), (2, operations, payload)];
    for (start, operations, payload) in records {
        let lsn = Lsn::new(CYCLE, start);
        let header = LogRecordHeader {
            cycle: CYCLE,
            length: payload.len().next_multiple_of(BLOCK).max(BLOCK) as u32,
            lsn,
            tail: lsn,
            crc: 0,
            previous_block: 0,
            operations,
            byte_order: ByteOrder::LittleEndian,
            uuid: superblock.uuid,
            size: 32 << 10,
            version: geometry.version,
        };
        let mut record = vec![0; header.total_blocks() as usize * BLOCK];
        record.get_mut(BLOCK..BLOCK + payload.len())?.copy_from_slice(payload);
        header.encode(&mut record, LOG_BLOCKS);
        let at = start as usize * BLOCK;
        bytes.get_mut(at..at + record.len())?.copy_from_slice(&record);
    }
    let device = MemoryDevice::new(bytes.len() as u64);
    device.write_at(&bytes, 0, Durability::Cached).ok()?;
    LogDevice::with_geometry(Arc::new(device), geometry).ok()
}

/// Returns inputs with valid transactions: one for each item that changes something, and one with
/// all of these items.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let core = core();
    let agi = seeds::of(BlockKind::Agi).next().map(|seed| seed.bytes.clone()).unwrap_or_default();
    let items = items(&core, agi.get(..CHUNK_BYTES).unwrap_or_default());
    let alone = items.chunks(1);
    let mut inputs: Vec<_> = alone.chain([items.as_slice()]).map(input).collect();
    inputs.extend(quota_inputs());
    inputs
}

/// Returns two inputs with quota items. Both add a block of dquots to a quota inode and change a
/// dquot in the block. The second input also turns quota accounting off. The block lies in the
/// golden image's own log, which this target does not use.
fn quota_inputs() -> Vec<Vec<u8>> {
    let geometry = seeds::geometry();
    let block = build_block(QuotaKind::User);
    let log = golden().bytes(DiskAddr(0), BLOCK).and_then(|sector| {
        let (disk, _) = SuperblockDisk::read_from_prefix(&sector).ok()?;
        geometry.block_disk_addr(FsBlock(disk.log_start.get()))
    });
    let (Some(at), Some(first)) = (log, dquot_at(&block, 1)) else { return Vec::new() };
    let mut changed = *first;
    changed.inodes = 7.into();
    let Some(dquot) = changed.as_bytes().first_chunk() else { return Vec::new() };
    let (id, offset_bytes) = (1, DQUOT_BLOCK_BYTES as u32);
    let format = DquotFormat { id, at, blocks: 1, offset_bytes };
    let change = LoggedItem::Dquot(DquotItem { format, dquot });
    let pieces = vec![BufferRegion { offset_bytes: 0, bytes: &block }];
    let chunks = block.len() / CHUNK_BYTES;
    let (flags, blocks) = (BufferType::UserDquot.flags(), (block.len() / BLOCK) as u16);
    let format = BufferFormat { regions: 2, flags, at, blocks, bitmap: vec![(1 << chunks) - 1] };
    let new_block = LoggedItem::Buffer(LoggedBuffer { format, pieces });
    let mut items = vec![new_block, change];
    let replayed = input(&items);
    items.push(LoggedItem::QuotaOff(QuotaOff { flags: 1 }));
    vec![replayed, input(&items)]
}

fn core() -> [u8; 176] {
    let geometry = seeds::geometry();
    let place = superblock().and_then(|superblock| geometry.inode_location(superblock.root_inode));
    let bytes = place.and_then(|place| {
        let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes / BASIC_BLOCK_BYTES));
        golden().bytes(at, BLOCK)
    });
    let core = bytes.and_then(|bytes| bytes.first_chunk().copied()).unwrap_or([0; 176]);
    core_to_log(&core, ORDER)
}

fn items<'a>(core: &'a [u8], agi: &'a [u8]) -> Vec<LoggedItem<'a>> {
    let geometry = seeds::geometry();
    let mut items = Vec::new();
    let root = superblock().map(|superblock| superblock.root_inode).unwrap_or_default();
    if let Some(place) = geometry.inode_location(root) {
        let format = InodeFormat {
            regions: 2,
            fields: LoggedFields::CORE,
            attr_bytes: 0,
            data_bytes: 0,
            inode: root,
            device: 0,
            cluster: place.cluster,
            cluster_blocks: place.cluster_bytes / BASIC_BLOCK_BYTES,
            offset_bytes: place.offset_bytes,
        };
        items.push(LoggedItem::Inode(InodeItem { format, core, data: None, attr: None }));
        let (at, blocks) = (place.cluster, (place.cluster_bytes / BASIC_BLOCK_BYTES) as u16);
        let flags = BufferFlags::INODES | BufferType::Inodes.flags();
        items.push(buffer_item(at, blocks, flags, agi));
        items.push(buffer_item(at, blocks, BufferFlags::CANCEL, &[]));
    }
    let at = geometry.header_disk_addr(AgNumber(0), AGI_SECTOR);
    items.push(buffer_item(at, 1, BufferType::Agi.flags(), agi));
    items.push(LoggedItem::InodeCreate(InodeCreate {
        group: AgNumber(0),
        start: AgBlock(geometry.ag_blocks / 2),
        count: 64,
        inode_size: geometry.inode_size,
        length_blocks: geometry.chunk_blocks(),
        generation: 1,
    }));
    let extents = vec![ExtentFree { start: FsBlock(100), length_blocks: 1 }];
    items.push(LoggedItem::ExtentFree(IntentExtents { id: 1, extents: extents.clone() }));
    items.push(LoggedItem::ExtentFreeDone(IntentExtents { id: 1, extents }));
    items
}

fn buffer_item(at: DiskAddr, blocks: u16, flags: BufferFlags, bytes: &[u8]) -> LoggedItem<'_> {
    let pieces: Vec<_> = (!bytes.is_empty())
        .then_some(BufferRegion { offset_bytes: 0, bytes })
        .into_iter()
        .collect();
    let (regions, bitmap) = (1 + pieces.len() as u16, vec![pieces.len() as u32]);
    let format = BufferFormat { regions, flags, at, blocks, bitmap };
    LoggedItem::Buffer(LoggedBuffer { format, pieces })
}

/// Encodes a transaction with these items as an input of the target.
fn input(items: &[LoggedItem<'_>]) -> Vec<u8> {
    let regions: Vec<_> = items.iter().flat_map(|item| item.encode(ORDER)).collect();
    let header =
        TransactionHeader { kind: CHECKPOINT, transaction: 1, regions: regions.len() as u32 };
    let mut operations = vec![(OperationFlags::START, Vec::new())];
    let bodies = [header.encode(ORDER)].into_iter().chain(regions);
    operations.extend(bodies.map(|body| (OperationFlags::empty(), body)));
    operations.push((OperationFlags::COMMIT, Vec::new()));
    let mut input = (operations.len() as u32).to_be_bytes().to_vec();
    for (flags, body) in operations {
        let (transaction, length, client) = (1, body.len() as u32, CLIENT_TRANSACTION);
        input.extend(LogOperation { transaction, length, client, flags }.encode());
        input.extend(body);
    }
    input
}

#[cfg(test)]
mod tests;
