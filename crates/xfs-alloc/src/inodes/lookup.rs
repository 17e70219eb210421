//! The check whether an inode number that was found earlier is still valid.
//!
//! A reader of a directory gets inode numbers, and holds no latch. When it uses such a number, the
//! chunk of the inode may have been freed. The blocks may then hold anything: the old inode, if
//! nothing has overwritten it, or other contents. The bytes alone do not prove that the inode
//! exists; the inode btree does.
//!
//! As long as no chunk of a group has been freed, the btree does not have to be read. A reader of
//! an inode first notes the count of [`chunks_freed`], then calls [`latched_inode_state`] unless
//! that count is 0. The inode is valid if the count is still the same once the inode is latched,
//! because the thread that frees a chunk latches its last inode.

use xfs_btree::{Cursor, Seek};
use xfs_buffer::{Buffer, Result};
use xfs_format::agi::AgiFields;
use xfs_format::btree::BtreeCheck;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, Corruption, InodeNumber, Structure, StructureAddress};
use xfs_trans::Journal;

use super::state::InodeGroups;
use crate::inode_chunks::{InodeState, state_in};

/// Returns the number of inode chunks of a group that have been freed since the volume was opened.
/// A group by which the volume has just grown has no state yet, and no chunk: the number is 0.
#[must_use]
pub fn chunks_freed(journal: &Journal, group: AgNumber) -> u64 {
    InodeGroups::of(journal).group(group).map_or(0, |state| state.chunks_freed())
}

/// Returns the state of an inode number, read from the inode btree while other threads change the
/// volume. Waits for the latch of the AGI; the caller must not hold the latch of any AGI.
///
/// # Errors
///
/// The errors of [`inode_state`](crate::inode_state).
pub fn latched_inode_state(journal: &Journal, inode: InodeNumber) -> Result<InodeState> {
    let Some((group, inode)) = journal.geometry().split_inode(inode) else {
        return Ok(InodeState::Absent);
    };
    let header = InodeGroups::header(journal, group)?;
    let found = {
        let _latched = header.latched();
        find_latched(journal, &header, group, inode)?
    };
    Ok(found.map_or(InodeState::Absent, |chunk| state_in(&chunk, inode)))
}

/// Finds the chunk of an inode of a group, starting at the path that the last operation on the
/// btree has saved. Returns `None` if the inode lies in no chunk.
fn find_latched(
    journal: &Journal,
    header: &Buffer,
    group: AgNumber,
    inode: AgInode,
) -> Result<Option<InodeChunk>> {
    let outside =
        || Corruption::new(Structure::Agi, StructureAddress::Group(group), BtreeCheck::Outside);
    let state = InodeGroups::of(journal).group(group).ok_or_else(outside)?;
    let agi = AgiFields::decode(&header.bytes(), header.at(), journal.geometry())?;
    let mut paths = state.take_paths();
    let saved = paths.chunks.take();
    let mut cursor = Cursor::resume(journal.cache(), group, agi.inode_btree, saved)?;
    let found = cursor.seek(Seek::AtOrBefore(inode))?;
    paths.chunks = Some(cursor.leave());
    state.keep_paths(paths);
    Ok(found.filter(|chunk| chunk.position(inode).is_some()))
}
