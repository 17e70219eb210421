//! The inodes of one group while a transaction works on them.

use std::ops::Range;

use xfs_btree::{Anchor, Anchored, Editor, Root};
use xfs_buffer::{Buffer, Result};
use xfs_format::agf::BtreeRoot;
use xfs_format::agi::{AGI_SECTOR, Agi, AgiCheck, AgiDisk};
use xfs_format::btree::{BtreeCheck, BtreeFormat, BtreeKind};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, Check, Corruption, DiskAddr, FsBlock, InodeNumber,
    Place, Structure,
};
use xfs_trans::Transaction;

use super::state::{GroupState, InodeGroups};
use crate::allocate::{SpaceRequest, Target, allocate_extent};
use crate::deferred::{BlockExtent, defer_free};
use crate::owner::{ExtentOwner, Purpose};

/// The fields of an AGI that change: the counters with the root between them, the unlinked lists,
/// and what goes with the free-inode btree.
const CHANGING_BYTES: [Range<usize>; 3] = [16..36, 40..296, 328..344];
/// The fields are of this many bytes.
const FIELD_BYTES: usize = 4;

/// The inodes of one group, its header latched by a transaction.
///
/// Between opening and [`close`](Self::close) the fields here are newer than the buffer's.
pub(super) struct GroupInodes<'journal> {
    pub(super) number: AgNumber,
    pub(super) header: Buffer,
    pub(super) agi: Agi,
    pub(super) state: &'journal GroupState,
}

/// An editor of one of the two btrees.
pub(super) type ChunkEditor<'t, 'journal, F> = Editor<F, Anchored<'t, 'journal, AgiAnchor<'t>>>;

impl<'journal> GroupInodes<'journal> {
    /// Latches the header of a group. `None`: it lies below another that this step has latched, and
    /// somebody else holds it.
    pub(super) fn open(tx: &mut Transaction<'journal>, number: AgNumber) -> Result<Option<Self>> {
        if tx.group_mark().is_none_or(|mark| number >= mark) {
            return Self::wait(tx, number).map(Some);
        }
        let (at, bytes) = place(tx, number);
        let header = tx.try_read(at, bytes, BlockKind::Agi)?;
        header.map(|header| Self::latched(tx, number, header)).transpose()
    }

    /// Latches the header of a group, whoever has to be waited for.
    fn wait(tx: &mut Transaction<'journal>, number: AgNumber) -> Result<Self> {
        let (at, bytes) = place(tx, number);
        let header = tx.read(at, bytes, BlockKind::Agi)?;
        Self::latched(tx, number, header)
    }

    fn latched(tx: &mut Transaction<'journal>, number: AgNumber, header: Buffer) -> Result<Self> {
        tx.mark_group(number);
        let agi = Agi::decode(&header.bytes(), header.at(), tx.geometry())?;
        let state = InodeGroups::of(tx.journal()).group(number);
        let state = state.ok_or_else(|| corrupt(number, BtreeCheck::Outside))?;
        state.publish(&agi);
        Ok(Self { number, header, agi, state })
    }

    /// Latches the header of the group that an inode lies in.
    ///
    /// A transaction that has latched a header of a higher group, but has changed nothing, ends its
    /// step before it waits. One that has changed something cannot: what it does to the inode must
    /// be one with that. It waits all the same, so callers come here before they touch anything
    /// else of a group.
    pub(super) fn of_inode(
        tx: &mut Transaction<'journal>,
        inode: InodeNumber,
    ) -> Result<(Self, AgInode)> {
        let outside =
            || Corruption::new(Structure::Inode, Place::Inode(inode), BtreeCheck::Outside);
        let (number, inode) = tx.geometry().split_inode(inode).ok_or_else(outside)?;
        if let Some(group) = Self::open(tx, number)? {
            return Ok((group, inode));
        }
        if !tx.is_dirty() {
            tx.roll()?;
        }
        Ok((Self::wait(tx, number)?, inode))
    }

    /// Writes the fields back that have changed. The latch stays with the transaction.
    pub(super) fn close(&mut self, tx: &mut Transaction<'_>) {
        let mut new = [0; size_of::<AgiDisk>()];
        self.agi.encode(tx.geometry(), &mut new);
        let mut old = new;
        if let Some(stored) = self.header.bytes().first_chunk() {
            old = *stored;
        }
        for range in CHANGING_BYTES {
            if old.get(range.clone()) == new.get(range.clone()) {
                continue;
            }
            for start in range.step_by(FIELD_BYTES) {
                let field = start..start + FIELD_BYTES;
                let (old, new) = (old.get(field.clone()), new.get(field.clone()));
                if let Some(new) = new.filter(|_| old != new) {
                    tx.change(&self.header, field, |bytes| bytes.copy_from_slice(new));
                }
            }
        }
        self.state.publish(&self.agi);
    }

    /// Gives the latch back if nothing has changed.
    pub(super) fn leave(mut self, tx: &mut Transaction<'_>) {
        self.close(tx);
        tx.release(&self.header);
    }

