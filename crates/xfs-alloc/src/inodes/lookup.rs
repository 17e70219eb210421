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

use xfs_buffer::Result;
use xfs_format::agi::AGI_SECTOR;
use xfs_format::{BlockKind, InodeNumber};
use xfs_trans::Journal;

use super::state::InodeGroups;
use crate::inode_chunks::{InodeState, inode_state};

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
/// As [`inode_state`].
pub fn latched_inode_state(journal: &Journal, inode: InodeNumber) -> Result<InodeState> {
    let geometry = journal.geometry();
    let Some((group, _)) = geometry.split_inode(inode) else { return Ok(InodeState::Absent) };
    let at = geometry.header_disk_addr(group, AGI_SECTOR);
    let header = journal.cache().read(at, geometry.sector_size, BlockKind::Agi)?;
    header.latch();
    let state = inode_state(journal.cache(), inode);
    header.unlatch();
    state
}
