//! The space of one group while a transaction works on it.
//!
//! Owns: the latched AGF with its decoded fields, from the first access until the fields are
//! written back to the buffer; and the accounting of blocks that an allocation takes from the
//! transaction or from the group's reserves. Does **not** own the choice of the extent
//! ([`search`]), the records ([`free_space`], [`reverse_map`], [`refcounts`]), or the free list
//! ([`free_list`]).
//!
//! # Invariants
//!
//! - **I1** Between [`GroupSpace::open`] and [`GroupSpace::close`] the decoded fields of the AGF
//!   are newer than those in the buffer. No btree of the group is reached through the buffer in
//!   between.
//! - **I2** Before each change that may make the btrees grow, the free list holds the blocks that
//!   they can take in one change of free space ([`free_list::needed`]). A btree that finds the list
//!   empty is therefore a damaged volume.
//! - **I3** Each block is in one of: the free-space btrees, the free list, a btree, an owner's
//!   extent. Code that moves a block changes both sides in one transaction step.
//!
//! # Lock order
//!
//! All AGIs before all AGFs, each in the order of the groups. A header that comes before the
//! highest header that the step keeps is only tried, not waited for ([`GroupHeader`]). Everything
//! below the AGF (free list, btree blocks) belongs to the holder of its latch, and is latched when
//! it is changed, so that it is written whole.

mod btrees;
mod discard;
mod free_list;
mod free_space;
mod refcounts;
mod reverse_map;
mod search;
mod withheld;

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Buffer, Result};
use xfs_format::agf::{AGF_SECTOR, Agf};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, DiskAddr, FsBlock, Geometry, Structure,
    StructureAddress,
};
use xfs_trans::{GroupHeader, Transaction};

pub(crate) use search::{GroupRequest, Near, SearchResult};
pub(crate) use withheld::GroupEnd;

use crate::extent::BlockExtent;
use crate::mappings::OwnedExtent;
use crate::owner::{BlockPurpose, ExtentOwner};
use crate::space::reservation::Account;
use crate::space::{AllocatorState, GroupState};

/// The byte offsets of the AGF's fields that can change, from the roots of the btrees to the level
/// of the reference count btree. The length of the group, which can change too, is not in this
/// range.
const CHANGING_BYTES: Range<usize> = 16..96;
/// The offsets of the bytes that hold the length of the group, in the AGF and in the AGI alike.
const LENGTH_BYTES: Range<usize> = 12..16;

/// The free space of one group, whose header (AGF) a transaction has latched.
pub(crate) struct GroupSpace {
    number: AgNumber,
    header: Buffer,
    agf: Agf,
    /// The fields of the AGF in its buffer, as they were last read from the buffer or written to
    /// it.
    stored: Agf,
    state: Arc<GroupState>,
    /// The number that marks the extents freed by this transaction step in the list of busy
    /// extents. `None` before the first free.
    ticket: Option<u64>,
    /// The first block that a shrinking volume will lose; `u32::MAX` otherwise.
    withheld_from: u32,
}

impl GroupSpace {
    /// Latches the AGF of a group, waiting if necessary. Returns `None` if another thread holds it
    /// and the transaction step may not wait for it, because the step keeps the header of a higher
    /// group.
    pub(crate) fn open(tx: &mut Transaction<'_>, number: AgNumber) -> Result<Option<Self>> {
        if !tx.may_wait_for(GroupHeader::Space(number)) {
            return Self::try_open(tx, number);
        }
        let (at, bytes) = Self::place(tx, number);
        let header = tx.read(at, bytes, BlockKind::Agf)?;
        Self::latched(tx, number, header).map(Some)
    }

    /// Latches the AGF of a group without waiting. Returns `None` if another thread holds it.
    pub(crate) fn try_open(tx: &mut Transaction<'_>, number: AgNumber) -> Result<Option<Self>> {
        let (at, bytes) = Self::place(tx, number);
        let header = tx.try_read(at, bytes, BlockKind::Agf)?;
        header.map(|header| Self::latched(tx, number, header)).transpose()
    }

    fn place(tx: &Transaction<'_>, number: AgNumber) -> (DiskAddr, u32) {
        let geometry = tx.geometry();
        (geometry.header_disk_addr(number, AGF_SECTOR), geometry.sector_size)
    }

    fn latched(tx: &mut Transaction<'_>, number: AgNumber, header: Buffer) -> Result<Self> {
        let agf = Agf::decode(&header.bytes(), header.at(), tx.geometry())?;
        let state = AllocatorState::of(tx.journal()).group(number);
        let state = Arc::clone(state.ok_or_else(|| outside(number))?);
        let (stored, withheld_from) = (agf.clone(), u32::MAX);
        let mut group = Self { number, header, stored, agf, state, ticket: None, withheld_from };
        group.withheld_from = group.expire_busy(tx);
        Ok(group)
    }

