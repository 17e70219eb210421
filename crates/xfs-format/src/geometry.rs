//! Sizes and shifts of a volume, and conversion between its address spaces.
//!
//! Owns: the arithmetic, with every range checked. Does **not** own counters or features.
//!
//! # Invariants
//!
//! - **I1** A `Geometry` comes from a verified superblock or from a program that makes a volume, so
//!   its shifts are in range. No method overflows, whatever its argument.

mod realtime;

pub use realtime::{RealtimeBlock, RealtimeGeometry};

use uuid::Uuid;

use crate::addr::{
    AgBlock, AgInode, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, FileBlock, FsBlock, InodeNumber,
};
use crate::directory::DirectoryForm;
use crate::features::{FormatVersion, IncompatFeatures, ProjectIds, RoCompatFeatures};

/// Inodes in a chunk, the unit in which inodes are allocated.
#[doc(alias = "XFS_INODES_PER_CHUNK")]
pub const INODES_PER_CHUNK: u32 = 64;

/// Smallest number of blocks of the last allocation group.
pub(crate) const MIN_LAST_AG_BLOCKS: u64 = 64;
/// Number of bits of a volume's block number in an extent record.
const BLOCK_NUMBER_BITS: u32 = 52;
/// Number of bits of a volume's inode number.
const INODE_NUMBER_BITS: u32 = 56;

/// Sizes and shifts of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// Version of the on-disk format.
    pub version: FormatVersion,
    /// Width of project identifiers.
    pub project_ids: ProjectIds,
    /// How directories store and compare names.
    pub directory_form: DirectoryForm,
    /// Length of a filesystem block in bytes.
    pub block_size: u32,
    /// Binary logarithm of `block_size`.
    pub block_log: u8,
    /// Length of a sector in bytes.
    pub sector_size: u32,
    /// Length of an inode in bytes.
    pub inode_size: u32,
    /// Binary logarithm of `inode_size`.
    pub inode_log: u8,
    /// Binary logarithm of the number of inodes in a filesystem block.
    pub inodes_per_block_log: u8,
    /// Binary logarithm of the number of filesystem blocks in a directory block.
    pub directory_block_log: u8,
    /// Number of allocation groups.
    pub ag_count: u32,
    /// Number of filesystem blocks in every allocation group but the last.
    pub ag_blocks: u32,
    /// Number of bits of a block number inside an allocation group.
    pub ag_blocks_log: u8,
    /// Number of filesystem blocks on the data device.
    pub data_blocks: u64,
    /// Alignment of inode chunks in blocks.
    pub inode_alignment_blocks: u32,
    /// Alignment of sparse inode chunks in blocks; 0 if the volume has no sparse chunks.
    pub sparse_alignment_blocks: u32,
    /// Number of blocks in an extent of the realtime device. A volume without a realtime device
    /// also has this number, because extent size hints of directories with the realtime flag must
    /// be multiples of it. On such a volume it may be 0, which counts as 1.
    #[doc(alias = "sb_rextsize")]
    pub realtime_extent_blocks: u32,
    /// Sizes of the realtime section.
    pub realtime: RealtimeGeometry,
    /// The UUID that metadata of this volume carries.
    pub meta_uuid: Uuid,
    /// The incompatible features, which change how structures are read.
    pub incompat: IncompatFeatures,
    /// The read-only-compatible features, which add structures.
    pub ro_compat: RoCompatFeatures,
}

/// The location of an inode on the data device.
#[doc(alias = "xfs_imap")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeLocation {
    /// Address of the cluster that holds the inode. A cluster is read and written as one buffer.
    pub cluster: DiskAddr,
    /// Length of the cluster in bytes.
    pub cluster_bytes: u32,
    /// Offset of the inode in the cluster, in bytes.
    pub offset_bytes: u32,
}

impl InodeLocation {
    /// Returns the location at another offset in the same cluster.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub const fn at_offset(self, offset_bytes: u32) -> Self {
        Self { offset_bytes, ..self }
    }
}

impl Geometry {
    /// Creates the geometry of a volume without groups and without features, for a caller that sets
    /// the other fields: the program that makes a volume, and tests.
    ///
    /// # Panics
    ///
    /// Panics if an inode is longer than a block.
    #[must_use]
    pub const fn without_groups(block_log: u8, inode_log: u8, sector_size: u32) -> Self {
        Self {
            version: FormatVersion::V5,
            project_ids: ProjectIds::Bits32,
            directory_form: DirectoryForm::V5,
            block_size: 1 << block_log,
            block_log,
            sector_size,
            inode_size: 1 << inode_log,
            inode_log,
            inodes_per_block_log: block_log
                .checked_sub(inode_log)
                .expect("an inode lies in a block"),
            directory_block_log: 0,
            ag_count: 0,
            ag_blocks: 0,
            ag_blocks_log: 0,
            data_blocks: 0,
            inode_alignment_blocks: 0,
            sparse_alignment_blocks: 0,
            realtime_extent_blocks: 1,
            realtime: RealtimeGeometry::NONE,
            meta_uuid: Uuid::nil(),
            incompat: IncompatFeatures::empty(),
            ro_compat: RoCompatFeatures::empty(),
        }
    }

