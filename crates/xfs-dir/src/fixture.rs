//! Test helper: the golden image as a volume, and access to its inodes and blocks.

use std::sync::Arc;

use xfs_buffer::{BufferCache, Result};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, DiskAddr, FileBlock, InodeNumber, StructureAddress, Superblock};
use xfs_inode::{Inode, Mapping};
use xfs_testkit::Image;

use crate::Directory;

pub(crate) fn volume(image: &Image) -> BufferCache {
    BufferCache::new(Arc::new(image.clone()), Arc::new(image.geometry()), 1 << 20)
}

pub(crate) fn root(image: &Image) -> InodeNumber {
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap().root_inode
}

pub(crate) fn lookup(cache: &BufferCache, image: &Image, path: &str) -> Result<Inode> {
    let mut inode = Inode::read(cache, root(image))?;
    for name in path.split('/') {
        let (number, _) = Directory::new(cache, &inode)?.lookup(name.as_bytes())?;
        inode = Inode::read(cache, number)?;
    }
    Ok(inode)
}

/// One metadata block in a fork of the inode at a path: its address, length and kind.
pub(crate) struct ForkBlock {
    pub(crate) at: DiskAddr,
    pub(crate) length: usize,
    pub(crate) kind: BlockKind,
}

impl ForkBlock {
    pub(crate) fn find(image: &Image, path: &str, kind: BlockKind, block: u64) -> Self {
        let (cache, geometry) = (volume(image), image.geometry());
        let inode = lookup(&cache, image, path).unwrap();
        let (fork, length) = match kind {
            BlockKind::Attr | BlockKind::AttrRemote => (ForkKind::Attr, geometry.block_size),
            _ => (ForkKind::Data, geometry.directory_block_size()),
        };
        let Ok(Mapping::Extent(extent)) = inode.find(&cache, fork, FileBlock(block)) else {
            panic!("block {block} of {path} is mapped");
        };
        let start = extent.start.checked_add(block - extent.file_block.0).unwrap();
        let at = geometry.block_disk_addr(start).unwrap();
        Self { at, length: length as usize, kind }
    }

    /// Changes the block and updates its checksum.
    pub(crate) fn edit(&self, image: &mut Image, change: impl FnOnce(&mut [u8])) {
        image.edit(self.at, self.length, self.kind, change);
    }

    /// Makes the block unreadable: its checksum becomes wrong.
    pub(crate) fn damage(&self, image: &mut Image) {
        let mut sector = image.bytes(self.at, 512).unwrap();
        sector[200] ^= 0xff;
        image.replace(self.at, &sector);
    }

    pub(crate) fn bytes(&self, image: &Image) -> Vec<u8> {
        image.bytes(self.at, self.length).unwrap()
    }
}

/// Writes big-endian numbers of 32 bits, one after another, from `offset` on.
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, words: &[u32]) {
    for (word, place) in words.iter().zip(bytes[offset..].chunks_exact_mut(4)) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// Returns a different name of the same length with the same hash. Flips one bit of the first byte.
/// The hash rotates by 7 bits between two bytes, so this function also flips that bit of the second
/// byte to which the rotation moves the flipped bit. The two changes cancel out.
pub(crate) fn collide(name: &[u8]) -> Vec<u8> {
    let mut other = name.to_vec();
    other[0] ^= 0x01;
    other[1] ^= 0x80;
    other
}
