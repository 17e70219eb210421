//! Inode creation: a range of blocks becomes free inodes.

use xfs_buffer::Result;
use xfs_format::inode::{self, INODE_MAGIC, INODE_VERSION, InodeDisk};
use xfs_format::log_item::{InodeCreate, LogItemCheck};
use xfs_format::{AgBlock, AgInode, Group, Lsn};
use zerocopy::FromBytes;

use super::cancel::CancelTable;
use super::refusal::RecoveryError;
use super::store::Store;

/// Replays an inode creation, unless part of it is freed again later. There is no LSN to ask: the
/// inode items that come later bring every inode to where it was.
#[doc(alias = "xlog_recover_icreate_commit_pass2")]
pub(super) fn replay(
    store: &mut Store,
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
        store.write(at, 0, &free_inodes(store, create, AgBlock(block)))?;
    }
    Ok(true)
}

fn check(store: &Store, create: &InodeCreate) -> Result<()> {
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

/// A block of free inodes.
#[doc(alias = "xfs_ialloc_inode_init")]
fn free_inodes(store: &Store, create: &InodeCreate, block: AgBlock) -> Vec<u8> {
    let geometry = store.geometry();
    let inode_size = geometry.inode_size as usize;
    let mut bytes = vec![0; geometry.block_size as usize];
    for (index, inode) in bytes.chunks_exact_mut(inode_size).enumerate() {
        let number = AgInode((block.0 << geometry.inodes_per_block_log) + index as u32);
        if let Ok((disk, _)) = InodeDisk::mut_from_prefix(inode) {
            disk.magic = INODE_MAGIC.into();
            disk.version = INODE_VERSION;
            disk.generation = create.generation.into();
            disk.next_unlinked = u32::MAX.into();
            disk.number = geometry.join_inode(create.group, number).0.into();
            disk.uuid = *geometry.meta_uuid.as_bytes();
        }
        inode::seal(inode, Lsn(0));
    }
    bytes
}
