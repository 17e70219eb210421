//! Which blocks several files share.

use xfs_btree::{Cursor, Seek};
use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::agf::AGF_SECTOR;
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::{AgBlock, BlockKind, FsBlock};
use xfs_trans::Journal;

use crate::headers::read_agf;
use crate::space::Space;

/// Blocks that are alike in whether they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingRun {
    /// Whether more than one file, or more than one place of a file, uses each of them.
    pub shared: bool,
    /// How many, at least 1.
    pub length_blocks: u32,
}

/// The longest run of blocks from `start` on, at most `length_blocks`, that are all shared or all
/// not. Nothing is shared on a volume without reference counts.
///
/// # Errors
///
/// The device's error, or a block on the way that cannot be believed.
#[doc(alias = "xfs_refcount_find_shared")]
pub fn sharing_run(cache: &BufferCache, start: FsBlock, length_blocks: u32) -> Result<SharingRun> {
    let unshared = SharingRun { shared: false, length_blocks };
    let Some((group, block)) = cache.geometry().split_block(start) else { return Ok(unshared) };
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
            // A cursor that found nothing before the block stands before the first record.
            let next = if before.is_some() { cursor.advance()? } else { cursor.first()? };
            let next = next.filter(|record| record.domain == RefcountDomain::Shared);
            let next_start = next.map_or(end, |record| record.start.min(end));
            Ok(SharingRun { shared: false, length_blocks: (next_start.0 - block.0).max(1) })
        }
    }
}

/// As [`sharing_run`], for who is going to write to blocks in place that are not shared. Where a crash
/// could still give them back to a file that shared them, this waits until it cannot: what is written
/// to them before that would show in that file.
///
/// # Errors
///
/// As [`sharing_run`]; what stopped the log.
pub fn overwritable_run(
    journal: &Journal,
    start: FsBlock,
    length_blocks: u32,
) -> Result<SharingRun> {
    let (cache, geometry) = (journal.cache(), journal.geometry());
    let Some((group, block)) = geometry.split_block(start) else {
        return Err(PosixError::InvalidArgument.into());
    };
    let at = geometry.header_disk_addr(group, AGF_SECTOR);
    let header = cache.read(at, geometry.sector_size, BlockKind::Agf)?;
    // Nobody changes the counts of the group while its header is latched.
    header.latch();
    let run = sharing_run(cache, start, length_blocks);
    let run = run.map(|run| {
        let end = block.0.saturating_add(run.length_blocks);
        let state = Space::of(journal).group(group).filter(|_| !run.shared);
        (run, state.and_then(|state| state.lock().busy.sequence_of(block.0..end)))
    });
    header.unlatch();
    let (run, sequence) = run?;
    // It is forgotten only when somebody allocates in the group.
    let durable = journal.log().durable_sequence();
    sequence
        .filter(|sequence| *sequence > durable)
        .map_or(Ok(()), |sequence| journal.force(sequence))?;
    Ok(run)
}

/// Follows records without a gap between them, whatever their counts, until `limit`.
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
