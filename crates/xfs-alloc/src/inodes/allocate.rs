//! Allocating an inode.

use std::sync::Arc;

use xfs_btree::Seek;
use xfs_buffer::{PosixError, Result};
use xfs_format::agi::AgiCheck;
use xfs_format::btree::BtreeKind;
use xfs_format::inode::FreeInode;
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk};
use xfs_format::{
    AgInode, AgNumber, Corruption, Geometry, InodeNumber, RoCompatFeatures, Structure,
    StructureAddress,
};
use xfs_trans::{GroupHeader, InodeRecord, Journal, Transaction};

use super::group::{ChunkEditor, GroupInodes};
use super::state::InodeGroups;
use crate::space::AllocatorState;

/// The use that an inode is allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodePurpose {
    /// A directory. New directories go to the groups in turn.
    Directory,
    /// A file that is not a directory. Its inode lies near that of its directory.
    File,
}

/// An inode that has been allocated.
#[derive(Clone, Debug)]
pub struct AllocatedInode {
    /// The inode in memory, not yet joined to the transaction.
    pub record: Arc<InodeRecord>,
    /// The contents that the inode keeps while it is free.
    pub free: FreeInode,
}

impl AllocatedInode {
    /// Returns the inode number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.record.number()
    }
}

/// Returns the number of blocks that allocating an inode may use, to be reserved with the
/// transaction.
#[doc(alias = "XFS_IALLOC_SPACE_RES")]
#[must_use]
pub fn inode_blocks(geometry: &Geometry) -> u64 {
    let btrees = 1 + u64::from(geometry.has_ro_compat(RoCompatFeatures::FINOBT));
    let levels = BtreeKind::Inode.max_levels(geometry);
    u64::from(geometry.chunk_blocks()) + btrees * u64::from(levels - 1)
}

/// The result of the search for an inode in one group.
enum InodeOutcome {
    Taken(AllocatedInode),
    /// The group has no free inode and no room for another chunk.
    Full,
    /// Another thread holds the group's header latched, and the transaction step may not wait for
    /// it.
    Held,
}

/// Allocates an inode for a new file or directory in `parent`.
///
/// If a new chunk is needed, the function commits the chunk first, which ends a step of the
/// transaction (I3 of `xfs_alloc::inodes`). All other objects that the caller has joined to the
/// transaction must therefore stay joined across steps, as inodes do.
///
/// # Errors
///
/// `NoSpace` if no group has a free inode or room for another chunk. Then the free lists of groups
/// may have been filled, but nothing else has changed. `Shutdown` if an inode btree has to grow and
/// cannot. The device's error; a corrupt header or btree.
#[doc(alias = "xfs_dialloc")]
pub fn allocate_inode(
    tx: &mut Transaction<'_>,
    parent: InodeNumber,
    purpose: InodePurpose,
) -> Result<AllocatedInode> {
    let home = tx.geometry().split_inode(parent);
    let (home, near) = home.map_or((AgNumber(0), None), |(group, inode)| (group, Some(inode)));
    let first = match purpose {
        InodePurpose::Directory => InodeGroups::of(tx.journal()).next_group(),
        InodePurpose::File => home,
    };
    let groups = tx.geometry().ag_count;
    let mut passed_over = false;
    for number in (0..groups).map(|index| AgNumber((first.0 + index) % groups)) {
        if !looks_promising(tx, number) {
            passed_over = true;
            continue;
        }
        match allocate_in(tx, number, near.filter(|_| number == home))? {
            InodeOutcome::Taken(inode) => return Ok(inode),
            InodeOutcome::Held => passed_over = true,
            InodeOutcome::Full => {}
        }
    }
    if !passed_over {
        return Err(PosixError::NoSpace.into());
    }
    // The second round is in order and waits, which a step may do that keeps no header yet.
    tx.roll()?;
    for number in (0..groups).map(AgNumber) {
        if let InodeOutcome::Taken(inode) =
            allocate_in(tx, number, near.filter(|_| number == home))?
        {
            return Ok(inode);
        }
    }
    Err(PosixError::NoSpace.into())
}

