//! Forging of images: finds a structure of the golden image by its purpose, sets a field in a copy,
//! and recomputes the checksum.

use std::sync::Arc;

use ferroxfs::contents::ForkKind;
use ferroxfs::{Node, OpenOptions, Volume};
use xfs_format::{AgNumber, BlockKind, DiskAddr, FileBlock, InodeNumber};
use xfs_inode::Mapping;
use xfs_testkit::{Image, golden};

use crate::seeds;

/// Offset of the data fork in an inode, in bytes.
pub(crate) const FORKS: usize = 176;

/// A copy of the golden image that is being changed.
pub(crate) struct Forge {
    /// The golden volume, in which structures are found.
    volume: Volume,
    image: Image,
}

impl Forge {
    pub(crate) fn new() -> Self {
        let devices = OpenOptions::new().with_devices(Arc::new(golden()), None);
        let volume = devices.open().expect("the golden image opens");
        Self { volume, image: golden() }
    }

    pub(crate) fn finish(self) -> Image {
        self.image
    }

    /// Returns the copy of the golden image, for changes that no other method makes.
    pub(crate) fn image(&mut self) -> &mut Image {
        &mut self.image
    }

    fn node(&self, path: &str) -> Node {
        self.volume.lookup_no_follow(path).expect("the golden image has this path")
    }

    /// Returns the inode number of the file at `path`.
    pub(crate) fn number(&self, path: &str) -> InodeNumber {
        self.node(path).number()
    }

    /// Returns the disk address of file block `block` in a fork of `path`.
    pub(crate) fn fork_block(&self, path: &str, fork: ForkKind, block: u64) -> DiskAddr {
        let node = self.node(path);
        let inode = node.inode();
        let map =
            inode.extent_map(self.volume.cache(), fork).expect("the map of a golden file is valid");
        let at = match map.find(FileBlock(block)) {
            Mapping::Extent(extent) => extent
                .start
                .checked_add(block - extent.file_block.0)
                .and_then(|start| seeds::geometry().block_disk_addr(start)),
            Mapping::Hole { .. } => None,
        };
        at.expect("the golden file has this block")
    }

    /// Changes the buffer at `at` and recomputes its checksum as a buffer of `kind`.
    pub(crate) fn edit(&mut self, at: DiskAddr, kind: BlockKind, change: impl FnOnce(&mut [u8])) {
        let length = seeds::length_bytes(kind, seeds::geometry());
        self.image.edit_with(at, length, |bytes| {
            change(bytes);
            xfs_testkit::reseal(bytes, kind, seeds::geometry());
        });
    }

    /// Sets the field at `offset` in the buffer at `at`, and recomputes the checksum.
    pub(crate) fn set(&mut self, at: DiskAddr, kind: BlockKind, offset: usize, value: &[u8]) {
        self.edit(at, kind, |bytes| put(bytes, offset, value));
    }

    /// Sets the field at `offset` in the first superblock, and recomputes the checksum.
    pub(crate) fn superblock(&mut self, offset: usize, value: &[u8]) {
        self.set(DiskAddr(0), BlockKind::Superblock, offset, value);
    }

    /// Sets the field at `offset` in a header of the first group, and recomputes the checksum.
    pub(crate) fn header(&mut self, kind: BlockKind, offset: usize, value: &[u8]) {
        let index = match kind {
            BlockKind::Agf => 1,
            BlockKind::Agi => 2,
            _ => 3,
        };
        let at = seeds::geometry().header_disk_addr(AgNumber(0), index);
        self.set(at, kind, offset, value);
    }

    /// Changes the inode of `path` and recomputes its checksum.
    pub(crate) fn inode(&mut self, path: &str, change: impl FnOnce(&mut [u8])) {
        let number = self.number(path);
        let place = seeds::geometry().inode_location(number).expect("the inode lies in the volume");
        let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
        self.edit(at, BlockKind::InodeCluster, change);
    }

    /// Sets the field at `offset` in the inode of `path`.
    pub(crate) fn inode_field(&mut self, path: &str, offset: usize, value: &[u8]) {
        self.inode(path, |bytes| put(bytes, offset, value));
    }

    /// Sets a field of `path`'s data fork, which lies in the inode. `offset` counts from the start
    /// of the fork.
    pub(crate) fn data_fork(&mut self, path: &str, offset: usize, value: &[u8]) {
        self.inode_field(path, FORKS + offset, value);
    }

    /// Sets a field of `path`'s attribute fork, which lies in the inode. `offset` counts from the
    /// start of the fork.
    pub(crate) fn attr_fork(&mut self, path: &str, offset: usize, value: &[u8]) {
        self.inode(path, |bytes| {
            let start = bytes.get(82).map_or(0, |units| usize::from(*units) * 8);
            put(bytes, FORKS + start + offset, value);
        });
    }

    /// Sets the field at `offset` in a block of a fork, and recomputes the checksum.
    pub(crate) fn block(&mut self, block: Block<'_>, offset: usize, value: &[u8]) {
        let at = self.fork_block(block.path, block.fork, block.index);
        self.set(at, block.kind, offset, value);
    }
}

/// A block of a file's data or attribute fork.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) path: &'a str,
    pub(crate) fork: ForkKind,
    pub(crate) kind: BlockKind,
    /// The block's index in the fork, in filesystem blocks.
    pub(crate) index: u64,
}

impl<'a> Block<'a> {
    /// Returns the first data block of a directory.
    pub(crate) const fn directory(path: &'a str) -> Self {
        Self { path, fork: ForkKind::Data, kind: BlockKind::DirectoryData, index: 0 }
    }

    /// Returns the first block of a directory's index.
    pub(crate) const fn index(path: &'a str) -> Self {
        // 32 GiB into the directory, in blocks of 1 KiB.
        Self { path, fork: ForkKind::Data, kind: BlockKind::DirectoryIndex, index: 32 << 20 }
    }

    /// Returns the first block of an attribute fork.
    pub(crate) const fn attr(path: &'a str) -> Self {
        Self { path, fork: ForkKind::Attr, kind: BlockKind::Attr, index: 0 }
    }

    /// Returns the block at `index` of the same fork.
    pub(crate) const fn at(self, index: u64) -> Self {
        Self { index, ..self }
    }

    /// Returns this block as a block of `kind`. After a change, the checksum is recomputed as for
    /// that kind.
    pub(crate) const fn of(self, kind: BlockKind) -> Self {
        Self { kind, ..self }
    }
}

/// Overwrites the bytes from `offset` on with `value`.
///
/// # Panics
///
/// Panics if the field does not lie inside the structure, which is a mistake in the attack.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    let field = bytes.get_mut(offset..offset + value.len());
    field.expect("the field lies inside the structure").copy_from_slice(value);
}
