//! Computes the plan of a new volume from its options, without I/O.
//!
//! Owns: defaults, bounds, and the rules by which options depend on others. Does **not** own the
//! locations of blocks inside a group ([`crate::VolumeLayout`]) or their bytes.
//!
//! The order matters: sizes, features, stripe, groups, inode alignment. These give the geometry,
//! and the geometry gives the smallest size of the log.

mod error;
mod features;
mod groups;
mod inherited;
mod log;
mod realtime;
mod sizes;
mod zones;

use std::fmt;

use xfs_format::features::{CompatFeatures, Features2, VersionFlags};
use xfs_format::geometry::RealtimeGeometry;
use xfs_format::timestamp;
use xfs_format::{
    AgInode, AgNumber, FsBlock, Geometry, IncompatFeatures, InodeNumber, LogIncompatFeatures, Lsn,
    Superblock,
};

pub use error::GeometryError;

use crate::identity::Identity;
use crate::layout::{
    BtreeRoots, FirstInodes, GroupLayout, VolumeLayout, first_free_block, free_list_blocks,
};
use crate::metadata::{self, GroupsDirectory};
use crate::options::{Autofsck, Options};
use features::Features;
use groups::{Groups, Stripe};
pub(crate) use inherited::Inherited;
use log::{DataPlan, LogPlan};
pub(crate) use realtime::{FILE_HEADER_BYTES, RealtimePlan};
use sizes::Sizes;

/// The properties of the devices on which the geometry depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetDevice {
    /// The length of the data device in bytes.
    pub data_bytes: u64,
    /// The sector size of the data device.
    pub sector_size: u32,
    /// The length of the device of an external log in bytes. `None` without such a device.
    pub log_bytes: Option<u64>,
    /// The length of the realtime device in bytes. `None` without such a device.
    pub realtime_bytes: Option<u64>,
}

/// A warning to the user: the plan differs from the request, or the requested options are probably
/// a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum Warning {
    Truncated { option: &'static str, bytes: u64, blocks: u64 },
    GroupsOnOneDisk { better_blocks: u64 },
    LogStripe { bytes: u64, instead: u64 },
    ShortLog { bytes: u64 },
    Small,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { option, bytes, blocks } => {
                write!(
                    f,
                    "{option}: {bytes} bytes are not a multiple of the block size; using {blocks} \
                     blocks"
                )
            }
            Self::GroupsOnOneDisk { better_blocks } => write!(
                f,
                "all allocation groups start on the same disk of the stripe; groups of \
                 {better_blocks} blocks would avoid that"
            ),
            Self::LogStripe { bytes, instead } => write!(
                f,
                "a stripe unit of {bytes} bytes is too large for the log; using {instead}"
            ),
            Self::ShortLog { bytes } => write!(
                f,
                "the log has only {bytes} bytes, as many as its allocation group holds; with fewer \
                 groups it would have 64 MiB"
            ),
            Self::Small => f.write_str("volumes made with --unsupported are for tests only"),
        }
    }
}

/// The plan of a new volume, which determines every byte.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) superblock: Superblock,
    pub(crate) layout: VolumeLayout,
    pub(crate) identity: Identity,
    pub(crate) autofsck: Autofsck,
    pub(crate) inherited: Inherited,
    pub(crate) realtime: RealtimePlan,
    /// The directory of realtime groups. `None` without a metadata directory.
    pub(crate) groups_directory: Option<GroupsDirectory>,
    warnings: Vec<Warning>,
}

