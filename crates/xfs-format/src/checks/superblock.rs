//! The errors of failed checks of the superblock.

use thiserror::Error;

/// A failed check of the superblock, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum SuperblockCheck {
    #[error("version word {version:#06x} is not valid")]
    Version { version: u16 },
    #[error("feature word {features2:#x} lacks required bits or has unknown ones")]
    Features2 { features2: u32 },
    #[error("{field} of {size} bytes does not match its logarithm {log}")]
    SizeAgainstLog { field: &'static str, size: u32, log: u8 },
    #[error("{field} is {size} bytes, outside {min}..={max}")]
    SizeRange { field: &'static str, size: u32, min: u32, max: u32 },
    #[error(
        "{inodes} inodes per block do not match blocks of {block_size} bytes and inodes of {inode_size}"
    )]
    InodesPerBlock { inodes: u16, block_size: u32, inode_size: u16 },
    #[error("directory block size of 2^{log} bytes is not allowed")]
    DirectoryBlock { log: u8 },
    #[error("allocation group size of {ag_blocks} blocks is not allowed")]
    AgBlocks { ag_blocks: u32 },
    #[error("logarithm {log} does not match {ag_blocks} blocks per allocation group")]
    AgBlocksLog { ag_blocks: u32, log: u8 },
    #[error(
        "{ag_count} allocation groups of {ag_blocks} blocks do not match {data_blocks} data blocks"
    )]
    AgCount { ag_count: u32, ag_blocks: u32, data_blocks: u64 },
    #[error("inodes may take {percent} percent, more than 100")]
    InodeMaxPercent { percent: u8 },
    #[error("shared version {version} is not zero")]
    SharedVersion { version: u8 },
    #[error("inode chunk alignment of {blocks} blocks does not allow sparse chunks")]
    SparseAlignment { blocks: u32 },
    #[error("log size of {blocks} blocks is not allowed")]
    LogBlocks { blocks: u32 },
    #[error("log of {blocks} blocks at block {start:#x} is outside its allocation group")]
    LogOutside { start: u64, blocks: u32 },
    #[error("log sector size of {size} bytes (logarithm {log}) is not allowed")]
    LogSector { size: u16, log: u8 },
    #[error("log stripe unit of {bytes} bytes is not allowed")]
    LogStripeUnit { bytes: u32 },
    #[error("stripe unit of {unit} blocks does not match the width of {width}")]
    Stripe { unit: u32, width: u32 },
    #[error("root inode {root:#x} is outside the volume")]
    RootInode { root: u64 },
    #[error("{free} free {what}, but only {count} exist")]
    Counter { what: &'static str, free: u64, count: u64 },
    #[error("the volume has {volume_bytes} bytes, but its device only {device_bytes}: truncated")]
    CutShort { volume_bytes: u64, device_bytes: u64 },
    #[error(
        "realtime section of {blocks} blocks does not match {extents} extents of {extent_blocks} blocks"
    )]
    Realtime { blocks: u64, extents: u64, extent_blocks: u32 },
    #[error("logarithm {log} and {bitmap_blocks} bitmap blocks do not match the realtime section")]
    RealtimeSizes { log: u8, bitmap_blocks: u32 },
    #[error(
        "{groups} realtime groups of {extents} extents do not match block numbers of {log} bits"
    )]
    RealtimeGroups { groups: u32, extents: u32, log: u8 },
    #[error(
        "a realtime section cannot start at block {start}, after {data_blocks} data blocks with {reserved} reserved"
    )]
    RealtimeStart { start: u64, data_blocks: u64, reserved: u64 },
    #[error("a zoned realtime section needs a metadata directory and extents of one block")]
    Zoned,
    #[error("metadata directory inode {inode:#x} is outside the volume")]
    MetadataDirectory { inode: u64 },
    #[error("inode {inode:#x} holds the quota of two types")]
    SharedQuotaInode { inode: u64 },
    #[error("the realtime section ends at byte {section_bytes}, its device at {device_bytes}")]
    RealtimeCutShort { section_bytes: u64, device_bytes: u64 },
}