/// Whether a group appears to have a free inode or room for a new chunk, and also a block for the
/// inode's contents. Does not latch the group.
#[doc(alias = "xfs_dialloc_good_ag")]
fn looks_promising(tx: &Transaction<'_>, number: AgNumber) -> bool {
    let geometry = tx.geometry();
    // The volume is just growing by a group that has no state yet.
    let Some(state) = InodeGroups::of(tx.journal()).group(number) else { return false };
    let chunk_blocks = match (state.may_have_free(), geometry.sparse_alignment_blocks) {
        (true, _) => 0,
        (false, 0) => geometry.chunk_blocks(),
        (false, part) => part,
    };
    let space = AllocatorState::of(tx.journal()).summary(number);
    space.free_blocks > chunk_blocks && space.longest_free_blocks >= chunk_blocks
}

/// Allocates an inode in one group, if the group has a free inode or room for a new chunk.
fn allocate_in(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    near: Option<AgInode>,
) -> Result<InodeOutcome> {
    let Some(mut group) = GroupInodes::open(tx, number)? else { return Ok(InodeOutcome::Held) };
    if group.agi.free_count == 0 {
        if !group.add_chunk(tx)? {
            group.leave(tx);
            if tx.keeps_space() {
                // The free list was filled in vain. The next step may wait for any header again.
                tx.roll()?;
            }
            return Ok(InodeOutcome::Full);
        }
        group.store(tx);
        tx.hold(&group.header);
        // I3: the chunk is committed before one of its inodes is taken.
        tx.roll()?;
        tx.unhold(&group.header);
        tx.keep_header(GroupHeader::Inodes(number));
    }
    let inode = group.take_inode(tx, near)?;
    let taken = group.record_of(tx, inode)?;
    group.close(tx);
    Ok(InodeOutcome::Taken(taken))
}

impl<'journal> GroupInodes<'journal> {
    /// Takes an existing free inode, as near to `near` as possible.
    fn take_inode(
        &mut self,
        tx: &mut Transaction<'journal>,
        near: Option<AgInode>,
    ) -> Result<AgInode> {
        if let Some(taken) = self.take_again(tx, near)? {
            return Ok(taken);
        }
        let newest = self.agi.newest_inode;
        let missing = AgiCheck::NoneFree { free: self.agi.free_count };
        let place = |chunk: InodeChunk| Some((chunk, chunk.first_free()?));
        let taken = self.in_free_chunks(tx, |chunks| {
            let found = match near {
                Some(near) => nearest(chunks, near)?,
                None => newest_or_first(chunks, newest)?,
            };
            let taken = found.and_then(place);
            if let Some((chunk, position)) = taken {
                match chunk.with_used(position) {
                    used if used.free_count == 0 => chunks.remove().map(drop)?,
                    used => chunks.update(used)?,
                }
            }
            Ok(taken)
        })?;
        let taken = match taken {
            Some(taken) => taken,
            None => self.search_chunks(tx, near.or(newest))?.and_then(place),
        };
        let (chunk, position) = taken.ok_or_else(|| self.corrupt(missing))?;
        self.take_at(tx, near, chunk, position)
    }