impl Plan {
    /// Plans the volume that `options` request, on a device with the properties of `target`. A UUID
    /// in `options` takes precedence over that of `identity`.
    ///
    /// # Errors
    ///
    /// The reason why these options are impossible on this device.
    pub fn new(
        options: &Options,
        target: &TargetDevice,
        identity: &Identity,
    ) -> Result<Self, GeometryError> {
        let mut warnings = Vec::new();
        if options.allow_small {
            warnings.push(Warning::Small);
        }
        let mut identity = identity.clone();
        identity.uuid = options.uuid.unwrap_or(identity.uuid);
        let sizes = Sizes::new(options, target)?;
        let features = Features::new(options, sizes.realtime_extent / sizes.block)?;
        let stripe = Stripe::new(options, &sizes)?;
        let groups = Groups::new(options, target, &sizes, stripe, &mut warnings)?;
        let mut geometry = geometry(&sizes, &features, &groups, &identity);
        let realtime = RealtimePlan::new(options, target, &sizes, &geometry, &mut warnings)?;
        geometry.realtime = realtime_geometry(&realtime);
        let data = DataPlan { sizes: &sizes, stripe, geometry: &geometry };
        let log = LogPlan::new(options, target, data, &mut warnings)?;
        if groups.count == 1 && !options.allow_small {
            return Err(GeometryError::OneGroup);
        }
        let max_percent = inode_max_percent(options, &geometry)?;
        let inherited = Inherited::new(&options.data.inherited, &geometry)?;
        let log_group = log.start.map_or(AgNumber(0), |(group, _)| group);
        let has_metadir = geometry.incompat.contains(IncompatFeatures::METADIR);
        let groups_directory =
            has_metadir.then(|| GroupsDirectory::new(&geometry, &realtime, log_group));
        let groups_directory = groups_directory.transpose()?;
        let inodes = match &groups_directory {
            Some(directory) => metadata::metadata_inodes(&geometry, &realtime, directory),
            None => metadata::classic_inodes(&realtime),
        };
        let layout = layout(&geometry, stripe, &log, inodes);
        let mut superblock = superblock(geometry, &features, stripe, &log);
        superblock.uuid = identity.uuid;
        superblock.label = options.label;
        superblock.inode_max_percent = max_percent;
        superblock.quota_flags = features::quota_flags(options)?;
        superblock.version_flags.set(VersionFlags::QUOTA, superblock.quota_flags != 0);
        set_realtime(&mut superblock, &realtime);
        let autofsck = features.autofsck;
        let plan = Self {
            superblock,
            layout,
            identity,
            autofsck,
            inherited,
            realtime,
            groups_directory,
            warnings,
        };
        plan.with_counters()
    }

    /// Returns the primary superblock of the finished volume.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the warnings for the user.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the layout of a group, or `None` if the group does not exist.
    #[must_use]
    pub fn group(&self, number: AgNumber) -> Option<GroupLayout> {
        self.layout.group(&self.superblock.geometry, number)
    }

    /// Sets the number of the root directory and the counters of the superblock, which follow from
    /// the layout of the groups.
    fn with_counters(mut self) -> Result<Self, GeometryError> {
        let time = self.identity.time;
        let is_bigtime = self.superblock.has_incompat(IncompatFeatures::BIGTIME);
        let raw = if is_bigtime {
            timestamp::encode_bigtime(time)
        } else {
            timestamp::encode_legacy(time)
        };
        if raw.is_none() {
            return Err(GeometryError::Time);
        }
        let geometry = &self.superblock.geometry;
        let first = self.group(AgNumber(0)).ok_or(GeometryError::NoRoomForRoot)?;
        let block = first.inodes.ok_or(GeometryError::NoRoomForRoot)?;
        let root =
            geometry.join_inode(AgNumber(0), AgInode(block.0 << geometry.inodes_per_block_log));
        let first_inodes = &self.layout.inodes;
        let chunk = u64::from(geometry.chunk_blocks()) << geometry.inodes_per_block_log;
        let inodes = chunk * first_inodes.len() as u64;
        let used_inodes: u64 = first_inodes.iter().map(|first| u64::from(first.used)).sum();
        // The caller of `write` relies on all groups with inodes (I1).
        for first in first_inodes {
            let files = first.files.iter().map(|file| u64::from(file.blocks));
            let blocks = files.max().unwrap_or(0);
            self.group(first.group).ok_or(GeometryError::NoRoomForRealtime { blocks })?;
        }
        // Used are headers and roots of every group, the log, and the first inodes. Blocks on a
        // free list count as free.
        let overhead = u64::from(first_free_block(geometry).0) * u64::from(geometry.ag_count);
        let log = self.layout.log.map_or(0, |(_, _, blocks)| u64::from(blocks));
        let used = overhead + log + self.layout.inode_blocks(geometry);
        let free_blocks = geometry.data_blocks.checked_sub(used);
        self.superblock.free_blocks = free_blocks.ok_or(GeometryError::NoRoomForRoot)?;
        self.superblock.inode_count = inodes;
        self.superblock.free_inodes = inodes - used_inodes;
        self.superblock.root_inode = root;
        if self.groups_directory.is_some() {
            self.superblock.metadata_directory_inode = Some(InodeNumber(root.0 + 1));
            self.superblock.realtime_bitmap_inode = InodeNumber(0);
            self.superblock.realtime_summary_inode = InodeNumber(0);
        } else {
            self.superblock.realtime_bitmap_inode = InodeNumber(root.0 + 1);
            self.superblock.realtime_summary_inode = InodeNumber(root.0 + 2);
        }
        Ok(self)
    }
}

