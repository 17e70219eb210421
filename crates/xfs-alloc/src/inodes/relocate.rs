//! Moving the blocks of a group's inode btrees out of the end that a shrinking volume will lose.

use xfs_buffer::Result;
use xfs_format::AgNumber;
use xfs_trans::Transaction;

use super::group::GroupInodes;

/// Moves one block of the two inode btrees that lies at or after block `end` of the group. Returns
/// `false` if they have no such block.
pub(crate) fn move_inode_btree_block(
    tx: &mut Transaction<'_>,
    number: AgNumber,
    end: u32,
) -> Result<bool> {
    let group = GroupInodes::open(tx, number)?;
    let mut group = group.expect("a step that keeps no header waits for any (I6)");
    let is_misplaced = |block: u64| block >= u64::from(end);
    let moved = group.in_chunks(tx, |chunks| chunks.move_block(is_misplaced))?
        || group.in_free_chunks(tx, |chunks| chunks.move_block(is_misplaced))?.unwrap_or(false);
    group.leave(tx);
    Ok(moved)
}
