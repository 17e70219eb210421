//! Reading the inode chunks of a group while other threads change the volume.

use xfs_btree::{Cursor, Seek};
use xfs_buffer::Result;
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::{AgInode, AgNumber};
use xfs_trans::Journal;

use super::state::InodeGroups;
use crate::headers::read_agi;

/// Appends up to `most` chunks of a group to `chunks`: the chunk that contains the inode `from`,
/// and the chunks after it. All of them are read at one moment, so they are consistent. Waits for
/// the latch of the AGI; the caller must not hold the latch of any AGI.
///
/// # Errors
///
/// The device's error, or a corrupt block on the path.
pub fn latched_inode_chunks(
    journal: &Journal,
    group: AgNumber,
    from: AgInode,
    most: usize,
    chunks: &mut Vec<InodeChunk>,
) -> Result<()> {
    let header = InodeGroups::header(journal, group)?;
    let _latched = header.latched();
    read_chunks(journal, group, from, most, chunks)
}

fn read_chunks(
    journal: &Journal,
    group: AgNumber,
    from: AgInode,
    most: usize,
    chunks: &mut Vec<InodeChunk>,
) -> Result<()> {
    let agi = read_agi(journal.cache(), group)?;
    let mut cursor = Cursor::<InodeChunks>::new(journal.cache(), group, agi.inode_btree)?;
    let around = cursor.seek(Seek::AtOrBefore(from))?;
    let mut next = match around.filter(|chunk| chunk.position(from).is_some()) {
        Some(chunk) => Some(chunk),
        None => cursor.seek(Seek::AtOrAfter(from))?,
    };
    while let Some(chunk) = next.filter(|_| chunks.len() < most) {
        chunks.push(chunk);
        next = cursor.advance()?;
    }
    Ok(())
}