/// Returns the sizes of the realtime section as readers derive them from the superblock.
fn realtime_geometry(realtime: &RealtimePlan) -> RealtimeGeometry {
    let extent_blocks = u64::from(realtime.extent_blocks);
    let mut geometry = RealtimeGeometry::NONE;
    geometry.blocks = realtime.extents * extent_blocks;
    geometry.start = realtime.start;
    if realtime.group_extents != 0 {
        geometry.group_count = realtime.group_count;
        geometry.group_blocks = u64::from(realtime.group_extents) * extent_blocks;
        geometry.group_blocks_log = realtime.group_blocks_log();
    }
    geometry
}

fn set_realtime(superblock: &mut Superblock, realtime: &RealtimePlan) {
    superblock.realtime_blocks = realtime.blocks;
    superblock.realtime_extents = realtime.extents;
    superblock.realtime_bitmap_blocks = realtime.bitmap_blocks;
    superblock.realtime_group_count = realtime.group_count;
    superblock.realtime_group_extents = realtime.group_extents;
    superblock.free_realtime_extents = realtime.free_extents();
    superblock.realtime_start = realtime.start;
    superblock.realtime_reserved = realtime.reserved;
}

fn geometry(sizes: &Sizes, features: &Features, groups: &Groups, identity: &Identity) -> Geometry {
    let log2 = |size: u32| size.trailing_zeros() as u8;
    let (block_log, inode_log) = (log2(sizes.block), log2(sizes.inode));
    // A cluster of inodes has 8 KiB for the smallest inodes in the format, of 256 bytes.
    let cluster_blocks = ((8 << 10) * (sizes.inode / 256)) >> block_log;
    let is_sparse = features.incompat.contains(IncompatFeatures::SPARSE_INODES);
    let chunk_blocks = (64 * sizes.inode) >> block_log;
    // Groups have fewer than 2^32 blocks, and there are fewer than 2^32 groups: both were checked.
    let ag_blocks = groups.blocks as u32;
    let mut geometry = Geometry::without_groups(block_log, inode_log, sizes.sector);
    geometry.directory_block_log = log2(sizes.directory_block) - block_log;
    geometry.ag_count = groups.count as u32;
    geometry.ag_blocks = ag_blocks;
    geometry.ag_blocks_log = log2(ag_blocks.next_power_of_two());
    geometry.data_blocks = groups.data_blocks;
    geometry.inode_alignment_blocks = if is_sparse { chunk_blocks } else { cluster_blocks };
    geometry.sparse_alignment_blocks = if is_sparse { cluster_blocks } else { 0 };
    geometry.realtime_extent_blocks = sizes.realtime_extent >> block_log;
    geometry.meta_uuid = identity.uuid;
    geometry.incompat = features.incompat;
    geometry.ro_compat = features.ro_compat;
    geometry
}

