//! Replay of inode creation: a range of blocks becomes free inodes.

use xfs_buffer::Result;
use xfs_format::inode;
use xfs_format::log_item::{InodeCreate, LogItemCheck};
use xfs_format::{AgBlock, AgInode, DiskAddr, Group};

use super::cancel::CancelTable;
use super::refusal::RecoveryError;
use super::store::RecoveryStore;

/// Replays an inode creation. Returns `false`, and does nothing, if part of the blocks is freed
/// again later in the log.
///
/// The creation is replayed over inodes of any age: the later inode items bring every inode up to
/// date. If the replay ends before the end of the log, those items may be lost. Then each inode
/// whose LSN is not older than the creation stays as it is on disk, and so does each block without
/// an inode: it may hold file data by now.
#[doc(alias = "xlog_recover_icreate_commit_pass2")]
pub(super) fn replay(
    store: &mut RecoveryStore,
    create: &InodeCreate,
    cancelled: &CancelTable,
) -> Result<bool, RecoveryError> {
    check(store, create)?;
    let geometry = store.geometry();
    let cluster_blocks = geometry.cluster_blocks();
    let basic_blocks = geometry.block_basic_blocks();
    let mut clusters = (create.start.0..create.start.0 + create.length_blocks)
        .step_by(cluster_blocks as usize)
        .map(|block| geometry.ag_block_disk_addr(create.group, AgBlock(block)));
    if clusters.any(|at| cancelled.contains(at, cluster_blocks * basic_blocks)) {
        return Ok(false);
    }
    for block in create.start.0..create.start.0 + create.length_blocks {
        let at = store.geometry().ag_block_disk_addr(create.group, AgBlock(block));
        store.forget(at, basic_blocks.into());
        let mut bytes = free_inodes(store, create, AgBlock(block));
        if store.is_cut && !keep_current_inodes(store, at, &mut bytes)? {
            continue;
        }
        store.write(at, 0, &bytes)?;
    }
    Ok(true)
}

/// Copies those inodes of the block at `at` to `created` whose LSN is not older than the creation.
/// `created` has the free inodes of the creation for this block. Returns `false` if the block on
/// disk holds no inode.
fn keep_current_inodes(store: &RecoveryStore, at: DiskAddr, created: &mut [u8]) -> Result<bool> {
    let inode_size = store.geometry().inode_size as usize;
    let on_disk = store.read(at, created.len())?;
    for (target, inode) in created.chunks_mut(inode_size).zip(on_disk.chunks(inode_size)) {
        if store.is_current_inode(inode) {
            target.copy_from_slice(inode);
        }
    }
    Ok(on_disk.chunks(inode_size).any(|inode| store.is_inode(inode)))
}

fn check(store: &RecoveryStore, create: &InodeCreate) -> Result<()> {
    let geometry = store.geometry();
    let bad = |field, value: u32| {
        store.corrupt(LogItemCheck::OutOfRange { field, value: value.into() }).into()
    };
    if create.inode_size != geometry.inode_size {
        return Err(bad("inode size", create.inode_size));
    }
    let length = create.length_blocks;
    let is_sparse = length == geometry.sparse_alignment_blocks;
    if length == 0 || (length != geometry.chunk_blocks() && !is_sparse) {
        return Err(bad("length of new inodes", length));
    }
    if create.count >> geometry.inodes_per_block_log != length {
        return Err(bad("number of new inodes", create.count));
    }
    let group = Group::new(geometry, create.group).ok_or_else(|| bad("group", create.group.0))?;
    if !group.contains_extent(create.start, length) {
        return Err(bad("first block of new inodes", create.start.0));
    }
    let at = geometry.ag_block_disk_addr(create.group, create.start);
    let blocks = u64::from(length) * u64::from(geometry.block_basic_blocks());
    store.check_range(at, blocks)
}

/// Returns the bytes of a block that holds free inodes only.
fn free_inodes(store: &RecoveryStore, create: &InodeCreate, block: AgBlock) -> Vec<u8> {
    let geometry = store.geometry();
    let mut bytes = vec![0; geometry.block_size as usize];
    let first = AgInode(block.0 << geometry.inodes_per_block_log);
    let first = geometry.join_inode(create.group, first);
    inode::encode_free(first, create.generation, geometry, &mut bytes);
    bytes
}
