//! The inodes of one group while a transaction works on them, under the latch of its AGI.

use xfs_btree::{Anchor, Anchored, Editor, Root};
use xfs_buffer::{Buffer, Result};
use xfs_format::agi::{
    AGI_SECTOR, AgiCheck, AgiFields, decode_unlinked, encode_unlinked, unlinked_range,
};
use xfs_format::btree::{BtreeCheck, BtreeKind};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, Check, Corruption, DiskAddr, FsBlock, InodeNumber,
    Structure, StructureAddress,
};
use xfs_trans::{GroupHeader, InodeCluster, Transaction};

use super::state::{InodeGroupState, InodeGroups, LastTaken, SavedPaths};
use crate::allocate::{AllocationTarget, SpaceRequest, allocate_extent};
use crate::deferred::defer_free;
use crate::extent::BlockExtent;
use crate::owner::{BlockPurpose, ExtentOwner};

/// The inodes of one group, whose header (AGI) a transaction has latched.
///
/// Between opening and [`close`](Self::close) the decoded fields in this object are newer than
/// those in the buffer.
pub(super) struct GroupInodes<'journal> {
    pub(super) number: AgNumber,
    pub(super) header: Buffer,
    pub(super) agi: AgiFields,
    /// The fields of the AGI in its buffer, as they were last read from the buffer or written to
    /// it.
    stored: AgiFields,
    pub(super) state: &'journal InodeGroupState,
    paths: Box<SavedPaths>,
}

/// An editor of one of the two inode btrees.
pub(super) type ChunkEditor<'t, 'journal, F> = Editor<F, Anchored<'t, 'journal, AgiAnchor<'t>>>;

impl<'journal> GroupInodes<'journal> {
    /// Latches the AGI of a group, waiting if necessary. Returns `None` if another thread holds it
    /// and the transaction step may not wait for it, because the step keeps a header that comes
    /// later in the lock order.
    pub(super) fn open(tx: &mut Transaction<'journal>, number: AgNumber) -> Result<Option<Self>> {
        debug_assert!(
            !tx.keeps_space() || holds(tx, number),
            "I6: inode headers come before space headers"
        );
        if tx.may_wait_for(GroupHeader::Inodes(number)) {
            let header = InodeGroups::header(tx.journal(), number)?;
            tx.join_buffer(&header)?;
            return Self::latched(tx, number, header).map(Some);
        }
        let (at, bytes) = place(tx, number);
        let header = tx.try_read(at, bytes, BlockKind::Agi)?;
        header.map(|header| Self::latched(tx, number, header)).transpose()
    }

    #[inline]
    fn latched(tx: &mut Transaction<'journal>, number: AgNumber, header: Buffer) -> Result<Self> {
        tx.keep_header(GroupHeader::Inodes(number));
        let agi = AgiFields::decode(&header.bytes(), header.at(), tx.geometry())?;
        let state = InodeGroups::of(tx.journal()).group(number);
        let state = state.ok_or_else(|| corrupt(number, BtreeCheck::Outside))?;
        state.publish(&agi);
        let paths = state.take_paths();
        Ok(Self { number, header, stored: agi, agi, state, paths })
    }

    /// Latches the AGI of the group that an inode lies in.
    ///
    /// Callers must call this before they latch any header that forbids the step to wait for an AGI
    /// (I6). The change of the inode must be atomic with the other changes of the step, so the step
    /// cannot give up if the AGI is held. A transaction that has changed nothing ends its step and
    /// then waits.
    ///
    /// # Panics
    ///
    /// Panics if the transaction has changed something and keeps a higher header while another
    /// thread holds this AGI.
    pub(super) fn of_inode(
        tx: &mut Transaction<'journal>,
        inode: InodeNumber,
    ) -> Result<(Self, AgInode)> {
        let outside = || {
            Corruption::new(Structure::Inode, StructureAddress::Inode(inode), BtreeCheck::Outside)
        };
        let (number, inode) = tx.geometry().split_inode(inode).ok_or_else(outside)?;
        debug_assert!(
            !tx.is_dirty() || tx.may_wait_for(GroupHeader::Inodes(number)) || holds(tx, number),
            "I6: inode headers come first, in the order of the groups"
        );
        if let Some(group) = Self::open(tx, number)? {
            return Ok((group, inode));
        }
        assert!(
            !tx.is_dirty(),
            "I6: a step latches inode headers in order, before it changes more"
        );
        tx.roll()?;
        let group = Self::open(tx, number)?;
        Ok((group.expect("a step that keeps no header waits for any (I6)"), inode))
    }

