//! Whether a number that was found earlier still means an inode.
//!
//! Who lists a directory has numbers, and no latch. When such a number is used at last, its chunk may
//! have been given back, and the blocks may hold anything: the inode as it was, which nobody has
//! written since, or what they have become. So bytes alone say nothing; the inode btree does.
//!
//! As long as no chunk of a group is given back, nothing of it has to be asked. Who reads an inode
//! notes [`chunks_freed`] first, then asks [`latched_inode_state`] unless that is 0, and believes what
//! was read if the number is still the same once the inode is latched: the last inode of a chunk is
//! latched by who gives the chunk back.

use xfs_btree::{Cursor, Seek};
use xfs_buffer::{Buffer, Result};
use xfs_format::agi::AgiFields;
use xfs_format::btree::BtreeCheck;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, Corruption, InodeNumber, Place, Structure};
use xfs_trans::Journal;

use super::state::InodeGroups;
use crate::inode_chunks::{InodeState, state_in};

/// How many chunks of the group of this inode have been given back since the volume was opened.
#[must_use]
pub fn chunks_freed(journal: &Journal, inode: InodeNumber) -> u64 {
    let group = journal.geometry().split_inode(inode).map(|(group, _)| group);
    let state = group.and_then(|group| InodeGroups::of(journal).group(group));
    state.map_or(0, |state| state.chunks_freed())
}

/// What the inode btree says of an inode number, on a volume that others change meanwhile. Waits for
/// the latch of the AGI: the caller holds none.
///
/// # Errors
///
/// As [`inode_state`](crate::inode_state).
pub fn latched_inode_state(journal: &Journal, inode: InodeNumber) -> Result<InodeState> {
    let Some((group, inode)) = journal.geometry().split_inode(inode) else {
        return Ok(InodeState::Absent);
    };
    let header = InodeGroups::header(journal, group)?;
    header.latch();
    let found = find_latched(journal, &header, group, inode);
    header.unlatch();
    Ok(found?.map_or(InodeState::Absent, |chunk| state_in(&chunk, inode)))
}

/// The chunk that an inode number of a group belongs to, if it belongs to one: from the place where
/// somebody last was in the btree.
fn find_latched(
    journal: &Journal,
    header: &Buffer,
    group: AgNumber,
    inode: AgInode,
) -> Result<Option<InodeChunk>> {
    let outside = || Corruption::new(Structure::Agi, Place::Group(group), BtreeCheck::Outside);
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
