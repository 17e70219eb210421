//! The blocks that a fork gives up when it is written again.
//!
//! Owns: the difference of two extent maps: the blocks on the volume that only the first one has.
//! Does **not** own: whether the contents of these blocks are lost.

use xfs_format::extent::Extent;
use xfs_format::{FileBlock, FsBlock};

/// Returns the parts of the extents in `before` whose blocks are in no extent of `after`.
pub(crate) fn freed(before: &[Extent], after: &[Extent]) -> Vec<Extent> {
    let mut kept: Vec<(u64, u64)> = after.iter().map(range).collect();
    kept.sort_unstable();
    let mut freed = Vec::new();
    for extent in before {
        let (mut start, end) = range(extent);
        let first = kept.partition_point(|(_, kept_end)| *kept_end <= start);
        for (kept_start, kept_end) in kept.iter().skip(first) {
            if *kept_start >= end {
                break;
            }
            freed.extend(part(extent, start, *kept_start));
            start = start.max(*kept_end);
        }
        freed.extend(part(extent, start, end));
    }
    freed
}

/// Returns the blocks of an extent: the first one, and the one after the last.
fn range(extent: &Extent) -> (u64, u64) {
    (extent.start.0, extent.start.0 + u64::from(extent.length_blocks))
}

/// Returns the part of an extent in the blocks from `start` to `end`. `None` if there is no such
/// block.
fn part(extent: &Extent, start: u64, end: u64) -> Option<Extent> {
    let length = end.checked_sub(start).filter(|length| *length > 0)?;
    let skipped = start - extent.start.0;
    Some(Extent {
        file_block: FileBlock(extent.file_block.0 + skipped),
        start: FsBlock(start),
        length_blocks: u32::try_from(length).expect("a part is not longer than its extent"),
        unwritten: extent.unwritten,
    })
}

#[cfg(test)]
mod tests;
