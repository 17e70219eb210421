//! Creates the geometry of a volume from the fields of its superblock.

use uuid::Uuid;

use super::SuperblockDisk;
use crate::directory::{DirectoryForm, EntryTypes, NameComparison};
use crate::features::{
    Features2, FormatVersion, IncompatFeatures, ProjectIds, RoCompatFeatures, VersionFlags,
};
use crate::geometry::{Geometry, RealtimeGeometry};

impl Geometry {
    /// Copies the fields of a verified superblock (I1 of `geometry`).
    pub(crate) fn from_verified(disk: &SuperblockDisk) -> Self {
        let incompat = disk.incompat();
        let meta_uuid =
            if incompat.contains(IncompatFeatures::META_UUID) { disk.meta_uuid } else { disk.uuid };
        let is_aligned = disk.version_flags().contains(VersionFlags::ALIGN);
        Self {
            version: disk.format_version(),
            project_ids: if disk.features2().contains(Features2::PROJID32) {
                ProjectIds::Bits32
            } else {
                ProjectIds::Bits16
            },
            directory_form: directory_form(disk),
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
            inode_alignment_blocks: if is_aligned { disk.inode_alignment_blocks.get() } else { 0 },
            sparse_alignment_blocks: match disk.format_version() {
                FormatVersion::V4 => 0,
                FormatVersion::V5 => disk.sparse_alignment_blocks.get(),
            },
            realtime_extent_blocks: disk.realtime_extent_blocks.get(),
            realtime: realtime_of(disk, incompat),
            meta_uuid: Uuid::from_bytes(meta_uuid),
            incompat,
            ro_compat: disk.ro_compat(),
        }
    }
}

fn directory_form(disk: &SuperblockDisk) -> DirectoryForm {
    let version = disk.format_version();
    let has_types = match version {
        FormatVersion::V4 => disk.features2().contains(Features2::FTYPE),
        FormatVersion::V5 => disk.incompat().contains(IncompatFeatures::FTYPE),
    };
    let folds = disk.version_flags().contains(VersionFlags::BORG);
    DirectoryForm {
        version,
        types: if has_types { EntryTypes::Stored } else { EntryTypes::Absent },
        names: if folds { NameComparison::AsciiCi } else { NameComparison::Exact },
    }
}

/// The feature words. On a v4 volume, the words after `sb_bad_features2` mean nothing.
impl SuperblockDisk {
    /// Returns the version of the format. The version nibble is 4 or 5.
    pub(super) fn format_version(&self) -> FormatVersion {
        match self.version.get() & super::refusal::VERSION_NIBBLE {
            4 => FormatVersion::V4,
            _ => FormatVersion::V5,
        }
    }

    pub(super) fn version_flags(&self) -> VersionFlags {
        VersionFlags::from_bits_truncate(self.version.get())
    }

    /// Returns the second feature word. On a v4 volume it is valid only with `MOREBITS`. Some
    /// machines stored this word in the next field, `sb_bad_features2`, so the result has the bits
    /// of both fields.
    pub(super) fn features2(&self) -> Features2 {
        let bits = match self.format_version() {
            FormatVersion::V5 => self.features2.get(),
            FormatVersion::V4 if self.version_flags().contains(VersionFlags::MOREBITS) => {
                self.features2.get() | self.bad_features2.get()
            }
            FormatVersion::V4 => 0,
        };
        Features2::from_bits_retain(bits)
    }

    pub(super) fn incompat(&self) -> IncompatFeatures {
        IncompatFeatures::from_bits_retain(self.of_v5(self.incompat.get()))
    }

    pub(super) fn ro_compat(&self) -> RoCompatFeatures {
        RoCompatFeatures::from_bits_retain(self.of_v5(self.ro_compat.get()))
    }

    /// Returns `word` on a v5 volume, and 0 on a v4 volume.
    pub(super) fn of_v5(&self, word: u32) -> u32 {
        match self.format_version() {
            FormatVersion::V4 => 0,
            FormatVersion::V5 => word,
        }
    }
}

/// Copies the sizes of the realtime section of a verified superblock. Blocks after the last whole
/// realtime extent are never allocated, so they are left out.
fn realtime_of(disk: &SuperblockDisk, incompat: IncompatFeatures) -> RealtimeGeometry {
    let extent_blocks = u64::from(disk.realtime_extent_blocks.get());
    let blocks = disk.realtime_extents.get().saturating_mul(extent_blocks);
    let mut realtime = RealtimeGeometry::NONE;
    realtime.blocks = if disk.realtime_blocks.get() == 0 { 0 } else { blocks };
    if incompat.contains(IncompatFeatures::METADIR) {
        realtime.group_count = disk.realtime_group_count.get();
        realtime.group_blocks = u64::from(disk.realtime_group_extents.get()) * extent_blocks;
        realtime.group_blocks_log = disk.realtime_group_blocks_log;
        realtime.has_gaps = incompat.contains(IncompatFeatures::ZONE_GAPS);
        realtime.start = disk.realtime_start.get();
    }
    realtime
}