    /// Writes the changed fields back to the buffer of the AGI. The caller can continue to work on
    /// the group.
    #[inline]
    pub(super) fn store(&mut self, tx: &mut Transaction<'_>) {
        for (range, new) in self.agi.changes_since(&self.stored) {
            tx.change(&self.header, range, |bytes| bytes.copy_from_slice(&new));
        }
        self.stored = self.agi;
        self.state.publish(&self.agi);
    }

    /// Writes the changed fields back to the buffer of the AGI, and saves the editors' paths in
    /// both inode btrees for the next operation. The transaction keeps the latch.
    #[inline]
    pub(super) fn close(mut self, tx: &mut Transaction<'_>) {
        self.store(tx);
        self.state.keep_paths(self.paths);
    }

    /// Ends the work on the group, and releases its latch if nothing has changed.
    pub(super) fn leave(self, tx: &mut Transaction<'_>) {
        let header = self.header.clone();
        self.close(tx);
        tx.release(&header);
    }

    /// Calls a function with an editor of the btree of all chunks. After an error the saved path in
    /// that btree is dropped.
    pub(super) fn in_chunks<R>(
        &mut self,
        tx: &mut Transaction<'journal>,
        work: impl FnOnce(&mut ChunkEditor<'_, 'journal, InodeChunks>) -> Result<R>,
    ) -> Result<R> {
        let (root, saved) = (self.agi.inode_btree, self.paths.chunks.take());
        let anchor = AgiAnchor { number: self.number, agi: &mut self.agi, kind: BtreeKind::Inode };
        let mut editor = Editor::resume(Anchored { tx, anchor }, self.number, root, saved)?;
        let done = work(&mut editor)?;
        self.paths.chunks = Some(editor.leave().1);
        Ok(done)
    }

    /// Calls a function with an editor of the btree of chunks with a free inode. Returns `None` if
    /// the volume does not have that btree.
    pub(super) fn in_free_chunks<R>(
        &mut self,
        tx: &mut Transaction<'journal>,
        work: impl FnOnce(&mut ChunkEditor<'_, 'journal, FreeInodeChunks>) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some(root) = self.agi.free_inode_btree else { return Ok(None) };
        self.paths.last_taken = None;
        let (kind, saved) = (BtreeKind::FreeInode, self.paths.free_chunks.take());
        let anchor = AgiAnchor { number: self.number, agi: &mut self.agi, kind };
        let mut editor = Editor::resume(Anchored { tx, anchor }, self.number, root, saved)?;
        let done = work(&mut editor)?;
        self.paths.free_chunks = Some(editor.leave().1);
        Ok(Some(done))
    }

    /// Takes the record of the chunk from which the last inode near `near` was taken. Returns
    /// `None` if another editor has worked on the chunks with a free inode since, so that another
    /// chunk may be nearer.
    pub(super) fn last_taken(&mut self, near: Option<AgInode>) -> Option<InodeChunk> {
        let last = self.paths.last_taken.take();
        last.filter(|last| last.near == near).map(|last| last.chunk)
    }

    /// Records that an inode near `near` was taken from a chunk. The saved path in the btree of
    /// chunks with a free inode ends at its record. `left` is the record of the chunk without that
    /// inode.
    pub(super) fn note_taken(&mut self, near: Option<AgInode>, left: InodeChunk) {
        if left.free_count != 0 {
            self.paths.last_taken = Some(LastTaken { near, chunk: left });
        }
    }

    /// Returns the cluster of the inode that was taken last in this group.
    pub(super) fn last_cluster(&self) -> Option<&InodeCluster> {
        self.paths.cluster.as_ref()
    }

    /// Keeps the cluster of an inode that is taken, for the next one.
    pub(super) fn keep_cluster(&mut self, cluster: InodeCluster) -> &InodeCluster {
        self.paths.cluster.insert(cluster)
    }

    /// Forgets the cluster of the inode that was taken last, because a chunk is freed.
    pub(super) fn forget_cluster(&mut self) {
        self.paths.cluster = None;
    }

    /// Returns the first inode of the unlinked list `bucket`; `None` if the list is empty.
    pub(super) fn unlinked_head(&self, bucket: usize) -> Option<AgInode> {
        let bytes = self.header.bytes();
        decode_unlinked(bytes.get(unlinked_range(bucket)).expect("a header holds 64 list heads"))
    }

    /// Sets the head of the unlinked list `bucket`.
    pub(super) fn set_unlinked_head(
        &self,
        tx: &mut Transaction<'_>,
        bucket: usize,
        first: Option<AgInode>,
    ) {
        let new = encode_unlinked(first);
        tx.change(&self.header, unlinked_range(bucket), |bytes| bytes.copy_from_slice(&new));
    }