fn layout(
    geometry: &Geometry,
    stripe: Stripe,
    log: &LogPlan,
    inodes: Vec<FirstInodes>,
) -> VolumeLayout {
    let inode_alignment = geometry.inode_alignment_blocks;
    let cluster_blocks = ((8 << 10) * (geometry.inode_size / 256)) >> geometry.block_log;
    let is_aligned = inode_alignment != 0 && inode_alignment >= cluster_blocks;
    // Chunks start on stripe units if that keeps them aligned as chunks.
    let mask = u64::from(inode_alignment).wrapping_sub(1);
    let on_stripe = is_aligned && mask != 0 && stripe.unit != 0 && stripe.unit & mask == 0;
    VolumeLayout {
        roots: BtreeRoots::new(geometry),
        log: log.start.map(|(group, block)| (group, block, log.blocks as u32)),
        free_list_blocks: free_list_blocks(geometry),
        inode_alignment: match (on_stripe, is_aligned) {
            (true, _) => stripe.unit as u32,
            (false, true) => inode_alignment,
            (false, false) => 1,
        },
        inodes,
    }
}

fn inode_max_percent(options: &Options, geometry: &Geometry) -> Result<u8, GeometryError> {
    if let Some(asked) = options.inode.maxpct {
        let (option, value) = ("-i maxpct", asked.number);
        return match u8::try_from(value) {
            Ok(percent) if percent <= 100 => Ok(percent),
            _ => Err(GeometryError::Range { option, value, min: 0, max: 100 }),
        };
    }
    Ok(match geometry.data_blocks << geometry.block_log {
        // No limit: many small files need more of a volume that has no other space.
        _ if options.minimize => 0,
        bytes if bytes < 1 << 40 => 25,
        bytes if bytes < 50 << 40 => 5,
        _ => 1,
    })
}

fn superblock(
    geometry: Geometry,
    features: &Features,
    stripe: Stripe,
    log: &LogPlan,
) -> Superblock {
    let has_large_sectors = geometry.sector_size > 512 || log.sector > 512;
    let mut version_flags = VersionFlags::NLINK
        | VersionFlags::ALIGN
        | VersionFlags::LOGV2
        | VersionFlags::EXTFLG
        | VersionFlags::DIRV2
        | VersionFlags::MOREBITS;
    version_flags.set(VersionFlags::ATTR, features.has_attributes());
    version_flags.set(VersionFlags::DALIGN, stripe.unit != 0);
    version_flags.set(VersionFlags::SECTOR, has_large_sectors);
    let log_start =
        log.start.map_or(FsBlock(0), |(group, block)| geometry.join_block(group, block));
    Superblock {
        uuid: geometry.meta_uuid,
        log_start,
        log_blocks: log.blocks as u32,
        log_sector_size: if has_large_sectors { log.sector as u16 } else { 0 },
        log_stripe_unit_bytes: log.unit_bytes(geometry.block_size),
        root_inode: InodeNumber::NULL,
        realtime_blocks: 0,
        realtime_extents: 0,
        realtime_bitmap_blocks: 0,
        realtime_bitmap_inode: InodeNumber::NULL,
        realtime_summary_inode: InodeNumber::NULL,
        realtime_group_count: 0,
        realtime_group_extents: 0,
        realtime_reserved: 0,
        metadata_directory_inode: None,
        realtime_start: 0,
        label: xfs_format::superblock::Label::default(),
        in_progress: false,
        inode_max_percent: 0,
        inode_count: 0,
        free_inodes: 0,
        free_blocks: 0,
        free_realtime_extents: 0,
        quota_inodes: [None; 3],
        quota_flags: 0,
        stripe_unit_blocks: stripe.unit as u32,
        stripe_width_blocks: stripe.width as u32,
        version_flags,
        features2: Features2::LAZYSBCOUNT | Features2::ATTR2 | Features2::PROJID32 | Features2::CRC,
        compat: CompatFeatures::empty(),
        ro_compat: geometry.ro_compat,
        incompat: geometry.incompat,
        log_incompat: LogIncompatFeatures::empty(),
        lsn: Lsn(0),
        geometry,
    }
}

#[cfg(test)]
pub(crate) mod tests;
