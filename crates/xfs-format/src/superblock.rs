//! The superblock: sector 0 of every allocation group.
//!
//! Owns: decoding, the checksum, every check of the superblock against itself, and the refusal of
//! features by name. Does **not** own the arithmetic of addresses ([`Geometry`]) or the comparison
//! of superblocks with each other.
//!
//! ```text
//!   0 magic  4 block size  8 data blocks  16 rt blocks  24 rt extents  32 UUID  48 log start
//!  56 root inode  64 rt bitmap inode  72 rt summary inode  80 rt extent size  84 AG blocks
//!  88 AG count  92 rt bitmap blocks  96 log blocks  100 version  102 sector size  104 inode size
//! 106 inodes per block  108 label  120 logarithms of the sizes  128 inodes, free, free blocks
//! 160 quota inodes  176 flags  180 alignments  192 directory block, log sector, log stripe
//! 200 feature words  224 CRC  228 sparse alignment  232 project quota  240 LSN  248 meta UUID
//! 264 metadata directory and realtime groups (only with METADIR)  .. 304
//! ```

mod encode;
mod geometry;
mod refusal;
mod verify;

pub use crate::checks::superblock::SuperblockCheck;
pub use refusal::{Unsupported, VolumeAccess};

use core::mem::{offset_of, size_of};

