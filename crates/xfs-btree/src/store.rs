//! The store that keeps the blocks and the root of a btree while the btree is edited.

use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::DiskAddr;
use xfs_format::btree::BtreeKind;

use crate::root::Root;
use crate::source::Source;

/// The store that keeps the blocks and the root of a btree while the btree is edited.
///
/// After an error nothing is undone: the owner of the store must give up all changes that were made
/// through the store.
pub trait BtreeStore: Source {
    /// Changes the bytes in `range` of a block by calling `change` with exactly those bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    fn change(
        &mut self,
        block: &Self::Block,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()>;

    /// Allocates one more block near block `near` and returns its number. Both numbers are relative
    /// to the group, or to the volume for a fork's btree. The call must not change this btree
    /// itself.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store. The caller of the editor has reserved the space before.
    fn allocate(&mut self, near: u64) -> Result<u64>;

    /// Allocates a block for a new root above the present one, which is block `near`. The store of
    /// a root that lies in an inode returns [`INODE_ROOT`](crate::INODE_ROOT).
    ///
    /// # Errors
    ///
    /// The errors of [`allocate`](Self::allocate).
    fn allocate_root(&mut self, near: u64) -> Result<u64> {
        self.allocate(near)
    }

    /// Returns a block of zeros at `at`, which has just been allocated.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<Self::Block>;

    /// Frees a block that has left the btree.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    fn free(&mut self, number: u64, block: &Self::Block) -> Result<()>;

    /// Stores `root`, the new root of the btree.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    fn set_root(&mut self, root: Root<'_>) -> Result<()>;
}

impl<S: BtreeStore> BtreeStore for &mut S {
    fn change(
        &mut self,
        block: &S::Block,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        (**self).change(block, range, change)
    }

    fn allocate(&mut self, near: u64) -> Result<u64> {
        (**self).allocate(near)
    }

    fn allocate_root(&mut self, near: u64) -> Result<u64> {
        (**self).allocate_root(near)
    }

    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<S::Block> {
        (**self).claim(at, kind)
    }

    fn free(&mut self, number: u64, block: &S::Block) -> Result<()> {
        (**self).free(number, block)
    }

    fn set_root(&mut self, root: Root<'_>) -> Result<()> {
        (**self).set_root(root)
    }
}
