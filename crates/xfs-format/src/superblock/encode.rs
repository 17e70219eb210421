//! Encoding of a superblock: writes the fields in memory to a sector.

use zerocopy::FromZeros;
use zerocopy::big_endian::U64;

use super::{SUPERBLOCK_MAGIC, Superblock, SuperblockDisk};
use crate::addr::InodeNumber;
use crate::envelope;
use crate::features::IncompatFeatures;

/// The version nibble of a v5 volume.
const VERSION_5: u16 = 5;

impl Superblock {
    /// Writes the superblock into `sector` and zeros after it.
    /// [`BlockKind::seal`](crate::BlockKind::seal) stores LSN and checksum.
    ///
    /// # Panics
    ///
    /// Panics if `sector` is too short, which is a mistake of the caller.
    pub fn encode(&self, sector: &mut [u8]) {
        let mut disk = SuperblockDisk {
            magic: SUPERBLOCK_MAGIC.into(),
            uuid: self.uuid.into_bytes(),
            log_start: self.log_start.0.into(),
            root_inode: self.root_inode.0.into(),
            log_blocks: self.log_blocks.into(),
            version: (self.version_flags.bits() | VERSION_5).into(),
            label: self.label.0,
            in_progress: self.in_progress.into(),
            inode_max_percent: self.inode_max_percent,
            inode_count: self.inode_count.into(),
            free_inodes: self.free_inodes.into(),
            free_blocks: self.free_blocks.into(),
            user_quota_inode: quota_inode(self.quota_inodes[0]),
            group_quota_inode: quota_inode(self.quota_inodes[1]),
            project_quota_inode: quota_inode(self.quota_inodes[2]),
            quota_flags: self.quota_flags.into(),
            stripe_unit_blocks: self.stripe_unit_blocks.into(),
            stripe_width_blocks: self.stripe_width_blocks.into(),
            log_sector_log: self.log_sector_size.checked_ilog2().unwrap_or(0) as u8,
            log_sector_size: self.log_sector_size.into(),
            log_stripe_unit_bytes: self.log_stripe_unit_bytes.into(),
            features2: self.features2.bits().into(),
            // An old padding bug put the word here on some machines. Both fields are kept equal.
            bad_features2: self.features2.bits().into(),
            compat: self.compat.bits().into(),
            ro_compat: self.ro_compat.bits().into(),
            incompat: self.incompat.bits().into(),
            log_incompat: self.log_incompat.bits().into(),
            ..SuperblockDisk::new_zeroed()
        };
        self.encode_geometry(&mut disk);
        self.encode_realtime(&mut disk);
        envelope::fill(sector, &disk);
    }

    fn encode_geometry(&self, disk: &mut SuperblockDisk) {
        let geometry = &self.geometry;
        disk.block_size = geometry.block_size.into();
        disk.data_blocks = geometry.data_blocks.into();
        disk.ag_blocks = geometry.ag_blocks.into();
        disk.ag_count = geometry.ag_count.into();
        // The largest sector is 32 KiB, the largest inode 2 KiB.
        disk.sector_size = (geometry.sector_size as u16).into();
        disk.inode_size = (geometry.inode_size as u16).into();
        disk.inodes_per_block = (1_u16 << geometry.inodes_per_block_log).into();
        disk.block_log = geometry.block_log;
        disk.sector_log = geometry.sector_size.trailing_zeros() as u8;
        disk.inode_log = geometry.inode_log;
        disk.inodes_per_block_log = geometry.inodes_per_block_log;
        disk.ag_blocks_log = geometry.ag_blocks_log;
        disk.inode_alignment_blocks = geometry.inode_alignment_blocks.into();
        disk.directory_block_log = geometry.directory_block_log;
        disk.sparse_alignment_blocks = geometry.sparse_alignment_blocks.into();
        disk.realtime_extent_blocks = geometry.realtime_extent_blocks.into();
        if self.has_incompat(IncompatFeatures::META_UUID) {
            disk.meta_uuid = geometry.meta_uuid.into_bytes();
        }
    }

    fn encode_realtime(&self, disk: &mut SuperblockDisk) {
        disk.realtime_blocks = self.realtime_blocks.into();
        disk.realtime_extents = self.realtime_extents.into();
        disk.realtime_extents_log = self.realtime_extents.checked_ilog2().unwrap_or(0) as u8;
        disk.realtime_bitmap_blocks = self.realtime_bitmap_blocks.into();
        disk.realtime_bitmap_inode = self.realtime_bitmap_inode.0.into();
        disk.realtime_summary_inode = self.realtime_summary_inode.0.into();
        disk.free_realtime_extents = self.free_realtime_extents.into();
        if let Some(inode) = self.metadata_directory_inode {
            disk.metadata_directory_inode = inode.0.into();
            disk.realtime_group_count = self.realtime_group_count.into();
            disk.realtime_group_extents = self.realtime_group_extents.into();
            disk.realtime_group_blocks_log = self.geometry.realtime.group_blocks_log;
            disk.realtime_start = self.realtime_start.into();
            disk.realtime_reserved = self.realtime_reserved.into();
        }
    }
}

fn quota_inode(inode: Option<InodeNumber>) -> U64 {
    inode.map_or(U64::ZERO, |inode| inode.0.into())
}
