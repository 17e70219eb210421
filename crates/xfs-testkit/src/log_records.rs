//! Records that tests append to the log of an image.
//!
//! Owns: laying out records as the kernel does. Does **not** own: the bytes of items
//! (`xfs-format`), or logs whose records do not start at the first block.

use std::ops::Range;

use xfs_format::inode::{self, ForkFormat, ForkKind, InodeCore};
use xfs_format::log_item::{
    BufferFlags, BufferFormat, BufferRegion, BufferType, CHECKPOINT, CHUNK_BYTES, HostOrder,
    InodeFormat, InodeItem, LoggedBuffer, LoggedFields, LoggedItem, TransactionHeader, core_to_log,
};
use xfs_format::log_record::{CLIENT_TRANSACTION, LOG_RECORD_MAGIC, OperationFlags};
use xfs_format::{BlockKind, DiskAddr, InodeNumber, Lsn, StructureAddress, Superblock, crc};

use crate::image::Image;

const BLOCK: usize = 512;
const CRC_OFFSET: usize = 32;
/// The number of bytes of a record header that are part of the record's checksum. Here it is the
/// number that a 64-bit kernel uses.
const COVERED: usize = 328;
/// The size of an in-core log buffer that each header states, in bytes. A record of this size has
/// one header block.
const BUFFER_BYTES: u32 = 32 << 10;
const UNMOUNT_OPERATION: [u8; 12] = [0xb0, 0xc0, 0xd0, 0xd0, 0, 0, 0, 8, 0xaa, 0x20, 0, 0];

/// Appends records to the log of an image. The log must hold a single record at its first block, as
/// after mkfs.
pub struct LogRecords<'a> {
    image: &'a mut Image,
    start: DiskAddr,
    uuid: [u8; 16],
    head: Lsn,
    tail: Lsn,
    next_id: u32,
}

impl<'a> LogRecords<'a> {
    /// Returns a writer that continues after the record at the first block of the log.
    ///
    /// # Panics
    ///
    /// Panics if the superblock does not decode, or if no record is at the first block of the log.
    pub fn of(image: &'a mut Image) -> Self {
        let sector = image.bytes(DiskAddr(0), BLOCK).expect("an image has a first sector");
        let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
        let superblock = superblock.expect("the superblock of a test image decodes");
        let start = superblock.geometry.block_disk_addr(superblock.log_start);
        let start = start.expect("the log lies in the volume");
        let header = image.bytes(start, BLOCK).expect("the log lies in the image");
        let word = |at: usize| {
            let bytes = header.get(at..).and_then(<[u8]>::first_chunk::<4>);
            u32::from_be_bytes(*bytes.expect("a header has 512 bytes"))
        };
        assert_eq!(word(0), LOG_RECORD_MAGIC, "the log starts with a record");
        let (cycle, payload) = (word(4), word(12).div_ceil(512));
        let head = Lsn::new(cycle, 1 + payload);
        let uuid = superblock.uuid.into_bytes();
        Self { image, start, uuid, head, tail: head, next_id: 1 }
    }

    /// Returns the LSN of the next record.
    #[must_use]
    pub const fn head(&self) -> Lsn {
        self.head
    }

    /// Sets the cycle number of all later records to `cycle`, as if the log had wrapped that often.
    pub fn set_cycle(&mut self, cycle: u32) {
        self.head = Lsn::new(cycle, self.head.block());
        self.tail = self.head;
    }

    /// Returns the address of a block of the log.
    #[must_use]
    pub const fn address(&self, block: u32) -> DiskAddr {
        DiskAddr(self.start.0 + block as u64)
    }