    /// Returns the length of a directory block in bytes.
    #[must_use]
    pub const fn directory_block_size(&self) -> u32 {
        self.block_size << self.directory_block_log
    }

    /// Returns the number of basic blocks (512 bytes) in a filesystem block.
    #[must_use]
    pub const fn block_basic_blocks(&self) -> u32 {
        self.block_size / BASIC_BLOCK_BYTES
    }

    /// Returns the number of bytes of the data device that the volume covers.
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.data_blocks << self.block_log
    }

    /// Returns the number of blocks in this allocation group, or 0 if the group does not exist.
    #[must_use]
    pub const fn ag_length(&self, group: AgNumber) -> u32 {
        if group.0 < self.ag_count.saturating_sub(1) {
            self.ag_blocks
        } else if group.0 < self.ag_count {
            (self.data_blocks - group.0 as u64 * self.ag_blocks as u64) as u32
        } else {
            0
        }
    }

    /// Returns the geometry of this volume after growing to about `data_blocks` blocks. A last
    /// group that would be too short is left out. Returns `None` if no group is left, or if the
    /// volume would be too large for block or inode numbers.
    #[must_use]
    pub fn grown_to(&self, data_blocks: u64) -> Option<Self> {
        let group = u64::from(self.ag_blocks);
        let rest = data_blocks % group;
        let data_blocks = if rest < MIN_LAST_AG_BLOCKS { data_blocks - rest } else { data_blocks };
        let ag_count = u32::try_from(data_blocks.div_ceil(group)).ok()?;
        let last = u64::from(ag_count.checked_sub(1)?);
        let fits = |bits: u32, of_group: u32| last >> bits.saturating_sub(of_group) == 0;
        let is_addressed = fits(BLOCK_NUMBER_BITS, self.ag_blocks_log.into())
            && fits(INODE_NUMBER_BITS, self.ag_inode_log())
            && data_blocks <= (u64::MAX >> 1) >> self.block_log;
        is_addressed.then(|| Self { ag_count, data_blocks, ..self.clone() })
    }

    /// Returns the allocation groups, in order.
    pub fn groups(&self) -> impl DoubleEndedIterator<Item = AgNumber> + use<> {
        (0..self.ag_count).map(AgNumber)
    }

    /// Returns the number of allocation groups that begin before the end of a device of this
    /// length. The number is lower than `ag_count` if the device is too short, or if a damaged
    /// superblock states too many groups.
    #[must_use]
    pub fn count_groups_on_device(&self, device_bytes: u64) -> u32 {
        let group_bytes = u64::from(self.ag_blocks) << self.block_log;
        let on_device = device_bytes.div_ceil(group_bytes);
        u32::try_from(on_device).map_or(self.ag_count, |count| count.min(self.ag_count))
    }

    /// Returns whether this block of this group exists.
    #[inline]
    #[must_use]
    pub const fn contains_ag_block(&self, group: AgNumber, block: AgBlock) -> bool {
        block.0 < self.ag_length(group)
    }

    /// Splits a block number of the volume into the group and the block number inside the group.
    /// Returns `None` if there is no such block.
    #[doc(alias = "XFS_FSB_TO_AGNO")]
    #[inline]
    #[must_use]
    pub fn split_block(&self, block: FsBlock) -> Option<(AgNumber, AgBlock)> {
        let group = AgNumber(u32::try_from(block.0 >> self.ag_blocks_log).ok()?);
        let in_group = AgBlock((block.0 & ((1 << self.ag_blocks_log) - 1)) as u32);
        self.contains_ag_block(group, in_group).then_some((group, in_group))
    }

    /// Returns whether `count` blocks from `start` on all exist and lie in one allocation group.
    #[must_use]
    pub fn contains_extent(&self, start: FsBlock, count: u64) -> bool {
        self.split_block(start).is_some_and(|(group, block)| {
            count != 0 && count <= u64::from(self.ag_length(group) - block.0)
        })
    }

    /// Returns the number in the volume of block `block` of a group.
    #[doc(alias = "XFS_AGB_TO_FSB")]
    #[must_use]
    pub const fn join_block(&self, group: AgNumber, block: AgBlock) -> FsBlock {
        FsBlock(((group.0 as u64) << self.ag_blocks_log) | block.0 as u64)
    }

    /// Returns the disk address of a block of a group.
    #[doc(alias = "XFS_AGB_TO_DADDR")]
    #[must_use]
    pub const fn ag_block_disk_addr(&self, group: AgNumber, block: AgBlock) -> DiskAddr {
        let linear = group.0 as u64 * self.ag_blocks as u64 + block.0 as u64;
        DiskAddr(linear * self.block_basic_blocks() as u64)
    }

    /// Returns the disk address of a block of the volume, or `None` if there is no such block.
    #[doc(alias = "XFS_FSB_TO_DADDR")]
    #[inline]
    #[must_use]
    pub fn block_disk_addr(&self, block: FsBlock) -> Option<DiskAddr> {
        let (group, block) = self.split_block(block)?;
        Some(self.ag_block_disk_addr(group, block))
    }

    /// Returns the group and the block that contain a disk address, or `None` past the end of the
    /// volume.
    #[doc(alias = "xfs_daddr_to_agno")]
    #[doc(alias = "xfs_daddr_to_agbno")]
    #[doc(hidden)]
    #[must_use]
    pub const fn split_disk_addr(&self, at: DiskAddr) -> Option<(AgNumber, AgBlock)> {
        let linear = at.0 / self.block_basic_blocks() as u64;
        if linear >= self.data_blocks {
            return None;
        }
        let group = AgNumber((linear / self.ag_blocks as u64) as u32);
        Some((group, AgBlock((linear % self.ag_blocks as u64) as u32)))
    }

    /// Returns the disk address of header sector `index` of a group: 0 superblock, 1 AGF, 2 AGI, 3
    /// AGFL.
    #[doc(alias = "XFS_AG_DADDR")]
    #[doc(hidden)]
    #[must_use]
    pub const fn header_disk_addr(&self, group: AgNumber, index: u32) -> DiskAddr {
        let sectors = (self.sector_size / BASIC_BLOCK_BYTES * index) as u64;
        DiskAddr(self.ag_block_disk_addr(group, AgBlock(0)).0 + sectors)
    }

    /// Returns the number of blocks at the start of each group that the four header sectors take.
    #[inline]
    #[must_use]
    pub const fn header_blocks(&self) -> u32 {
        (4 * self.sector_size).div_ceil(self.block_size)
    }

    /// Splits an inode number of the volume into the group and the inode number inside the group.
    /// Returns `None` if the number is outside the volume.
    #[doc(alias = "XFS_INO_TO_AGINO")]
    #[inline]
    #[must_use]
    pub fn split_inode(&self, inode: InodeNumber) -> Option<(AgNumber, AgInode)> {
        let (group, in_group) = self.split_inode_number(inode)?;
        let block = self.ag_inode_block(in_group);
        let exists = block.0 >= self.header_blocks() && self.contains_ag_block(group, block);
        exists.then_some((group, in_group))
    }

    /// Splits an inode number as [`split_inode`](Self::split_inode) does, but also accepts numbers
    /// that no inode can have, such as those of the blocks with a group's headers. Ranges of inode
    /// numbers may begin with such a number. Returns `None` if the group does not exist.
    #[inline]
    #[must_use]
    pub fn split_inode_number(&self, number: InodeNumber) -> Option<(AgNumber, AgInode)> {
        let bits = self.ag_inode_log();
        let group = AgNumber(u32::try_from(number.0 >> bits).ok()?);
        let in_group = AgInode((number.0 & ((1_u64 << bits) - 1)) as u32);
        (group.0 < self.ag_count).then_some((group, in_group))
    }

    /// Returns the number in the volume of inode `inode` of a group.
    #[doc(alias = "XFS_AGINO_TO_INO")]
    #[inline]
    #[must_use]
    pub const fn join_inode(&self, group: AgNumber, inode: AgInode) -> InodeNumber {
        InodeNumber(((group.0 as u64) << self.ag_inode_log()) | inode.0 as u64)
    }

    /// Returns the block, counted inside the group, that holds an inode of the group.
    #[doc(alias = "XFS_AGINO_TO_AGBNO")]
    #[inline]
    #[must_use]
    pub const fn ag_inode_block(&self, inode: AgInode) -> AgBlock {
        AgBlock(inode.0 >> self.inodes_per_block_log)
    }

    /// Returns the byte offset of an inode inside its block.
    #[must_use]
    pub const fn inode_offset_in_block(&self, inode: AgInode) -> u32 {
        (inode.0 & ((1 << self.inodes_per_block_log) - 1)) << self.inode_log
    }

    /// Returns the number of bits of an inode number inside an allocation group: the bits of a
    /// block number inside the group, and the bits of an inode's index in its block.
    #[inline]
    #[must_use]
    pub const fn ag_inode_log(&self) -> u32 {
        self.ag_blocks_log as u32 + self.inodes_per_block_log as u32
    }

    /// Returns the number of filesystem blocks in a full inode chunk, at least 1.
    #[must_use]
    pub const fn chunk_blocks(&self) -> u32 {
        let blocks = (INODES_PER_CHUNK * self.inode_size) >> self.block_log;
        if blocks == 0 { 1 } else { blocks }
    }

    /// Returns the number of inodes in an inode cluster, the buffer that is read, logged and
    /// written as one.
    #[doc(alias = "M_IGEO inodes_per_cluster")]
    #[must_use]
    pub const fn cluster_inodes(&self) -> u32 {
        let scaled = match self.version {
            FormatVersion::V4 => 8 << 10,
            FormatVersion::V5 => (8 << 10) * (self.inode_size / 256),
        };
        let aligned = self.inode_alignment_blocks >= scaled >> self.block_log;
        let bytes = if aligned { scaled } else { 8 << 10 };
        let bytes = if bytes < self.block_size { self.block_size } else { bytes };
        let inodes = bytes >> self.inode_log;
        if inodes > INODES_PER_CHUNK && self.block_size <= INODES_PER_CHUNK * self.inode_size {
            INODES_PER_CHUNK
        } else {
            inodes
        }
    }

    /// Returns the number of filesystem blocks in an inode cluster. Clusters start at multiples of
    /// this number in their group. If the alignment of chunks is smaller, a cluster is one block.
    #[must_use]
    pub const fn cluster_blocks(&self) -> u32 {
        let blocks = (self.cluster_inodes() << self.inode_log) >> self.block_log;
        if blocks <= 1 || self.inode_alignment_blocks < blocks { 1 } else { blocks }
    }

    /// Returns the number of blocks to whose multiples the ends of a group are rounded for inodes.
    /// The blocks outside have no valid inode numbers.
    #[doc(alias = "M_IGEO cluster_align")]
    pub(crate) const fn inode_bound_blocks(&self) -> u32 {
        let blocks = (self.cluster_inodes() << self.inode_log) >> self.block_log;
        let alignment = self.inode_alignment_blocks;
        if alignment == 0 || alignment < blocks { 1 } else { alignment }
    }

    /// Returns the location of an inode, or `None` if its number is outside the volume.
    #[doc(alias = "xfs_imap")]
    #[must_use]
    pub fn inode_location(&self, inode: InodeNumber) -> Option<InodeLocation> {
        let (group, inode) = self.split_inode(inode)?;
        let block = self.ag_inode_block(inode);
        let in_cluster = block.0 % self.cluster_blocks();
        let first = AgBlock(block.0 - in_cluster);
        let last = first.checked_add(self.cluster_blocks() - 1)?;
        self.contains_ag_block(group, last).then(|| InodeLocation {
            cluster: self.ag_block_disk_addr(group, first),
            cluster_bytes: self.cluster_blocks() << self.block_log,
            offset_bytes: (in_cluster << self.block_log) + self.inode_offset_in_block(inode),
        })
    }

    /// Returns the length in bytes of the core of an inode. The forks follow the core.
    #[must_use]
    pub const fn inode_core_bytes(&self) -> usize {
        self.version.inode_core_bytes()
    }

    /// Returns the number of bytes in `blocks` filesystem blocks, or `None` if it does not fit 64
    /// bits.
    #[inline]
    #[must_use]
    pub fn blocks_to_bytes(&self, blocks: u64) -> Option<u64> {
        blocks.checked_mul(u64::from(self.block_size))
    }

    /// Returns the file block that holds byte `offset` of a file.
    #[must_use]
    pub const fn file_block(&self, offset: u64) -> FileBlock {
        FileBlock(offset >> self.block_log)
    }

    /// Returns whether the volume has this incompatible feature.
    #[must_use]
    pub const fn has_incompat(&self, feature: IncompatFeatures) -> bool {
        self.incompat.contains(feature)
    }

    /// Returns whether the volume has this read-only-compatible feature.
    #[must_use]
    pub const fn has_ro_compat(&self, feature: RoCompatFeatures) -> bool {
        self.ro_compat.contains(feature)
    }
}

#[cfg(test)]
mod tests;
