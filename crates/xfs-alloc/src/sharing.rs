//! Blocks that several files share.

use xfs_btree::{Cursor, Seek};
use xfs_buffer::{BufferCache, Result};
use xfs_format::agf::AGF_SECTOR;
use xfs_format::btree::BtreeCheck;
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, FsBlock, Geometry, Structure, StructureAddress,
};
use xfs_trans::Journal;

use crate::headers::read_agf;
use crate::space::AllocatorState;

/// A run of blocks that are all shared or all unshared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingRun {
    /// Whether each block has more than one user: several files, or several offsets in one file.
    pub shared: bool,
    /// Number of blocks, at least 1.
    pub length_blocks: u32,
}

/// Returns the longest run of blocks from `start` on, at most `length_blocks`, that are all shared
/// or all unshared. On a volume without reference counts nothing is shared.
///
/// # Errors
///
/// The device's error, or a corrupt block on the path. [`BtreeCheck::Outside`] if the volume has no
/// block `start`.
#[doc(alias = "xfs_refcount_find_shared")]
pub fn sharing_run(cache: &BufferCache, start: FsBlock, length_blocks: u32) -> Result<SharingRun> {
    let unshared = SharingRun { shared: false, length_blocks };
    let geometry = cache.geometry();
    let (group, block) = geometry.split_block(start).ok_or_else(|| outside(geometry, start))?;
    let Some(root) = read_agf(cache, group)?.refcount else { return Ok(unshared) };
    let mut cursor = Cursor::<Refcounts>::new(cache, group, root)?;
    let before = cursor.seek(Seek::AtOrBefore((RefcountDomain::Shared, block)))?;
    let end = AgBlock(block.0.saturating_add(length_blocks));
    match before.filter(|record| record.end() > block) {
        Some(record) => {
            let shared_end = end_of_sharing(&mut cursor, record, end)?;
            Ok(SharingRun { shared: true, length_blocks: shared_end.min(end).0 - block.0 })
        }
        None => {
            // A cursor that found nothing before the block is before the first record.
            let next = if before.is_some() { cursor.advance()? } else { cursor.first()? };
            let next = next.filter(|record| record.domain == RefcountDomain::Shared);
            let next_start = next.map_or(end, |record| record.start.min(end));
            Ok(SharingRun { shared: false, length_blocks: (next_start.0 - block.0).max(1) })
        }
    }
}

/// Returns a [`sharing_run`] for a caller that will overwrite unshared blocks where they are on
/// disk.
///
/// A block that was shared recently is dangerous: a crash could still give it back to a file that
/// shared it, and the new contents would appear in that file. The function therefore waits until a
/// crash can no longer do so.
///
/// # Errors
///
/// The errors of [`sharing_run`], or the error that stopped the log.
pub fn overwritable_run(
    journal: &Journal,
    start: FsBlock,
    length_blocks: u32,
) -> Result<SharingRun> {
    let (cache, geometry) = (journal.cache(), journal.geometry());
    let (group, block) = geometry.split_block(start).ok_or_else(|| outside(geometry, start))?;
    let state = AllocatorState::of(journal).group(group).ok_or_else(|| outside(geometry, start))?;
    let at = geometry.header_disk_addr(group, AGF_SECTOR);
    let header = cache.read(at, geometry.sector_size, BlockKind::Agf)?;
    // No thread changes the counts of the group while its header is latched.
    let latched = header.latched();
    let run = sharing_run(cache, start, length_blocks)?;
    let end = block.0.saturating_add(run.length_blocks);
    let sequence = if run.shared { None } else { state.lock().busy.sequence_of(block.0..end) };
    drop(latched);
    // Expired entries are removed only when a thread latches the group's space.
    let durable = journal.log().durable_sequence();
    sequence
        .filter(|sequence| *sequence > durable)
        .map_or(Ok(()), |sequence| journal.force(sequence))?;
    Ok(run)
}

/// Returns the error for a mapping of a file to a block that the volume does not have.
#[cold]
fn outside(geometry: &Geometry, block: FsBlock) -> Corruption {
    let group = u32::try_from(block.0 >> geometry.ag_blocks_log).unwrap_or(u32::MAX);
    let group = StructureAddress::Group(AgNumber(group));
    Corruption::new(Structure::Extent, group, BtreeCheck::Outside)
}

/// Returns the block after the run of shared blocks that starts with record `first`. Records that
/// follow without a gap belong to the run, whatever their counts. The search ends at `limit`, so a
/// run that reaches `limit` may be longer than the result says.
fn end_of_sharing(
    cursor: &mut Cursor<'_, Refcounts>,
    first: Refcount,
    limit: AgBlock,
) -> Result<AgBlock> {
    let mut end = first.end();
    while end < limit {
        match cursor.advance()? {
            Some(next) if next.domain == RefcountDomain::Shared && next.start == end => {
                end = next.end();
            }
            _ => break,
        }
    }
    Ok(end)
}