use uuid::Uuid;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{AgBlock, DiskAddr, FsBlock, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::crc;
use crate::envelope;
use crate::features::{
    CompatFeatures, Features2, FormatVersion, IncompatFeatures, LogIncompatFeatures,
    RoCompatFeatures, VersionFlags,
};
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Magic number of the superblock: "XFSB".
pub const SUPERBLOCK_MAGIC: u32 = 0x5846_5342;

/// Offset of the checksum inside the sector, in bytes.
pub const CRC_OFFSET: usize = offset_of!(SuperblockDisk, crc);

const LSN_OFFSET: usize = offset_of!(SuperblockDisk, lsn);

/// The superblock on disk.
#[doc(alias = "xfs_dsb")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Superblock`, documented there")]
pub struct SuperblockDisk {
    pub magic: U32,
    pub block_size: U32,
    pub data_blocks: U64,
    pub realtime_blocks: U64,
    pub realtime_extents: U64,
    pub uuid: [u8; 16],
    pub log_start: U64,
    pub root_inode: U64,
    pub realtime_bitmap_inode: U64,
    pub realtime_summary_inode: U64,
    pub realtime_extent_blocks: U32,
    pub ag_blocks: U32,
    pub ag_count: U32,
    pub realtime_bitmap_blocks: U32,
    pub log_blocks: U32,
    pub version: U16,
    pub sector_size: U16,
    pub inode_size: U16,
    pub inodes_per_block: U16,
    pub label: [u8; 12],
    pub block_log: u8,
    pub sector_log: u8,
    pub inode_log: u8,
    pub inodes_per_block_log: u8,
    pub ag_blocks_log: u8,
    pub realtime_extents_log: u8,
    pub in_progress: u8,
    pub inode_max_percent: u8,
    pub inode_count: U64,
    pub free_inodes: U64,
    pub free_blocks: U64,
    pub free_realtime_extents: U64,
    pub user_quota_inode: U64,
    pub group_quota_inode: U64,
    pub quota_flags: U16,
    pub flags: u8,
    pub shared_version: u8,
    pub inode_alignment_blocks: U32,
    pub stripe_unit_blocks: U32,
    pub stripe_width_blocks: U32,
    pub directory_block_log: u8,
    pub log_sector_log: u8,
    pub log_sector_size: U16,
    pub log_stripe_unit_bytes: U32,
    pub features2: U32,
    pub bad_features2: U32,
    pub compat: U32,
    pub ro_compat: U32,
    pub incompat: U32,
    pub log_incompat: U32,
    pub crc: [u8; 4],
    pub sparse_alignment_blocks: U32,
    pub project_quota_inode: U64,
    pub lsn: U64,
    pub meta_uuid: [u8; 16],
    pub metadata_directory_inode: U64,
    pub realtime_group_count: U32,
    pub realtime_group_extents: U32,
    pub realtime_group_blocks_log: u8,
    pub pad: [u8; 7],
    pub realtime_start: U64,
    pub realtime_reserved: U64,
}

// I2 of the crate: the size is that of the format.
const _: () = assert!(size_of::<SuperblockDisk>() == 304);
const _: () = assert!(offset_of!(SuperblockDisk, crc) == 224);
const _: () = assert!(offset_of!(SuperblockDisk, metadata_directory_inode) == 264);

/// The superblock in memory. The names of the fields contain the units; `blocks` are filesystem
/// blocks.
#[doc(alias = "xfs_sb")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Verified sizes and shifts of the volume.
    pub geometry: Geometry,
    /// The UUID of the volume that users see and change.
    pub uuid: Uuid,
    /// First block of the internal log, or block 0 for an external log.
    pub log_start: FsBlock,
    /// Length of the log in filesystem blocks.
    pub log_blocks: u32,
    /// Sector size of the log device in bytes. The value 0 stands for 512; mkfs.xfs stores it if
    /// the data device has sectors of 512 bytes too.
    pub log_sector_size: u16,
    /// Stripe unit of the log in bytes; 1 means none.
    pub log_stripe_unit_bytes: u32,
    /// The root directory.
    pub root_inode: InodeNumber,
    /// Number of blocks on the realtime device; 0 if there is none.
    pub realtime_blocks: u64,
    /// Number of extents on the realtime device.
    pub realtime_extents: u64,
    /// Number of blocks of the realtime bitmap.
    pub realtime_bitmap_blocks: u32,
    /// Inode of the realtime bitmap.
    pub realtime_bitmap_inode: InodeNumber,
    /// Inode of the realtime summary.
    pub realtime_summary_inode: InodeNumber,
    /// Number of realtime groups (METADIR only).
    pub realtime_group_count: u32,
    /// Number of realtime extents in each realtime group (METADIR only).
    pub realtime_group_extents: u32,
    /// Root of the metadata directory tree, or `None` on a volume without METADIR.
    pub metadata_directory_inode: Option<InodeNumber>,
    /// The first block of an internal realtime section (ZONED only).
    pub realtime_start: u64,
    /// Number of blocks of the realtime section that files may not use (ZONED only).
    pub realtime_reserved: u64,
    /// The volume's label.
    #[doc(alias = "fname")]
    pub label: Label,
    /// Whether mkfs has not finished. In secondary superblocks the field stays set.
    pub in_progress: bool,
    /// Percentage of the volume that inodes may use; 0 means no limit.
    #[doc(alias = "imax_pct")]
    pub inode_max_percent: u8,
    /// Number of inodes in the allocated inode chunks, including free ones. The number is exact
    /// only on a cleanly unmounted volume.
    #[doc(alias = "icount")]
    pub inode_count: u64,
    /// Number of free inodes in the allocated inode chunks.
    #[doc(alias = "ifree")]
    pub free_inodes: u64,
    /// Number of free blocks.
    #[doc(alias = "fdblocks")]
    pub free_blocks: u64,
    /// Number of free realtime extents.
    pub free_realtime_extents: u64,
    /// The inodes of user, group and project quota, in this order.
    pub quota_inodes: [Option<InodeNumber>; 3],
    /// Flags for the state of quota.
    #[doc(alias = "sb_qflags")]
    pub quota_flags: u16,
    /// Stripe unit in blocks; 0 if there is none.
    #[doc(alias = "sunit")]
    pub stripe_unit_blocks: u32,
    /// Stripe width in blocks; 0 if there is none.
    #[doc(alias = "swidth")]
    pub stripe_width_blocks: u32,
    /// The bits of the version word `sb_versionnum`, without the four bits of the version.
    pub version_flags: VersionFlags,
    /// The bits of the second version word, `sb_features2`.
    pub features2: Features2,
    /// Features that neither readers nor writers need to support.
    pub compat: CompatFeatures,
    /// Features that a writer must support.
    pub ro_compat: RoCompatFeatures,
    /// Features that any reader must support.
    pub incompat: IncompatFeatures,
    /// Features that recovery must support.
    pub log_incompat: LogIncompatFeatures,
    /// LSN of the last logged change of the superblock.
    pub lsn: Lsn,
}

/// A volume label: at most 12 bytes, padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label([u8; 12]);

impl Label {
    /// Creates a label. Returns `None` if there are more than twelve bytes or one of them is 0.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut label = [0; 12];
        if bytes.contains(&0) {
            return None;
        }
        label.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self(label))
    }

    /// Returns the label padded with zeros, as in the superblock.
    #[must_use]
    pub const fn padded(&self) -> [u8; 12] {
        self.0
    }

    /// Returns the bytes of the label without the padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&[])
    }
}

/// Creates a label from the bytes that a superblock stores.
#[must_use]
pub const fn label_from_disk(label: [u8; 12]) -> Label {
    Label(label)
}