    /// Writes the changed fields back to the buffer of the AGF. The transaction keeps the latch.
    pub(crate) fn close(self, tx: &mut Transaction<'_>) {
        tx.keep_header(GroupHeader::Space(self.number));
        debug_assert_eq!(
            Agf::decode(&self.header.bytes(), self.header.at(), tx.geometry()).ok().as_ref(),
            Some(&self.stored),
            "I1: nothing writes the fields to the buffer in between"
        );
        if self.agf == self.stored {
            return;
        }
        let mut bytes = [0; size_of::<xfs_format::agf::AgfDisk>()];
        self.agf.encode(tx.geometry(), &mut bytes);
        let changed = bytes.get(CHANGING_BYTES).expect("the fields lie inside an AGF");
        tx.change(&self.header, CHANGING_BYTES, |fields| fields.copy_from_slice(changed));
        self.state.publish(&self.agf);
    }

    /// Fills the free list, then allocates the blocks of `wanted`. If nothing is allocated, the
    /// result says whether the group has no suitable blocks, or only busy ones, whose freeing is
    /// not durable yet.
    pub(crate) fn allocate(
        &mut self,
        tx: &mut Transaction<'_>,
        wanted: &GroupRequest,
    ) -> Result<SearchResult> {
        let Some(mut affordable) = self.affordable(wanted) else { return self.nothing() };
        if self.fill_free_list(tx)? {
            // Filling the list has taken blocks and may have added a level to a btree.
            let Some(left) = self.affordable(wanted) else { return self.nothing() };
            affordable = left;
        }
        let wanted = affordable;
        let found = self.search(tx, &wanted)?;
        if let SearchResult::Extent { from, range } = &found {
            self.take_free(tx, *from, range.clone())?;
            if let Some(owner) = wanted.owner {
                self.add_mapping(tx, &OwnedExtent::new(owner, range.clone()))?;
            }
            self.count_taken(tx, wanted.purpose, range.end - range.start);
        }
        Ok(found)
    }

    /// Frees blocks of the group. The blocks stay busy until this transaction step is durable: no
    /// file gets them before that.
    pub(crate) fn free(
        &mut self,
        tx: &mut Transaction<'_>,
        range: Range<u32>,
        owner: Option<ExtentOwner>,
        purpose: Option<BlockPurpose>,
    ) -> Result<()> {
        if purpose.is_some() {
            self.shorten_free_list(tx)?;
        }
        self.lengthen_free_list(tx)?;
        if let Some(owner) = owner {
            self.remove_mapping(tx, &OwnedExtent::new(owner, range.clone()))?;
        }
        self.give_free(tx, range.clone())?;
        self.mark_busy(tx, range.clone());
        // No transaction can use blocks that the volume will lose.
        self.count_given(tx, purpose, range.end - range.start - self.withheld_in(&range));
        Ok(())
    }

    /// Extends the group to the length in `geometry`, which becomes the geometry of the volume. The
    /// added blocks are free. `agi` is the buffer of the group's inode header. This function
    /// changes no counter: the caller, which grows the volume, counts all groups again.
    #[doc(alias = "xfs_ag_extend_space")]
    pub(crate) fn extend(
        mut self,
        tx: &mut Transaction<'_>,
        agi: &Buffer,
        geometry: &Geometry,
    ) -> Result<()> {
        let added = self.agf.length_blocks..geometry.ag_length(self.number);
        self.set_length(tx, agi, geometry);
        self.fill_free_list(tx)?;
        self.give_free(tx, added)?;
        self.close(tx);
        Ok(())
    }

    /// Writes the length of the group that `geometry` states into both headers. `geometry` becomes
    /// the geometry of the volume. `agi` is the buffer of the group's inode header.
    ///
    /// Headers and geometry change under the locks of the headers' bytes. A reader of one of the
    /// two headers therefore either has the matching geometry, or sees that the geometry has
    /// changed.
    fn set_length(&mut self, tx: &mut Transaction<'_>, agi: &Buffer, geometry: &Geometry) {
        let length_blocks = geometry.ag_length(self.number);
        (self.agf.length_blocks, self.stored.length_blocks) = (length_blocks, length_blocks);
        let headers = [agi, &self.header];
        let mut locked = headers.map(Buffer::bytes_mut);
        for bytes in &mut locked {
            let field = bytes.get_mut(LENGTH_BYTES).expect("a header sector holds a length");
            field.copy_from_slice(&length_blocks.to_be_bytes());
        }
        tx.cache().set_geometry(geometry.clone());
        drop(locked);
        for header in headers {
            tx.log(header, LENGTH_BYTES);
        }
    }

    /// Frees blocks whose owner is unknown. They come from an intent that a crash has left open. If
    /// they belonged to a file, their reverse mapping has been removed already. If they are
    /// metadata, this function removes their reverse mapping.
    pub(crate) fn free_unknown(
        &mut self,
        tx: &mut Transaction<'_>,
        range: Range<u32>,
    ) -> Result<()> {
        self.fill_free_list(tx)?;
        self.remove_any_mapping(tx, range.clone())?;
        self.free(tx, range, None, Some(BlockPurpose::File))
    }