    /// Takes an inode of the chunk from which the last one was taken, if that chunk is still the
    /// nearest to `near` and keeps a free inode. So its record in the btree of chunks with a free
    /// inode is changed without a search.
    fn take_again(
        &mut self,
        tx: &mut Transaction<'journal>,
        near: Option<AgInode>,
    ) -> Result<Option<AgInode>> {
        let Some(chunk) = self.last_taken(near) else { return Ok(None) };
        let Some(position) = chunk.first_free() else { return Ok(None) };
        let used = chunk.with_used(position);
        if used.free_count == 0 {
            return Ok(None);
        }
        match self.in_free_chunks(tx, |chunks| chunks.replace(&chunk, &used))? {
            Some(true) => self.take_at(tx, near, chunk, position).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes an inode of a chunk whose record in the btree of chunks with a free inode, if there is
    /// one, has been changed already.
    fn take_at(
        &mut self,
        tx: &mut Transaction<'journal>,
        near: Option<AgInode>,
        chunk: InodeChunk,
        position: u32,
    ) -> Result<AgInode> {
        let used = chunk.with_used(position);
        self.replace_in_chunks(tx, chunk, used)?;
        self.note_taken(near, used);
        self.agi.free_count -= 1;
        tx.count_inodes(0, -1);
        Ok(AgInode(chunk.start.0 + position))
    }

    /// Returns the record of an inode that was just taken.
    fn record_of(&mut self, tx: &Transaction<'_>, inode: AgInode) -> Result<AllocatedInode> {
        let number = tx.geometry().join_inode(self.number, inode);
        let Some((record, free)) = self.free_inode(tx.journal(), number)? else {
            let check = AgiCheck::InUse { inode: inode.0 };
            let place = StructureAddress::Inode(number);
            return Err(Corruption::new(Structure::Inode, place, check).into());
        };
        Ok(AllocatedInode { record, free })
    }

    /// Returns the record of a free inode from the cluster of the inode that was taken before if
    /// it is there.
    fn free_inode(
        &mut self,
        journal: &Journal,
        number: InodeNumber,
    ) -> Result<Option<(Arc<InodeRecord>, FreeInode)>> {
        if let Some(cluster) = self.last_cluster().filter(|last| last.holds(journal, number)) {
            return cluster.free_inode(journal, number);
        }
        self.keep_cluster(journal.inode_cluster(number)?).free_inode(journal, number)
    }

    /// Searches the btree of all chunks for a chunk with a free inode: from `near` to the last
    /// chunk, then from the first chunk. Used on volumes without a free-inode btree.
    fn search_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        near: Option<AgInode>,
    ) -> Result<Option<InodeChunk>> {
        let start = near.unwrap_or(AgInode(0));
        self.in_chunks(tx, |chunks| {
            let mut next = match chunks.seek(Seek::AtOrBefore(start))? {
                Some(chunk) => Some(chunk),
                None => chunks.first()?,
            };
            let limit = next.map(|chunk| chunk.start);
            while let Some(chunk) = next {
                if chunk.free_count != 0 {
                    return Ok(Some(chunk));
                }
                next = chunks.advance()?;
            }
            next = chunks.first()?;
            while let Some(chunk) = next.filter(|chunk| Some(chunk.start) < limit) {
                if chunk.free_count != 0 {
                    return Ok(Some(chunk));
                }
                next = chunks.advance()?;
            }
            Ok(None)
        })
    }
}

/// Moves to the chunk with a free inode that is nearest to `near`, before or after it. Returns
/// `None` if no chunk has a free inode.
#[doc(alias = "xfs_dialloc_ag_finobt_near")]
fn nearest(
    chunks: &mut ChunkEditor<'_, '_, FreeInodeChunks>,
    near: AgInode,
) -> Result<Option<InodeChunk>> {
    // If there is none before, the editor is at the first chunk.
    let Some(before) = chunks.seek(Seek::AtOrBefore(near))? else { return chunks.record() };
    if before.position(near).is_some() {
        return Ok(Some(before));
    }
    match chunks.advance()? {
        None => Ok(Some(before)),
        Some(after) if after.start.0.abs_diff(near.0) < near.0.abs_diff(before.start.0) => {
            Ok(Some(after))
        }
        Some(_) => chunks.retreat(),
    }
}

/// Moves to the group's newest chunk if it has a free inode, or else to the first chunk with a free
/// inode. Returns `None` if no chunk has a free inode.
#[doc(alias = "xfs_dialloc_ag_finobt_newino")]
fn newest_or_first(
    chunks: &mut ChunkEditor<'_, '_, FreeInodeChunks>,
    newest: Option<AgInode>,
) -> Result<Option<InodeChunk>> {
    if let Some(newest) = newest
        && let Some(chunk) = chunks.find(newest)?
    {
        return Ok(Some(chunk));
    }
    chunks.first()
}
