//! Test helper: a volume in memory, built from the inodes and blocks in `testdata/inodes`.
//!
//! The volume has blocks of 1 KiB and inodes of 512 bytes, all in the first allocation group. Inode
//! N lies at byte N · 512 of the volume, and block N at byte N · 1024.

use std::sync::Arc;

use xfs_buffer::{BufferCache, Error};
use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::btree::BtreeKind;
use xfs_format::{
    BlockKind, Check, DiskAddr, Geometry, InodeNumber, Lsn, StructureAddress, Superblock, inode,
};

use crate::Inode;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../../testdata/inodes/", $name))
    };
}

pub(crate) const EMPTY: &[u8] = golden!("empty.inode");
pub(crate) const TEXT: &[u8] = golden!("text.inode");
pub(crate) const HOLES: &[u8] = golden!("holes.inode");
pub(crate) const FRAGMENTS: &[u8] = golden!("fragments.inode");
pub(crate) const LINK: &[u8] = golden!("link.inode");
pub(crate) const LONG_LINK: &[u8] = golden!("longlink.inode");
pub(crate) const CHARACTER: &[u8] = golden!("character.inode");
pub(crate) const DIRECTORY: &[u8] = golden!("directory.inode");
pub(crate) const REMOVED: &[u8] = golden!("removed.inode");
pub(crate) const ALL: [&[u8]; 9] =
    [EMPTY, TEXT, HOLES, FRAGMENTS, LINK, LONG_LINK, CHARACTER, DIRECTORY, REMOVED];
pub(crate) const FRAGMENTS_LEAF: &[u8] = golden!("fragments.block");
pub(crate) const LONG_LINK_BLOCK: &[u8] = golden!("longlink.block");

/// The value of every byte of an unwritten block on the device. No file may ever show it.
pub(crate) const STALE: u8 = 0xee;

/// Returns the inode number that an inode's bytes contain.
pub(crate) fn number(record: &[u8]) -> InodeNumber {
    InodeNumber(u64::from_be_bytes(record[152..160].try_into().unwrap()))
}

/// Returns the bytes of an inode with the bytes at the given offsets replaced, and its checksum
/// updated.
pub(crate) fn changed(record: &[u8], changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = record.to_vec();
    for (offset, new) in changes {
        bytes[*offset..offset + new.len()].copy_from_slice(new);
    }
    let lsn = Lsn(u64::from_be_bytes(bytes[112..120].try_into().unwrap()));
    inode::seal(&mut bytes, lsn);
    bytes
}

/// A volume in memory that contains the inodes and blocks of `testdata/inodes`.
pub(crate) struct Volume {
    device: Arc<MemoryDevice>,
    geometry: Arc<Geometry>,
}

impl Volume {
    pub(crate) fn new() -> Self {
        let sector = golden!("new.superblock");
        let superblock = Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
        let geometry = Arc::new(superblock.geometry);
        let device = Arc::new(MemoryDevice::new(geometry.data_bytes()));
        let volume = Self { device, geometry };
        for record in ALL {
            volume.put_inode(record);
        }
        // The maps of "holes" and "text", as the kernel chose them.
        volume.put(11 * 1024, &[STALE; 4 * 1024]);
        volume.put(15 * 1024, &[b'A'; 1024]);
        volume.put(12 * 1024, &[b'B'; 1024]);
        volume.put_block(FRAGMENTS_LEAF, 24);
        volume.put_block(LONG_LINK_BLOCK, 40);
        volume
    }

    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.device.write_at(bytes, offset, Durability::Cached).unwrap();
    }

    pub(crate) fn put_inode(&self, record: &[u8]) {
        self.put(number(record).0 * 512, record);
    }

    /// Writes a block to the address that the block itself contains at byte offset `field`.
    fn put_block(&self, block: &[u8], field: usize) {
        let address = u64::from_be_bytes(block[field..field + 8].try_into().unwrap());
        self.put(address * 512, block);
    }

    /// Writes a block of an extent btree to block number `at`, with this level, number of entries
    /// and contents.
    pub(crate) fn put_btree_block(&self, at: u64, level: u16, count: u16, entries: &[u8]) {
        let mut block = FRAGMENTS_LEAF.to_vec();
        block[4..6].copy_from_slice(&level.to_be_bytes());
        block[6..8].copy_from_slice(&count.to_be_bytes());
        block[24..32].copy_from_slice(&(at * 2).to_be_bytes());
        block[72..].fill(0);
        block[72..72 + entries.len()].copy_from_slice(entries);
        self.put_changed_block(at, &block, &[]);
    }

    /// Makes two blocks of an extent btree name each other as siblings.
    pub(crate) fn join_btree_blocks(&self, left: u64, right: u64) {
        for (at, field, sibling) in [(left, 16, right), (right, 8, left)] {
            let mut block = vec![0; 1024];
            self.device.read_at(&mut block, at * 1024).unwrap();
            self.put_changed_block(at, &block, &[(field, &sibling.to_be_bytes())]);
        }
    }

    /// Writes a changed block of an extent btree to block number `at`, and updates its checksum.
    pub(crate) fn put_changed_block(&self, at: u64, block: &[u8], changes: &[(usize, &[u8])]) {
        let mut block = block.to_vec();
        for (offset, new) in changes {
            block[*offset..offset + new.len()].copy_from_slice(new);
        }
        BlockKind::Btree(BtreeKind::Extent).seal(&mut block, Lsn(0));
        self.put(at * 1024, &block);
    }

    pub(crate) fn device(&self) -> Arc<dyn BlockDevice> {
        self.device.clone()
    }

    /// Creates an empty buffer cache.
    pub(crate) fn cache(&self) -> BufferCache {
        BufferCache::new(self.device(), self.geometry.clone(), 1 << 16)
    }

    pub(crate) fn read(&self, record: &[u8]) -> Result<Inode, Error> {
        Inode::read(&self.cache(), number(record))
    }
}

/// Returns the check that failed. Panics if `result` is anything but a corruption.
pub(crate) fn failed_check<T>(result: Result<T, Error>) -> Check {
    match result {
        Err(Error::Corrupt(corruption)) => corruption.check().clone(),
        Err(other) => panic!("not a corruption: {other}"),
        Ok(_) => panic!("no corruption"),
    }
}
