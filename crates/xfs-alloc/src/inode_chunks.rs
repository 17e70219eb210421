//! The state of an inode number (absent, free or in use), read from the inode btree.

use xfs_btree::{Cursor, Records, Seek};
use xfs_buffer::{BufferCache, Result};
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::{AgInode, AgNumber, InodeNumber};

use crate::headers::read_agi;

/// The state of an inode number in the inode btree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeState {
    /// The inode is not on disk: its number lies outside the volume, outside every chunk, or in the
    /// hole of a sparse chunk.
    Absent,
    /// The inode is on disk, but not in use.
    Free,
    /// The inode is on disk and in use.
    Allocated,
}

/// Returns an iterator over the inode chunks of a group in disk order. It reads only the inode
/// header and the inode btree.
///
/// # Errors
///
/// The device's error, or a corrupt header. The iterator can fail at each chunk; it then continues
/// after the block that could not be read.
pub fn inode_chunks(cache: &BufferCache, group: AgNumber) -> Result<Records<'_, InodeChunks>> {
    let agi = read_agi(cache, group)?;
    Ok(Cursor::new(cache, group, agi.inode_btree)?.records())
}

/// Finds the chunk that contains an inode of a group; `None` if the inode lies in no chunk.
///
/// # Errors
///
/// The device's error, or a corrupt block on the path.
pub fn find_chunk(
    cache: &BufferCache,
    group: AgNumber,
    inode: AgInode,
) -> Result<Option<InodeChunk>> {
    let agi = read_agi(cache, group)?;
    let mut cursor = Cursor::<InodeChunks>::new(cache, group, agi.inode_btree)?;
    let found = cursor.seek(Seek::AtOrBefore(inode))?;
    Ok(found.filter(|chunk| chunk.position(inode).is_some()))
}

/// Returns the state of any inode number, read from the inode btree.
///
/// # Errors
///
/// The errors of [`find_chunk`].
pub fn inode_state(cache: &BufferCache, inode: InodeNumber) -> Result<InodeState> {
    let Some((group, inode)) = cache.geometry().split_inode(inode) else {
        return Ok(InodeState::Absent);
    };
    let chunk = find_chunk(cache, group, inode)?;
    Ok(chunk.map_or(InodeState::Absent, |chunk| state_in(&chunk, inode)))
}

/// Returns the state of an inode according to the record of its chunk. Panics if the inode lies
/// outside of the chunk.
pub(crate) fn state_in(chunk: &InodeChunk, inode: AgInode) -> InodeState {
    let position = chunk.position(inode).expect("the chunk was found by this inode");
    let bit = 1_u64 << position;
    if chunk.allocated() & bit != 0 {
        InodeState::Allocated
    } else if chunk.present() & bit != 0 {
        InodeState::Free
    } else {
        InodeState::Absent
    }
}

#[cfg(test)]
mod tests;
