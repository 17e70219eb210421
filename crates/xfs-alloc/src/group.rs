//! The space of one group while a transaction works on it.
//!
//! Owns: the latched AGF with its decoded fields, from the first access until they are written back
//! to the buffer; and the count of blocks that an allocation takes from the transaction or from the
//! group's reserves. Does **not** own the choice of the extent ([`search`]), the records
//! ([`free_space`], [`reverse_map`], [`refcounts`]), or the free list ([`free_list`]).
//!
//! # Invariants
//!
//! - **I1** Between [`GroupSpace::open`] and [`GroupSpace::close`] the fields here are newer than
//!   the buffer's. No btree of the group is reached through the buffer in between.
//! - **I2** Before each change that may make the btrees grow, the free list holds the blocks that
//!   they can take in one change of free space ([`free_list::needed`]). A btree that finds the list
//!   empty is therefore a damaged volume.
//! - **I3** Each block is in one of: the free-space btrees, the free list, a btree, an owner's
//!   extent. Code that moves a block changes both sides in one transaction step.
//!
//! # Lock order
//!
//! AGI before AGF of a group, groups ascending within a step; the header of a group below the
//! highest that the step has latched is only tried. Everything below the AGF (free list, btree
//! blocks) belongs to the holder of its latch, and is latched when it is changed, so that it is
//! written whole.

mod btrees;
mod discard;
mod free_list;
mod free_space;
mod refcounts;
mod reverse_map;
mod search;

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Buffer, Result};
use xfs_format::agf::{AGF_SECTOR, Agf};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, DiskAddr, FsBlock, Geometry, Structure,
    StructureAddress,
};
use xfs_trans::Transaction;

pub(crate) use refcounts::CountChange;
pub(crate) use reverse_map::OwnedExtent;
pub(crate) use search::{GroupRequest, Near, SearchResult};

use crate::deferred::BlockExtent;
use crate::owner::{ExtentOwner, Purpose};
use crate::space::reservation::Account;
use crate::space::{GroupState, Space};

/// The range of the fields of an AGF that change: from the roots to the level of the reference
/// counts' btree.
const CHANGING_BYTES: Range<usize> = 16..96;
/// The length of the group, in the AGF and in the AGI.
const LENGTH_BYTES: Range<usize> = 12..16;

/// The space of one group, its header latched by a transaction.
pub(crate) struct GroupSpace {
    number: AgNumber,
    header: Buffer,
    agf: Agf,
    /// The fields as the buffer holds them.
    stored: Agf,
    state: Arc<GroupState>,
    /// The ticket of the extents that this step frees in the group, which makes them busy; `None`
    /// before the first.
    ticket: Option<u64>,
}

impl GroupSpace {
    /// Latches the header of a group. Returns `None` if the group lies below another that this step
    /// has latched, and another thread holds the header.
    pub(crate) fn open(tx: &mut Transaction<'_>, number: AgNumber) -> Result<Option<Self>> {
        if tx.group_mark().is_some_and(|mark| number < mark) {
            return Self::try_open(tx, number);
        }
        let (at, bytes) = Self::place(tx, number);
        let header = tx.read(at, bytes, BlockKind::Agf)?;
        Self::latched(tx, number, header).map(Some)
    }