    /// Appends a record with one whole transaction. Returns the LSN of the record.
    ///
    /// # Panics
    ///
    /// Panics if the items do not fit into one record.
    pub fn transaction(&mut self, items: &[LoggedItem<'_>]) -> Lsn {
        let (order, id) = (HostOrder::Little, self.next_id);
        self.next_id += 1;
        let regions: Vec<_> = items.iter().flat_map(|item| item.encode(order)).collect();
        let count = u32::try_from(regions.len()).expect("few regions");
        let header = TransactionHeader { kind: CHECKPOINT, transaction: id, regions: count };
        let mut payload = Vec::new();
        let mut add = |flags: OperationFlags, bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).expect("a region is short");
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&length.to_be_bytes());
            payload.extend_from_slice(&[CLIENT_TRANSACTION, flags.bits(), 0, 0]);
            payload.extend_from_slice(bytes);
        };
        add(OperationFlags::START, &[]);
        add(OperationFlags::empty(), &header.encode(order));
        regions.iter().for_each(|region| add(OperationFlags::empty(), region));
        add(OperationFlags::COMMIT, &[]);
        self.record(payload, count + 3)
    }

    /// Appends a record with one transaction that logs the core of an inode, and those forks whose
    /// fields are in `fields`. `bytes` is the inode in its disk form.
    ///
    /// # Panics
    ///
    /// Panics if the inode does not decode, or if a fork in `fields` is the root of a btree.
    pub fn inode(&mut self, number: InodeNumber, bytes: &[u8], fields: LoggedFields) -> Lsn {
        let geometry = self.image.geometry();
        let core = InodeCore::decode(bytes, number, &geometry).expect("the inode decodes");
        let data = fields.intersects(LoggedFields::DATA);
        let data = data.then(|| region(bytes, &core, ForkKind::Data));
        let attr = fields.intersects(LoggedFields::ATTR);
        let attr = attr.then(|| region(bytes, &core, ForkKind::Attr));
        let location = geometry.inode_location(number).expect("the inode lies in the volume");
        let length = |region: &Option<Vec<u8>>| {
            let length = region.as_ref().map_or(0, Vec::len);
            u16::try_from(length).expect("a fork is shorter than an inode")
        };
        let format = InodeFormat {
            regions: 2 + u16::from(data.is_some()) + u16::from(attr.is_some()),
            fields: fields | LoggedFields::CORE,
            attr_bytes: length(&attr),
            data_bytes: length(&data),
            inode: number,
            device: 0,
            cluster: location.cluster,
            cluster_blocks: 32,
            offset_bytes: location.offset_bytes,
        };
        let disk = bytes.first_chunk().expect("an inode is longer than its core");
        let core = core_to_log(disk, HostOrder::Little);
        let (data, attr) = (data.as_deref(), attr.as_deref());
        self.transaction(&[LoggedItem::Inode(InodeItem { format, core: &core, data, attr })])
    }

    /// Appends a record with one transaction that logs the chunks `chunks` of a metadata block. A
    /// chunk has 128 bytes. `bytes` is the whole block.
    ///
    /// # Panics
    ///
    /// Panics if the block does not have these chunks.
    pub fn block(
        &mut self,
        at: DiskAddr,
        kind: BlockKind,
        bytes: &[u8],
        chunks: Range<usize>,
    ) -> Lsn {
        let length = u32::try_from(bytes.len()).expect("a block is short");
        let mut format = BufferFormat::clean(at, length);
        format.flags = BufferType::of_block(kind, bytes).flags();
        format.regions = 2;
        for chunk in chunks.clone() {
            let word = format.bitmap.get_mut(chunk / 32).expect("the block has the chunk");
            *word |= 1 << (chunk % 32);
        }
        let offset_bytes = chunks.start * CHUNK_BYTES;
        let bytes = bytes.get(offset_bytes..chunks.end * CHUNK_BYTES);
        let bytes = bytes.expect("the block has the chunks");
        let pieces = vec![BufferRegion { offset_bytes, bytes }];
        self.transaction(&[LoggedItem::Buffer(LoggedBuffer { format, pieces })])
    }

    /// Appends a record with one transaction that cancels the block of `length_bytes` bytes at
    /// `at`.
    pub fn cancel(&mut self, at: DiskAddr, length_bytes: u32) -> Lsn {
        let mut format = BufferFormat::clean(at, length_bytes);
        format.flags = BufferFlags::CANCEL;
        self.transaction(&[LoggedItem::Buffer(LoggedBuffer { format, pieces: Vec::new() })])
    }

    /// Appends an unmount record: nothing before it has to be replayed.
    pub fn unmount(mut self) {
        self.tail = self.head;
        self.record(UNMOUNT_OPERATION.to_vec(), 1);
    }

    fn record(&mut self, mut payload: Vec<u8>, operations: u32) -> Lsn {
        let lsn = self.head;
        payload.resize(payload.len().next_multiple_of(BLOCK), 0);
        let length = u32::try_from(payload.len()).expect("a record is short");
        assert!(length <= BUFFER_BYTES, "the items fit into one record");
        let mut header = vec![0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| {
            let target = header.get_mut(at..at + bytes.len()).expect("a header has 512 bytes");
            target.copy_from_slice(bytes);
        };
        put(0, &LOG_RECORD_MAGIC.to_be_bytes());
        put(4, &lsn.cycle().to_be_bytes());
        put(8, &2_u32.to_be_bytes());
        put(12, &length.to_be_bytes());
        put(16, &lsn.0.to_be_bytes());
        put(24, &self.tail.0.to_be_bytes());
        put(36, &u32::MAX.to_be_bytes());
        put(40, &operations.to_be_bytes());
        put(300, &1_u32.to_be_bytes());
        put(304, &self.uuid);
        put(320, &BUFFER_BYTES.to_be_bytes());
        for (index, block) in payload.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            let first = block.first_chunk_mut::<4>().expect("a block has 512 bytes");
            put(44 + 4 * index, first);
            *first = lsn.cycle().to_be_bytes();
        }
        let mut covered = header.clone();
        covered.truncate(COVERED);
        covered.extend_from_slice(&payload);
        crc::seal(&mut covered, CRC_OFFSET);
        let sum = covered.get(CRC_OFFSET..CRC_OFFSET + 4).expect("the header has its checksum");
        header.splice(CRC_OFFSET..CRC_OFFSET + 4, sum.iter().copied());
        let at = self.address(lsn.block());
        self.image.replace(at, &[header, payload].concat());
        self.head = Lsn::new(lsn.cycle(), lsn.block() + 1 + length / 512);
        lsn
    }
}

/// Returns the bytes of a fork as they are in a logged inode: padded to a multiple of 4 bytes.
fn region(bytes: &[u8], core: &InodeCore, kind: ForkKind) -> Vec<u8> {
    let fork = inode::fork(bytes, core, kind);
    let length = match core.fork_format(kind).expect("the fork is there") {
        ForkFormat::Extents => usize::try_from(core.fork_extents(kind) * 16).expect("few extents"),
        ForkFormat::Local if kind == ForkKind::Data => {
            usize::try_from(core.size).expect("a local fork is short")
        }
        ForkFormat::Local => {
            let total = fork.first_chunk().expect("a local fork has its length");
            u16::from_be_bytes(*total).into()
        }
        format => unreachable!("{format:?} is not logged by tests"),
    };
    let mut region = fork.get(..length).expect("the fork is as long as stated").to_vec();
    region.resize(length.next_multiple_of(4), 0);
    region
}
