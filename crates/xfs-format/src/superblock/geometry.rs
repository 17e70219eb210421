//! The geometry that a superblock describes.

use uuid::Uuid;

use super::SuperblockDisk;
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;

impl Geometry {
    /// Copies the fields of a verified superblock (I1 of `geometry`).
    pub(crate) fn from_verified(disk: &SuperblockDisk) -> Self {
        let incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
        let meta_uuid =
            if incompat.contains(IncompatFeatures::META_UUID) { disk.meta_uuid } else { disk.uuid };
        Self {
            block_size: disk.block_size.get(),
            block_log: disk.block_log,
            sector_size: disk.sector_size.get().into(),
            inode_size: disk.inode_size.get().into(),
            inode_log: disk.inode_log,
            inodes_per_block_log: disk.inodes_per_block_log,
            directory_block_log: disk.directory_block_log,
            ag_count: disk.ag_count.get(),
            ag_blocks: disk.ag_blocks.get(),
            ag_blocks_log: disk.ag_blocks_log,
            data_blocks: disk.data_blocks.get(),
            inode_alignment_blocks: disk.inode_alignment_blocks.get(),
            sparse_alignment_blocks: disk.sparse_alignment_blocks.get(),
            realtime_extent_blocks: disk.realtime_extent_blocks.get(),
            meta_uuid: Uuid::from_bytes(meta_uuid),
            incompat,
            ro_compat: RoCompatFeatures::from_bits_retain(disk.ro_compat.get()),
        }
    }
}