    /// Waits until all frees of other transactions in this group are durable. Returns `false`,
    /// without waiting, if only this transaction step holds blocks busy.
    ///
    /// The header stays latched during the wait, because the log does not need the header to write
    /// a checkpoint.
    pub(crate) fn await_busy(&self, tx: &Transaction<'_>) -> Result<bool> {
        let Some(sequence) = self.state.lock().busy.last_sequence() else { return Ok(false) };
        tx.journal().force(sequence)?;
        let _ = self.expire_busy(tx);
        Ok(true)
    }

    /// Removes from the list of busy extents those whose freeing is durable by now, and discards
    /// them if discards are enabled. Returns the first block that a shrinking volume will lose.
    fn expire_busy(&self, tx: &Transaction<'_>) -> u32 {
        let mut inner = self.state.lock();
        let withheld_from = inner.withheld.from;
        if inner.busy.is_empty() {
            return withheld_from;
        }
        let expired = inner.busy.expire(tx.journal().log().durable_sequence());
        drop(inner);
        if !expired.is_empty() && AllocatorState::of(tx.journal()).discards() {
            self.discard_expired(tx, expired);
        }
        withheld_from
    }

    /// Ends the work on the group, and releases the latch of its AGF if nothing in the group has
    /// changed.
    pub(crate) fn leave(self, tx: &mut Transaction<'_>) {
        if self.agf == self.stored {
            tx.release(&self.header);
        } else {
            self.close(tx);
        }
    }

    /// Marks blocks as busy, so that no file gets them before this transaction step is durable. The
    /// step has freed the blocks, or has taken them from one of the files that shared them.
    pub(crate) fn mark_busy(&mut self, tx: &mut Transaction<'_>, range: Range<u32>) {
        let ticket = *self.ticket.get_or_insert_with(|| {
            let ticket = self.state.lock().busy.issue_ticket();
            let state = Arc::clone(&self.state);
            tx.on_commit(move |committed| state.lock().busy.settle(ticket, committed.sequence));
            ticket
        });
        self.state.lock().busy.insert(range, ticket);
    }

    fn count_taken(&self, tx: &mut Transaction<'_>, purpose: Option<BlockPurpose>, blocks: u32) {
        match purpose {
            None => {}
            Some(BlockPurpose::File) => tx.use_blocks(blocks.into()),
            Some(BlockPurpose::Metadata) => {
                let beyond = u64::from(self.state.draw(Account::Metadata, blocks));
                let promised = beyond.min(tx.blocks_left());
                tx.use_blocks(promised);
                self.count_unreserved(tx, beyond - promised);
            }
        }
    }

    fn count_given(&self, tx: &mut Transaction<'_>, purpose: Option<BlockPurpose>, blocks: u32) {
        match purpose {
            None => {}
            Some(BlockPurpose::File) => tx.free_blocks(blocks.into()),
            Some(BlockPurpose::Metadata) => {
                tx.free_blocks(self.state.refill(Account::Metadata, blocks).into());
            }
        }
    }

    /// Subtracts blocks from the volume's count of free blocks. The blocks are free in the group,
    /// but no transaction has reserved them. If the count is too small, because other transactions
    /// have reserved too much, records the debt in `unpaid_blocks`.
    fn count_unreserved(&self, tx: &Transaction<'_>, blocks: u64) {
        if blocks != 0 && tx.journal().count_free_blocks(-blocks.cast_signed()).is_err() {
            self.state.lock().unpaid_blocks += blocks;
        }
    }

    /// Adds blocks to the volume's count of free blocks. No transaction had reserved these blocks.
    /// They first pay the debt in `unpaid_blocks`; only the rest is added.
    fn return_unreserved(&self, tx: &Transaction<'_>, blocks: u64) -> Result<()> {
        let mut inner = self.state.lock();
        let owed = inner.unpaid_blocks.min(blocks);
        inner.unpaid_blocks -= owed;
        drop(inner);
        tx.journal().count_free_blocks((blocks - owed).cast_signed())
    }

    /// Converts a range of block numbers of the group to an extent of the volume.
    pub(crate) fn extent(&self, tx: &Transaction<'_>, range: Range<u32>) -> BlockExtent {
        let length_blocks = range.end - range.start;
        BlockExtent { start: self.fs_block(tx, range.start), length_blocks }
    }

    /// Converts a block number of the group to a block number of the volume.
    fn fs_block(&self, tx: &Transaction<'_>, block: u32) -> FsBlock {
        tx.geometry().join_block(self.number, AgBlock(block))
    }

    fn corrupt(
        &self,
        structure: Structure,
        check: impl Into<xfs_format::Check>,
    ) -> xfs_buffer::Error {
        Corruption::new(structure, StructureAddress::Group(self.number), check).into()
    }
}

#[cold]
fn outside(group: AgNumber) -> Corruption {
    Corruption::new(
        Structure::Agf,
        StructureAddress::Group(group),
        xfs_format::btree::BtreeCheck::Outside,
    )
}

#[cfg(test)]
mod tests;