    /// Replaces the record `old` of a chunk in the btree of chunks with a free inode. The btree of
    /// all chunks has been changed already, so that the two agree again (I2).
    pub(super) fn replace_in_free_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        old: InodeChunk,
        new: InodeChunk,
    ) -> Result<()> {
        let agreed = self.in_free_chunks(tx, |free| {
            if new.free_count != 0 && free.replace(&old, &new)? {
                return Ok(true);
            }
            let found = free.find(old.start)?;
            match (found, new.free_count) {
                (None, _) if old.free_count != 0 => return Ok(false),
                (Some(found), _) if found != old => return Ok(false),
                (Some(_), 0) => free.remove().map(drop)?,
                (Some(_), _) => free.update(new)?,
                (None, 0) => {}
                (None, _) => free.insert(new)?,
            }
            Ok(true)
        })?;
        match agreed {
            Some(false) => Err(self.corrupt(AgiCheck::ChunksDiffer { start: old.start.0 })),
            _ => Ok(()),
        }
    }

    /// Replaces a record in the btree of all chunks. The btree of chunks with a free inode has been
    /// changed already, so that the two agree again (I2).
    pub(super) fn replace_in_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        old: InodeChunk,
        new: InodeChunk,
    ) -> Result<()> {
        let agreed = self.in_chunks(tx, |chunks| {
            Ok(chunks.replace(&old, &new)?
                || (chunks.find(old.start)? == Some(old) && chunks.replace(&old, &new)?))
        })?;
        match agreed {
            true => Ok(()),
            false => Err(self.corrupt(AgiCheck::ChunksDiffer { start: old.start.0 })),
        }
    }

    /// Returns the error for a corruption of this group's inodes.
    #[cold]
    pub(super) fn corrupt(&self, check: impl Into<Check>) -> xfs_buffer::Error {
        corrupt(self.number, check).into()
    }
}

/// Returns the address and the length in bytes of the inode header (AGI) of a group.
fn place(tx: &Transaction<'_>, number: AgNumber) -> (DiskAddr, u32) {
    let geometry = tx.geometry();
    (geometry.header_disk_addr(number, AGI_SECTOR), geometry.sector_size)
}

/// Whether the transaction holds the latch of the AGI of a group.
fn holds(tx: &Transaction<'_>, number: AgNumber) -> bool {
    tx.holds(place(tx, number).0)
}

#[cold]
fn corrupt(group: AgNumber, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Agi, StructureAddress::Group(group), check)
}

/// The anchor of one of the two inode btrees: keeps the root in the AGI, and supplies the blocks.
pub(super) struct AgiAnchor<'t> {
    number: AgNumber,
    agi: &'t mut AgiFields,
    kind: BtreeKind,
}

impl AgiAnchor<'_> {
    /// Returns the account that the btree's blocks are taken from. The free-inode btree has a
    /// reserve in its group. The blocks of the other inode btree are part of the reservation of a
    /// transaction that makes inodes.
    fn purpose(&self) -> BlockPurpose {
        match self.kind {
            BtreeKind::FreeInode => BlockPurpose::Metadata,
            _ => BlockPurpose::File,
        }
    }

    fn blocks(&mut self) -> Option<&mut u32> {
        match self.kind {
            BtreeKind::FreeInode => self.agi.free_inode_btree_blocks.as_mut(),
            _ => self.agi.inode_btree_blocks.as_mut(),
        }
    }

    fn fs_block(&self, tx: &Transaction<'_>, block: u64) -> FsBlock {
        let block = AgBlock(u32::try_from(block).expect("a block of a group has 32 bits"));
        tx.geometry().join_block(self.number, block)
    }
}

impl Anchor for AgiAnchor<'_> {
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64> {
        let target = AllocationTarget::NearInGroup(self.fs_block(tx, near));
        let request = SpaceRequest::new(target, 1, 1)
            .with_owner(ExtentOwner::INODE_BTREE)
            .with_purpose(self.purpose());
        // Without the block the btree stays half changed. That must not look like an ordinary lack
        // of space, after which the transaction is committed.
        let extent = allocate_extent(tx, &request)?.ok_or(xfs_buffer::Error::Shutdown)?;
        if let Some(blocks) = self.blocks() {
            *blocks += 1;
        }
        let split = tx.geometry().split_block(extent.start);
        let (group, block) = split.expect("allocated blocks lie in the volume");
        assert_eq!(group, self.number, "the blocks of an inode btree lie in its group");
        Ok(block.0.into())
    }

    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()> {
        let extent = BlockExtent { start: self.fs_block(tx, block), length_blocks: 1 };
        defer_free(tx, extent, Some(ExtentOwner::INODE_BTREE), self.purpose());
        let number = self.number;
        if let Some(blocks) = self.blocks() {
            // The header's count comes from disk.
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
