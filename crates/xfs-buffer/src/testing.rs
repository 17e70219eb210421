//! A small volume for the tests of this crate. It consists of symlink target blocks, a structure
//! that is easy to make.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;
use xfs_device::{BlockDevice, Durability};
use xfs_format::{AgBlock, AgNumber, DiskAddr, Geometry, crc};
use xfs_sync::{AtomicU64, Mutex, Ordering, Volume};

pub(crate) const BLOCK: u32 = 4096;
pub(crate) const BLOCKS: u32 = 4096;
const ID: Uuid = Uuid::from_u128(0x5eed);

pub(crate) fn geometry() -> Arc<Geometry> {
    let mut geometry = Geometry::without_groups(12, 9, 512);
    geometry.ag_count = 1;
    geometry.ag_blocks = BLOCKS;
    geometry.ag_blocks_log = 12;
    geometry.data_blocks = BLOCKS.into();
    geometry.inode_alignment_blocks = 8;
    geometry.meta_uuid = ID;
    Arc::new(geometry)
}

pub(crate) fn address(block: u32) -> DiskAddr {
    geometry().ag_block_disk_addr(AgNumber(0), AgBlock(block))
}

/// Returns a valid symlink block. The first byte of its target identifies the block.
pub(crate) fn symlink_block(block: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(b"XSLM");
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(16_u32.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(ID.as_bytes());
    bytes.extend(128_u64.to_be_bytes());
    bytes.extend(address(block).0.to_be_bytes());
    bytes.extend(0_u64.to_be_bytes());
    bytes.extend([mark(block); 16]);
    bytes.resize(BLOCK as usize, 0);
    crc::seal(&mut bytes, 12);
    bytes
}

/// Returns the byte that fills the target in the symlink block number `block`.
pub(crate) fn mark(block: u32) -> u8 {
    b'a' + (block % 26) as u8
}

/// The offset in bytes of the target in a symlink block.
pub(crate) const TARGET: usize = 56;

/// A device full of symlink blocks. It counts its reads, and fails reads in a range or returns torn
/// blocks on request.
pub(crate) struct TestDevice {
    bytes: Vec<u8>,
    reads: AtomicU64<Volume>,
    bad: Mutex<Range<u64>, Volume>,
    /// The number of coming reads that return a torn block, whose last byte is wrong.
    torn_reads: AtomicU64<Volume>,
}

impl TestDevice {
    pub(crate) fn new() -> Arc<Self> {
        let bytes = (0..BLOCKS).flat_map(symlink_block).collect();
        Self::over(bytes)
    }

    fn over(bytes: Vec<u8>) -> Arc<Self> {
        let (reads, torn_reads) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { bytes, reads, bad: Mutex::new(0..0), torn_reads })
    }

    /// Makes the next `count` reads return bytes that no verifier accepts, like a half-written
    /// block.
    pub(crate) fn tear(&self, count: u64) {
        self.torn_reads.store(count, Ordering::Relaxed);
    }

    /// Creates a device whose byte at `offset` is wrong.
    pub(crate) fn with_damage(offset: usize) -> Arc<Self> {
        let mut bytes: Vec<u8> = (0..BLOCKS).flat_map(symlink_block).collect();
        bytes.iter_mut().skip(offset).take(1).for_each(|byte| *byte ^= 0x40);
        Self::over(bytes)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn fail(&self, range: Range<u64>) {
        *self.bad.lock() = range;
    }
}

impl BlockDevice for TestDevice {
    fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.bad.lock().contains(&offset) {
            return Err(io::Error::other("bad sector"));
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(start..).and_then(|tail| tail.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        let left = self.torn_reads.load(Ordering::Relaxed);
        if let (Some(byte), Some(left)) = (buffer.last_mut(), left.checked_sub(1)) {
            *byte ^= 1;
            self.torn_reads.store(left, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64, _: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