impl Superblock {
    /// Decodes the superblock in `sector` and checks it against itself: magic number, version,
    /// sizes, checksum. `place` is the address of the bytes, for messages.
    ///
    /// `sector` may be longer than a sector. It must hold at least `sb_sectsize` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SuperblockError::Unsupported`] for a volume of version 1 to 3, before any other
    /// check.
    /// Returns [`SuperblockError::Corrupt`] if a check fails.
    pub fn decode(sector: &[u8], place: StructureAddress) -> Result<Self, SuperblockError> {
        let corrupt = |check: Check| Corruption::new(Structure::Superblock, place, check);
        let Ok((disk, _)) = SuperblockDisk::ref_from_prefix(sector) else {
            let needed = size_of::<SuperblockDisk>();
            return Err(corrupt(Check::Truncated { available: sector.len(), needed }).into());
        };
        let magic = disk.magic.get();
        if magic != SUPERBLOCK_MAGIC {
            let (found, expected) = (u64::from(magic), u64::from(SUPERBLOCK_MAGIC));
            return Err(corrupt(Check::Magic { found, expected }).into());
        }
        refusal::refuse_version(disk)?;
        if disk.format_version() == FormatVersion::V5 {
            verify::verify_checksum(disk, sector).map_err(corrupt)?;
        }
        verify::verify_fields(disk).map_err(|check| corrupt(check.into()))?;
        Ok(Self::from_verified(disk))
    }

    /// Returns the largest number of inodes of a volume with `data_blocks` blocks, or `None` if
    /// there is no limit. The caller passes the number of blocks because the volume may have grown
    /// since this superblock was read.
    #[doc(alias = "maxicount")]
    #[must_use]
    pub fn inode_limit(&self, data_blocks: u64) -> Option<u64> {
        let percent = u64::from(self.inode_max_percent);
        let (geometry, all) = (&self.geometry, data_blocks);
        let blocks = all / 100 * percent + all % 100 * percent / 100;
        let chunk = u64::from(geometry.chunk_blocks());
        (percent != 0).then(|| (blocks / chunk * chunk) << geometry.inodes_per_block_log)
    }

    /// Copies the fields of a superblock that has passed [`verify`].
    fn from_verified(disk: &SuperblockDisk) -> Self {
        let incompat = disk.incompat();
        let version = disk.format_version();
        let project_quota = match version {
            FormatVersion::V4 => None,
            FormatVersion::V5 => present_inode(disk.project_quota_inode),
        };
        let metadir = incompat.contains(IncompatFeatures::METADIR);
        Self {
            geometry: Geometry::from_verified(disk),
            uuid: Uuid::from_bytes(disk.uuid),
            log_start: FsBlock(disk.log_start.get()),
            log_blocks: disk.log_blocks.get(),
            log_sector_size: disk.log_sector_size.get(),
            log_stripe_unit_bytes: disk.log_stripe_unit_bytes.get(),
            root_inode: InodeNumber(disk.root_inode.get()),
            realtime_blocks: disk.realtime_blocks.get(),
            realtime_extents: disk.realtime_extents.get(),
            realtime_bitmap_blocks: disk.realtime_bitmap_blocks.get(),
            realtime_bitmap_inode: InodeNumber(disk.realtime_bitmap_inode.get()),
            realtime_summary_inode: InodeNumber(disk.realtime_summary_inode.get()),
            realtime_group_count: if metadir { disk.realtime_group_count.get() } else { 0 },
            realtime_group_extents: if metadir { disk.realtime_group_extents.get() } else { 0 },
            metadata_directory_inode: metadir
                .then(|| InodeNumber(disk.metadata_directory_inode.get())),
            realtime_start: if metadir { disk.realtime_start.get() } else { 0 },
            realtime_reserved: if metadir { disk.realtime_reserved.get() } else { 0 },
            label: Label(disk.label),
            in_progress: disk.in_progress != 0,
            inode_max_percent: disk.inode_max_percent,
            inode_count: disk.inode_count.get(),
            free_inodes: disk.free_inodes.get(),
            free_blocks: disk.free_blocks.get(),
            free_realtime_extents: disk.free_realtime_extents.get(),
            quota_inodes: [
                present_inode(disk.user_quota_inode),
                present_inode(disk.group_quota_inode),
                project_quota,
            ],
            quota_flags: disk.quota_flags.get(),
            stripe_unit_blocks: disk.stripe_unit_blocks.get(),
            stripe_width_blocks: disk.stripe_width_blocks.get(),
            version_flags: disk.version_flags(),
            features2: disk.features2(),
            compat: CompatFeatures::from_bits_retain(disk.of_v5(disk.compat.get())),
            ro_compat: disk.ro_compat(),
            incompat,
            log_incompat: LogIncompatFeatures::from_bits_retain(
                disk.of_v5(disk.log_incompat.get()),
            ),
            lsn: match version {
                FormatVersion::V4 => Lsn(0),
                FormatVersion::V5 => Lsn(disk.lsn.get()),
            },
        }
    }

    /// Returns whether the volume has an external log.
    #[must_use]
    pub const fn has_external_log(&self) -> bool {
        self.log_start.0 == 0
    }