    /// Latches the header of a group. Returns `None` if another thread holds it.
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
        let state = Space::of(tx.journal()).group(number);
        let state = Arc::clone(state.ok_or_else(|| outside(number))?);
        let group = Self { number, header, stored: agf.clone(), agf, state, ticket: None };
        group.expire_busy(tx);
        Ok(group)
    }

    /// Writes the fields back. The latch stays with the transaction.
    pub(crate) fn close(self, tx: &mut Transaction<'_>) {
        tx.mark_group(self.number);
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

    /// Allocates the blocks for `wanted`. Returns `None` if the group does not have them. The free
    /// list is filled first.
    pub(crate) fn allocate(
        &mut self,
        tx: &mut Transaction<'_>,
        wanted: &GroupRequest,
    ) -> Result<SearchResult> {
        if self.affordable(wanted).is_none() {
            return Ok(SearchResult::Nothing);
        }
        self.fill_free_list(tx)?;
        // Filling the list has taken blocks and may have added a level to a btree.
        let Some(wanted) = self.affordable(wanted) else { return Ok(SearchResult::Nothing) };
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

    /// Frees blocks. They stay busy until this step is durable.
    pub(crate) fn free(
        &mut self,
        tx: &mut Transaction<'_>,
        range: Range<u32>,
        (owner, purpose): (Option<ExtentOwner>, Option<Purpose>),
    ) -> Result<()> {
        self.fill_free_list(tx)?;
        if let Some(owner) = owner {
            self.remove_mapping(tx, &OwnedExtent::new(owner, range.clone()))?;
        }
        self.give_free(tx, range.clone())?;
        self.mark_busy(tx, range.clone());
        self.count_given(tx, purpose, range.end - range.start);
        Ok(())
    }

    /// Extends the group to the length in `geometry`, which becomes the geometry of the volume. The
    /// added blocks are free. `agi` is the group's other header. No counter changes here: the
    /// caller that grows the volume counts again.
    ///
    /// Headers and geometry change under the locks of the headers' bytes. A reader of such a header
    /// either has the geometry that matches it, or sees that there is a newer one.
    #[doc(alias = "xfs_ag_extend_space")]
    pub(crate) fn extend(
        mut self,
        tx: &mut Transaction<'_>,
        agi: &Buffer,
        geometry: &Geometry,
    ) -> Result<()> {
        let length_blocks = geometry.ag_length(self.number);
        let added = self.agf.length_blocks..length_blocks;
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
        self.fill_free_list(tx)?;
        self.give_free(tx, added)?;
        self.close(tx);
        Ok(())
    }

    /// Frees blocks whose owner is unknown: a crash has left an intent to free them open. Blocks of
    /// a file have no mapping any more; the mapping of metadata is removed here.
    pub(crate) fn free_unknown(
        &mut self,
        tx: &mut Transaction<'_>,
        range: Range<u32>,
    ) -> Result<()> {
        self.fill_free_list(tx)?;
        self.remove_any_mapping(tx, range.clone())?;
        self.free(tx, range, (None, Some(Purpose::File)))
    }

    /// Waits until all frees of other transactions in this group are durable. Returns `false` if
    /// the busy blocks are only this step's own.
    ///
    /// The header stays latched meanwhile. The log does not need it to write a checkpoint.
    pub(crate) fn await_busy(&self, tx: &Transaction<'_>) -> Result<bool> {
        let Some(sequence) = self.state.lock().busy.last_sequence() else { return Ok(false) };
        tx.journal().force(sequence)?;
        self.expire_busy(tx);
        Ok(true)
    }

    /// Removes the extents that are no longer busy, and discards them if discards are enabled.
    fn expire_busy(&self, tx: &Transaction<'_>) {
        let mut inner = self.state.lock();
        if inner.busy.is_empty() {
            return;
        }
        let expired = inner.busy.expire(tx.journal().log().durable_sequence());
        drop(inner);
        if !expired.is_empty() && Space::of(tx.journal()).discards() {
            self.discard_expired(tx, expired);
        }
    }

    /// Closes the group, and releases its latch if nothing in it has changed.
    pub(crate) fn leave(self, tx: &mut Transaction<'_>) {
        if self.agf == self.stored {
            tx.release(&self.header);
        } else {
            self.close(tx);
        }
    }

    /// Marks blocks as busy that this step has freed, or has taken from one of the files that
    /// shared them.
    pub(crate) fn mark_busy(&mut self, tx: &mut Transaction<'_>, range: Range<u32>) {
        let ticket = *self.ticket.get_or_insert_with(|| {
            let ticket = self.state.lock().busy.issue_ticket();
            let state = Arc::clone(&self.state);
            tx.on_commit(move |committed| state.lock().busy.settle(ticket, committed.sequence));
            ticket
        });
        self.state.lock().busy.insert(range, ticket);
    }

    fn count_taken(&self, tx: &mut Transaction<'_>, purpose: Option<Purpose>, blocks: u32) {
        match purpose {
            None => {}
            Some(Purpose::File) => tx.use_blocks(blocks.into()),
            Some(Purpose::Metadata) => {
                let beyond = u64::from(self.state.draw(Account::Metadata, blocks));
                let promised = beyond.min(tx.blocks_left());
                tx.use_blocks(promised);
                self.count_unreserved(tx, beyond - promised);
            }
        }
    }

    fn count_given(&self, tx: &mut Transaction<'_>, purpose: Option<Purpose>, blocks: u32) {
        match purpose {
            None => {}
            Some(Purpose::File) => tx.free_blocks(blocks.into()),
            Some(Purpose::Metadata) => {
                tx.free_blocks(self.state.refill(Account::Metadata, blocks).into());
            }
        }
    }

    /// Subtracts blocks that no transaction has reserved, and that the group has, from the volume's
    /// count of free blocks. If the count is too small, because blocks are reserved elsewhere,
    /// records the debt.
    fn count_unreserved(&self, tx: &Transaction<'_>, blocks: u64) {
        if blocks != 0 && tx.journal().count_free_blocks(-blocks.cast_signed()).is_err() {
            self.state.lock().unpaid_blocks += blocks;
        }
    }

    /// Adds such blocks to the volume's count again, after the recorded debt has been paid from
    /// them.
    fn return_unreserved(&self, tx: &Transaction<'_>, blocks: u64) -> Result<()> {
        let mut inner = self.state.lock();
        let owed = inner.unpaid_blocks.min(blocks);
        inner.unpaid_blocks -= owed;
        drop(inner);
        tx.journal().count_free_blocks((blocks - owed).cast_signed())
    }

    /// Converts blocks of the group to blocks of the volume.
    pub(crate) fn extent(&self, tx: &Transaction<'_>, range: Range<u32>) -> BlockExtent {
        let length_blocks = range.end - range.start;
        BlockExtent { start: self.fs_block(tx, range.start), length_blocks }
    }

    /// Converts a block of the group to a block of the volume.
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