    /// The btree of all chunks.
    pub(super) fn chunks<'t>(
        &'t mut self,
        tx: &'t mut Transaction<'journal>,
    ) -> Result<ChunkEditor<'t, 'journal, InodeChunks>> {
        let root = self.agi.inode_btree;
        self.editor(tx, root)
    }

    /// The btree of chunks with a free inode, if the volume has it.
    pub(super) fn free_chunks<'t>(
        &'t mut self,
        tx: &'t mut Transaction<'journal>,
    ) -> Result<Option<ChunkEditor<'t, 'journal, FreeInodeChunks>>> {
        match self.agi.free_inode_btree {
            Some(root) => self.editor(tx, root).map(Some),
            None => Ok(None),
        }
    }

    fn editor<'t, F: BtreeFormat>(
        &'t mut self,
        tx: &'t mut Transaction<'journal>,
        root: BtreeRoot,
    ) -> Result<ChunkEditor<'t, 'journal, F>> {
        let anchor = AgiAnchor { number: self.number, agi: &mut self.agi, kind: F::KIND };
        Editor::new(Anchored { tx, anchor }, self.number, root)
    }

    /// Makes `new` of the record of a chunk, which is `old`, in the btree of those with a free inode: the
    /// other one has it already (I2).
    pub(super) fn replace_in_free_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        old: InodeChunk,
        new: InodeChunk,
    ) -> Result<()> {
        let is_expected = |found: Option<InodeChunk>| {
            found == Some(old) || (found.is_none() && old.free_count == 0)
        };
        let Some(mut free) = self.free_chunks(tx)? else { return Ok(()) };
        let found = free.find(old.start)?;
        if is_expected(found) {
            match (found, new.free_count) {
                (Some(_), 0) => free.remove().map(drop)?,
                (Some(_), _) => free.update(new)?,
                (None, 0) => {}
                (None, _) => free.insert(new)?,
            }
            return Ok(());
        }
        Err(self.corrupt(AgiCheck::ChunksDiffer { start: old.start.0 }))
    }

    /// Makes `new` of a record in the btree of all chunks alone: the other one has it already.
    pub(super) fn replace_in_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        old: InodeChunk,
        new: InodeChunk,
    ) -> Result<()> {
        let mut chunks = self.chunks(tx)?;
        if chunks.find(old.start)? == Some(old) {
            return chunks.update(new);
        }
        Err(self.corrupt(AgiCheck::ChunksDiffer { start: old.start.0 }))
    }

    /// A finding about this group's inodes.
    #[cold]
    pub(super) fn corrupt(&self, check: impl Into<Check>) -> xfs_buffer::Error {
        corrupt(self.number, check).into()
    }
}

/// Where the header of a group lies, and how long it is.
fn place(tx: &Transaction<'_>, number: AgNumber) -> (DiskAddr, u32) {
    let geometry = tx.geometry();
    (geometry.header_disk_addr(number, AGI_SECTOR), geometry.sector_size)
}

#[cold]
fn corrupt(group: AgNumber, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Agi, Place::Group(group), check)
}

/// One of the two btrees in its header.
pub(super) struct AgiAnchor<'t> {
    number: AgNumber,
    agi: &'t mut Agi,
    kind: BtreeKind,
}

impl AgiAnchor<'_> {
    /// The group keeps blocks back for the free-inode btree. Those of the other one are part of
    /// what a transaction that makes inodes reserves.
    fn purpose(&self) -> Purpose {
        match self.kind {
            BtreeKind::FreeInode => Purpose::Metadata,
            _ => Purpose::File,
        }
    }

    fn blocks(&mut self) -> Option<&mut u32> {
        match self.kind {
            BtreeKind::FreeInode => self.agi.free_inode_btree_blocks.as_mut(),
            _ => self.agi.inode_btree_blocks.as_mut(),
        }
    }

    fn fs_block(&self, tx: &Transaction<'_>, block: u64) -> FsBlock {
        let block = AgBlock(u32::try_from(block).unwrap_or(u32::MAX));
        tx.geometry().join_block(self.number, block)
    }
}

impl Anchor for AgiAnchor<'_> {
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64> {
        let target = Target::NearInGroup(self.fs_block(tx, near));
        let request = SpaceRequest::new(target, 1, 1)
            .with_owner(ExtentOwner::INODE_BTREE)
            .with_purpose(self.purpose());
        // Without it the btree stays half changed, which must not be taken for an ordinary lack of
        // space: that is committed.
        let extent = allocate_extent(tx, &request)?.ok_or(xfs_buffer::Error::Shutdown)?;
        if let Some(blocks) = self.blocks() {
            *blocks += 1;
        }
        let split = tx.geometry().split_block(extent.start);
        Ok(split.map_or(u64::MAX, |(_, block)| block.0.into()))
    }

    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()> {
        let extent = BlockExtent { start: self.fs_block(tx, block), length_blocks: 1 };
        defer_free(tx, extent, Some(ExtentOwner::INODE_BTREE), self.purpose());
        let number = self.number;
        if let Some(blocks) = self.blocks() {
            // The header's count is an allegation.
            let fewer = blocks.checked_sub(1);
            *blocks = fewer.ok_or_else(|| corrupt(number, BtreeCheck::Outside))?;
        }
        Ok(())
    }

    fn set_root(&mut self, _tx: &mut Transaction<'_>, root: Root<'_>) -> Result<()> {
        let Root::Block(root) = root else {
            unreachable!("the inode btrees have their roots in blocks")
        };
        match self.kind {
            BtreeKind::FreeInode => self.agi.free_inode_btree = Some(root),
            _ => self.agi.inode_btree = root,
        }
        Ok(())
    }
}