    /// Returns whether any part of the volume is on a realtime device or section.
    #[must_use]
    pub const fn has_realtime(&self) -> bool {
        self.realtime_blocks != 0
    }

    /// Returns the group and the first block of the internal log, or `None` for an external log.
    #[must_use]
    pub fn log_first_block(&self) -> Option<(crate::AgNumber, AgBlock)> {
        if self.has_external_log() { None } else { self.geometry.split_block(self.log_start) }
    }

    /// Returns the sector size of the log in bytes.
    #[must_use]
    pub const fn log_sector_bytes(&self) -> u32 {
        match self.log_sector_size {
            0 => crate::BASIC_BLOCK_BYTES,
            bytes => bytes as u32,
        }
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

/// Decodes an optional inode number: 0 and all ones both mean "none".
fn present_inode(raw: U64) -> Option<InodeNumber> {
    let inode = InodeNumber(raw.get());
    (inode.0 != 0 && !inode.is_null()).then_some(inode)
}

/// The reason why a superblock could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// The bytes are not a valid superblock.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The superblock is valid, but ferroxfs does not support the volume.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

impl Superblock {
    /// Checks that the superblock was not logged after the head of the log. A superblock with a
    /// later LSN shows that the log has been zeroed or replaced. Later writes would then get lower
    /// LSNs than the structures that they change.
    ///
    /// # Errors
    ///
    /// Returns [`Check::LsnAheadOfLog`] if the superblock's LSN is after the head.
    #[doc(alias = "xfs_log_check_lsn")]
    pub fn verify_lsn(&self, log_head: Lsn) -> Result<(), Corruption> {
        let context = VerifyContext { geometry: &self.geometry, log_head: Some(log_head) };
        envelope::verify_lsn(self.lsn, &context).map_err(|check| {
            Corruption::new(Structure::Superblock, StructureAddress::Disk(DiskAddr(0)), check)
        })
    }
}

/// Checks a superblock that was read from any group of the volume.
pub(crate) fn verify_copy(
    sector: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Corruption> {
    let place = StructureAddress::Disk(at);
    let corrupt = |check: Check| Corruption::new(Structure::Superblock, place, check);
    let superblock = Superblock::decode(sector, place).map_err(|error| match error {
        SuperblockError::Corrupt(corruption) => corruption,
        // All superblocks of a volume have one version: an older copy on a v5 volume is corrupt.
        SuperblockError::Unsupported(Unsupported::Version { version }) => {
            corrupt(SuperblockCheck::Version { version }.into())
        }
        SuperblockError::Unsupported(_) => corrupt(SuperblockCheck::Version { version: 0 }.into()),
    })?;
    let version = superblock.geometry.version;
    // All superblocks of a volume have one version.
    if version != context.geometry.version {
        return Err(corrupt(SuperblockCheck::Version { version: version.number() }.into()));
    }
    envelope::group_of_sector(at, 0, context).map_err(corrupt)?;
    let found = superblock.geometry.meta_uuid;
    if found != context.geometry.meta_uuid {
        return Err(corrupt(Check::ForeignUuid { found }));
    }
    envelope::verify_lsn(superblock.lsn, context).map_err(corrupt)
}

/// Returns the LSN of the superblock in `sector`, or `None` if it belongs to another volume.
pub(crate) fn find_lsn(sector: &[u8], geometry: &Geometry) -> Option<Lsn> {
    let (disk, _) = SuperblockDisk::ref_from_prefix(sector).ok()?;
    if geometry.version == FormatVersion::V4 {
        return None;
    }
    let uuid =
        if geometry.has_incompat(IncompatFeatures::META_UUID) { disk.meta_uuid } else { disk.uuid };
    let lsn = Lsn(disk.lsn.get());
    let is_known = Uuid::from_bytes(uuid) == geometry.meta_uuid && lsn.0 != 0 && !lsn.is_null();
    is_known.then_some(lsn)
}

/// Stores the LSN and then the checksum in the superblock in `sector`.
///
/// # Panics
///
/// Panics if `sector` is shorter than the superblock.
pub(crate) fn seal_logged(sector: &mut [u8], lsn: Lsn) {
    let field = sector.get_mut(LSN_OFFSET..LSN_OFFSET + size_of::<U64>());
    field.expect("the LSN lies inside the sector").copy_from_slice(&lsn.0.to_be_bytes());
    seal(sector);
}

/// Computes the checksum of the whole sector and stores it in the superblock.
///
/// # Panics
///
/// Panics if `sector` is shorter than the checksum field's end.
pub fn seal(sector: &mut [u8]) {
    crc::seal(sector, CRC_OFFSET);
}

#[cfg(test)]
mod tests;
