//! Where a btree that is edited keeps its blocks.

use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::DiskAddr;
use xfs_format::btree::BtreeKind;

use crate::root::Root;
use crate::source::Source;

/// Where a btree that is edited keeps its blocks and its root.
///
/// After an error nothing is taken back: who owns the store gives up all of its changes.
pub trait Store: Source {
    /// Changes bytes `range` of a block. `change` is handed those bytes and no others.
    ///
    /// # Errors
    ///
    /// The store's own.
    fn change(
        &mut self,
        block: &Self::Block,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()>;

    /// Takes space for one more block, near block `near`, and returns its number in the form of the
    /// btree's pointers. The btree itself must not change meanwhile.
    ///
    /// # Errors
    ///
    /// The store's own; no space is one that the caller of the editor should have ruled out.
    fn allocate(&mut self, near: u64) -> Result<u64>;

    /// A block of zeros at `at`, which has just been allocated.
    ///
    /// # Errors
    ///
    /// The store's own.
    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<Self::Block>;

    /// Gives a block back that has left the btree.
    ///
    /// # Errors
    ///
    /// The store's own.
    fn free(&mut self, number: u64, block: &Self::Block) -> Result<()>;

    /// Keeps the root, which has changed.
    ///
    /// # Errors
    ///
    /// The store's own.
    fn set_root(&mut self, root: Root<'_>) -> Result<()>;
}

impl<S: Store> Store for &mut S {
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
