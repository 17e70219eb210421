//! A btree that is edited in a transaction.

use std::ops::Range;

use xfs_buffer::{Buffer, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr, Geometry};
use xfs_trans::Transaction;

use crate::root::Root;
use crate::source::Source;
use crate::store::BtreeStore;

/// The object that one btree is attached to: a group or an inode. It keeps the root of the btree,
/// and supplies its blocks.
///
/// The editing thread holds the latch of the object that contains the root: the header of the
/// group, or the inode. That latch covers all blocks of the btree. A block is read without a latch
/// of its own, and latched when it changes.
pub trait Anchor {
    /// Allocates one more block near block `near` and returns its number. Both block numbers are
    /// relative to the group, or to the volume for a fork's btree. The call must not change this
    /// btree itself.
    ///
    /// # Errors
    ///
    /// Returns the errors of the allocator. The caller of the editor has reserved the space before.
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64>;

    /// Frees the space of a block that has left the btree. The caller has already invalidated the
    /// buffer of the block.
    ///
    /// # Errors
    ///
    /// Returns the errors of the allocator.
    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()>;

    /// Stores `root`, the new root of the btree, in the object that contains the root.
    ///
    /// # Errors
    ///
    /// Returns the errors of writing to the object that contains the root.
    fn set_root(&mut self, tx: &mut Transaction<'_>, root: Root<'_>) -> Result<()>;
}

/// The blocks of a btree that is edited in a transaction.
pub struct Anchored<'t, 'journal, A> {
    /// The transaction that the changes belong to.
    pub tx: &'t mut Transaction<'journal>,
    /// The group or inode that keeps the root of the btree and supplies its blocks.
    pub anchor: A,
}

impl<A> Source for Anchored<'_, '_, A> {
    type Block = Buffer;

    fn geometry(&self) -> &Geometry {
        self.tx.geometry()
    }

    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<Buffer> {
        self.tx.cache().read_block(at, kind)
    }
}

impl<A: Anchor> BtreeStore for Anchored<'_, '_, A> {
    fn change(
        &mut self,
        block: &Buffer,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.tx.join_buffer(block)?;
        self.tx.change(block, range, change);
        Ok(())
    }

    fn allocate(&mut self, near: u64) -> Result<u64> {
        self.anchor.claim_block(self.tx, near)
    }

    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<Buffer> {
        self.tx.claim(at, self.tx.geometry().block_size, BlockKind::Btree(kind))
    }

    fn free(&mut self, number: u64, block: &Buffer) -> Result<()> {
        self.tx.join_buffer(block)?;
        self.tx.invalidate(block);
        self.anchor.free_block(self.tx, number)
    }

    fn set_root(&mut self, root: Root<'_>) -> Result<()> {
        self.anchor.set_root(self.tx, root)
    }
}
