//! A btree that is edited in a transaction.

use std::ops::Range;

use xfs_buffer::{Buffer, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr, Geometry};
use xfs_trans::Transaction;

use crate::root::Root;
use crate::source::Source;
use crate::store::Store;

/// What one btree hangs from: where its root is kept and its blocks come from.
///
/// Whoever edits holds the latch of what the root stands in, the header of the group or the inode.
/// It stands for all blocks of the btree: they are read without latches, and latched as they
/// change.
pub trait Anchor {
    /// Takes space for one more block near block `near`, and returns its number: of a block of the
    /// group, or of the volume for a fork's btree. The btree itself must not change meanwhile.
    ///
    /// # Errors
    ///
    /// The allocator's. That there is space is for the caller of the editor to have made sure of.
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64>;

    /// Gives back the space of a block that has left the btree. Its buffer is invalid already.
    ///
    /// # Errors
    ///
    /// The allocator's.
    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()>;

    /// Keeps the root, which has changed.
    ///
    /// # Errors
    ///
    /// What changing its place meets.
    fn set_root(&mut self, tx: &mut Transaction<'_>, root: Root<'_>) -> Result<()>;
}

/// The blocks of a btree in a transaction.
pub struct Anchored<'t, 'journal, A> {
    /// What the changes belong to.
    pub tx: &'t mut Transaction<'journal>,
    /// What the btree hangs from.
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

impl<A: Anchor> Store for Anchored<'_, '_, A> {
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
