//! The source that the blocks of a btree are read from.

use std::ops::Deref;

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr, Geometry};

/// A block of a btree in memory. A clone is cheap and shares the bytes.
pub trait TreeBlock: Clone {
    /// Returns the contents, latched for reading until the guard is dropped.
    fn bytes(&self) -> impl Deref<Target = [u8]>;
}

/// The source that a btree's blocks are read from.
pub trait Source {
    /// The type of a block in memory.
    type Block: TreeBlock;

    /// Returns the geometry of the volume.
    fn geometry(&self) -> &Geometry;

    /// Reads the block at `at` and verifies it as a block of `kind`.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or a corruption if the block is damaged.
    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<Self::Block>;
}

impl<S: Source> Source for &mut S {
    type Block = S::Block;

    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<S::Block> {
        (**self).read_block(at, kind)
    }
}

impl TreeBlock for Buffer {
    fn bytes(&self) -> impl Deref<Target = [u8]> {
        Self::bytes(self)
    }
}

impl Source for BufferCache {
    type Block = Buffer;

    fn geometry(&self) -> &Geometry {
        self.geometry()
    }

    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<Buffer> {
        self.read(at, self.geometry().block_size, BlockKind::Btree(kind))
    }
}
