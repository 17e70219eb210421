//! Dquots: the records of a quota inode, and the blocks that hold them.
//!
//! Owns: the disk form of a dquot, its place in a block, and every check of a dquot and of a block
//! of dquots against itself. Does **not** own the counts: only a walk over all inodes can check
//! them.
//!
//! ```text
//!   0 magic  2 version  3 type  4 ID  8 block limits  24 inode limits  40 blocks  48 inodes
//!  56 timers  64 warnings  72 realtime limits  88 realtime blocks  96 timer, warnings .. 104
//! 104 fill  108 CRC  112 LSN  120 UUID .. 136
//! ```
//!
//! A block holds as many whole dquots as fit. Their IDs are consecutive, and the bytes after the
//! last one have no meaning. The dquots of a block are checked and sealed one by one: the block has
//! no checksum of its own. A quota inode has size 0, whatever blocks it maps.

use core::mem::offset_of;

use bitflags::bitflags;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{DiskAddr, FileBlock, Lsn};
pub use crate::checks::dquot::DquotCheck;
use crate::corruption::Check;
use crate::crc;
use crate::envelope;
use crate::features::{FormatVersion, IncompatFeatures};
use crate::geometry::Geometry;
use crate::log_item::DQUOT_BYTES;
use crate::verify_context::VerifyContext;

/// Magic number of a dquot: "DQ".
#[doc(alias = "XFS_DQUOT_MAGIC")]
pub const DQUOT_MAGIC: u16 = 0x4451;
/// The version of all dquots.
const VERSION: u8 = 1;
/// The bit of the type that says that timers count units of four seconds.
#[doc(alias = "XFS_DQTYPE_BIGTIME")]
const BIGTIME: u8 = 0x80;
/// Number of seconds in a unit of a bigtime timer.
#[doc(alias = "XFS_DQ_BIGTIME_SHIFT")]
const BIGTIME_UNIT_SECONDS: u64 = 4;
/// The last bigtime timer: 2486-07-02.
#[doc(alias = "XFS_DQ_BIGTIME_EXPIRY_MAX")]
const BIGTIME_LAST: u32 = 4_074_815_106;
/// Length of a dquot in a block, in bytes.
#[doc(alias = "xfs_dqblk")]
pub const DQUOT_BLOCK_BYTES: usize = size_of::<DquotDisk>();

bitflags! {
    /// The state of quota, as the superblock stores it.
    #[doc(alias = "sb_qflags")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QuotaFlags: u16 {
        /// The usage of users is counted.
        const USER_ACCOUNTED = 0x0001;
        /// The limits of users are enforced.
        const USER_ENFORCED = 0x0002;
        /// The usage of users was checked, and every later change was counted.
        const USER_CHECKED = 0x0004;
        /// The usage of projects is counted.
        const PROJECT_ACCOUNTED = 0x0008;
        /// On a volume of version 4, the limits of groups or projects are enforced.
        const V4_OTHER_ENFORCED = 0x0010;
        /// On a volume of version 4, the usage of groups or projects was checked. Such a volume has
        /// one quota inode for both.
        #[doc(alias = "XFS_OQUOTA_CHKD")]
        const V4_OTHER_CHECKED = 0x0020;
        /// The usage of groups is counted.
        const GROUP_ACCOUNTED = 0x0040;
        /// The limits of groups are enforced.
        const GROUP_ENFORCED = 0x0080;
        /// The usage of groups was checked, and every later change was counted.
        const GROUP_CHECKED = 0x0100;
        /// The limits of projects are enforced.
        const PROJECT_ENFORCED = 0x0200;
        /// The usage of projects was checked, and every later change was counted.
        const PROJECT_CHECKED = 0x0400;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }
}

impl QuotaFlags {
    /// The flags that say that counts are right. If the flag of a type of quota is not set, a
    /// kernel counts that type again at the next mount with quota.
    #[doc(alias = "XFS_ALL_QUOTA_CHKD")]
    pub const CHECKED: Self = Self::CHECKED_V5.union(Self::V4_OTHER_CHECKED);
    /// The flags in [`CHECKED`](Self::CHECKED) that a v5 volume can have.
    pub const CHECKED_V5: Self =
        Self::USER_CHECKED.union(Self::GROUP_CHECKED).union(Self::PROJECT_CHECKED);

    /// Returns the flags that a volume of a version may have.
    #[must_use]
    pub const fn known(version: FormatVersion) -> Self {
        Self::from_bits_retain(match version {
            FormatVersion::V4 => 0x007f,
            FormatVersion::V5 => 0x07cf,
        })
    }
}

/// The type of owner whose usage a dquot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// A user.
    User,
    /// A group.
    Group,
    /// A project.
    Project,
}

impl QuotaKind {
    /// All types, in the order of the superblock's list of quota inodes.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// Returns the type bits of a dquot on disk.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::User => 1,
            Self::Project => 2,
            Self::Group => 4,
        }
    }

    /// Returns the value of `di_metatype` that marks the quota inode of this type, on a volume with
    /// a metadata directory.
    #[must_use]
    pub const fn metafile_type(self) -> u16 {
        match self {
            Self::User => 2,
            Self::Group => 3,
            Self::Project => 4,
        }
    }

    /// Returns the flag that says that the counts of this type are right, on a volume of this
    /// version.
    #[must_use]
    pub const fn checked_flag(self, version: FormatVersion) -> QuotaFlags {
        match (self, version) {
            (Self::User, _) => QuotaFlags::USER_CHECKED,
            (_, FormatVersion::V4) => QuotaFlags::V4_OTHER_CHECKED,
            (Self::Group, FormatVersion::V5) => QuotaFlags::GROUP_CHECKED,
            (Self::Project, FormatVersion::V5) => QuotaFlags::PROJECT_CHECKED,
        }
    }

    /// Returns the flag that says that the limits of this type are enforced, on a volume of version
    /// 5.
    #[must_use]
    pub const fn enforced_flag(self) -> QuotaFlags {
        match self {
            Self::User => QuotaFlags::USER_ENFORCED,
            Self::Group => QuotaFlags::GROUP_ENFORCED,
            Self::Project => QuotaFlags::PROJECT_ENFORCED,
        }
    }

    /// Returns the flag that says that the usage of this type is counted.
    #[must_use]
    pub const fn accounted_flag(self) -> QuotaFlags {
        match self {
            Self::User => QuotaFlags::USER_ACCOUNTED,
            Self::Group => QuotaFlags::GROUP_ACCOUNTED,
            Self::Project => QuotaFlags::PROJECT_ACCOUNTED,
        }
    }

    /// Returns the word for an owner of this type: "user", "group" or "project".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }

    /// Returns the type that a dquot's type byte names, or `None` if the byte names no type or
    /// several types.
    #[must_use]
    pub fn of_bits(bits: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.bits() == bits & !BIGTIME)
    }
}

/// A dquot on disk, with the fields of version 5.
#[doc(alias = "xfs_dqblk")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram has the fields")]
pub struct DquotDisk {
    pub magic: U16,
    pub version: u8,
    pub kind: u8,
    pub id: U32,
    pub block_hard_limit: U64,
    pub block_soft_limit: U64,
    pub inode_hard_limit: U64,
    pub inode_soft_limit: U64,
    pub blocks: U64,
    pub inodes: U64,
    pub inode_timer: U32,
    pub block_timer: U32,
    pub inode_warnings: U16,
    pub block_warnings: U16,
    pub pad: U32,
    pub realtime_hard_limit: U64,
    pub realtime_soft_limit: U64,
    pub realtime_blocks: U64,
    pub realtime_timer: U32,
    pub realtime_warnings: U16,
    pub pad2: U16,
    pub fill: U32,
    pub crc: [u8; 4],
    pub lsn: U64,
    pub uuid: [u8; 16],
}

const _: () = assert!(size_of::<DquotDisk>() == 136);
const _: () = assert!(offset_of!(DquotDisk, fill) == DQUOT_BYTES);
const _: () = assert!(offset_of!(DquotDisk, crc) == CRC_OFFSET);
const CRC_OFFSET: usize = 108;

/// The place of an owner's dquot in the quota inode of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DquotPlace {
    /// The block of the quota inode.
    pub block: FileBlock,
    /// Index of the dquot in the block.
    pub index: u32,
}

impl DquotPlace {
    /// Returns the block and the index of the dquot of the owner `id` in the quota inode.
    #[must_use]
    pub fn of(id: u32, geometry: &Geometry) -> Self {
        let per_block = dquots_per_block(geometry);
        Self { block: FileBlock(u64::from(id / per_block)), index: id % per_block }
    }

    /// Returns the offset of the dquot in its block, in bytes.
    #[must_use]
    pub fn offset_bytes(self) -> usize {
        self.index as usize * DQUOT_BLOCK_BYTES
    }
}

/// Returns the number of dquots in a block.
#[must_use]
pub fn dquots_per_block(geometry: &Geometry) -> u32 {
    (geometry.block_size / DQUOT_BLOCK_BYTES as u32).max(1)
}

impl DquotDisk {
    /// Returns a dquot with the fields that the log holds. Its other fields are 0.
    #[must_use]
    pub fn from_fields(fields: &[u8; DQUOT_BYTES]) -> Self {
        let mut bytes = [0; DQUOT_BLOCK_BYTES];
        let (start, _) = bytes.split_at_mut(DQUOT_BYTES);
        start.copy_from_slice(fields);
        zerocopy::transmute!(bytes)
    }

    /// Returns a dquot without limits and usage, as in a newly allocated block. Its checksum is not
    /// computed yet.
    #[doc(alias = "xfs_qm_init_dquot_blk")]
    #[must_use]
    pub fn unused(kind: QuotaKind, id: u32, geometry: &Geometry) -> Self {
        let mut dquot = Self::from_fields(&[0; DQUOT_BYTES]);
        dquot.magic = DQUOT_MAGIC.into();
        dquot.version = VERSION;
        dquot.kind = kind.bits();
        if id != 0 && geometry.has_incompat(IncompatFeatures::BIGTIME) {
            dquot.kind |= BIGTIME;
        }
        dquot.id = id.into();
        if geometry.version == FormatVersion::V5 {
            dquot.uuid = *geometry.meta_uuid.as_bytes();
        }
        dquot
    }

    /// Returns the fields that the log holds.
    #[must_use]
    pub fn fields(&self) -> &[u8; DQUOT_BYTES] {
        self.as_bytes().first_chunk().expect("a dquot is longer than its logged fields")
    }

    /// Returns the seconds since 1970 that a timer of this dquot stands for, or for ID 0 the length
    /// of a grace period in seconds. 0: the timer does not run.
    #[must_use]
    pub fn timer_seconds(&self, timer: U32) -> u64 {
        let unit = if self.kind & BIGTIME != 0 { BIGTIME_UNIT_SECONDS } else { 1 };
        u64::from(timer.get()) * unit
    }

    /// Returns the stored form of a timer that ends at `seconds` since 1970. A time outside the
    /// range of the form becomes the nearest time inside. The bigtime form rounds up.
    #[doc(alias = "xfs_dquot_to_disk_ts")]
    #[must_use]
    pub fn timer_of(&self, seconds: u64) -> U32 {
        let is_bigtime = self.kind & BIGTIME != 0;
        let (unit, last) =
            if is_bigtime { (BIGTIME_UNIT_SECONDS, BIGTIME_LAST) } else { (1, u32::MAX) };
        let stored = u32::try_from(seconds.div_ceil(unit)).unwrap_or(last);
        stored.clamp(1, last).into()
    }

    /// Returns whether the dquot holds any limit, usage or timer. Quota queries of programs return
    /// only such dquots.
    #[doc(alias = "XFS_IS_DQUOT_UNINITIALIZED")]
    #[must_use]
    pub fn is_used(&self) -> bool {
        let limits = [
            self.block_hard_limit,
            self.block_soft_limit,
            self.inode_hard_limit,
            self.inode_soft_limit,
            self.realtime_hard_limit,
            self.realtime_soft_limit,
        ];
        let counts = [self.blocks, self.inodes, self.realtime_blocks];
        let timers = [self.inode_timer, self.block_timer, self.realtime_timer];
        limits.iter().chain(&counts).any(|value| value.get() != 0)
            || timers.iter().any(|timer| timer.get() != 0)
    }

    /// Returns the type of owner, or `None` if the type byte names no type or several types.
    #[must_use]
    pub fn quota_kind(&self) -> Option<QuotaKind> {
        QuotaKind::of_bits(self.kind)
    }

    /// Checks the fields that the log also holds: all but checksum, LSN and UUID.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify_fields(&self, geometry: &Geometry) -> Result<QuotaKind, Check> {
        envelope::verify_magic(self.magic.get().into(), DQUOT_MAGIC.into())?;
        let (id, version) = (self.id.get(), self.version);
        if version != VERSION {
            return Err(DquotCheck::Version { id, version }.into());
        }
        let Some(kind) = self.quota_kind() else {
            return Err(DquotCheck::Kind { id, kind: self.kind }.into());
        };
        let has_bigtime = geometry.incompat.contains(IncompatFeatures::BIGTIME);
        if self.kind & BIGTIME != 0 && (!has_bigtime || id == 0) {
            return Err(DquotCheck::Bigtime { id }.into());
        }
        if id != 0 {
            self.verify_timers()?;
        }
        Ok(kind)
    }

    /// Checks that a timer runs for each soft limit that is exceeded.
    fn verify_timers(&self) -> Result<(), Check> {
        let limits = [
            ("blocks", self.blocks, self.block_soft_limit, self.block_timer),
            ("inodes", self.inodes, self.inode_soft_limit, self.inode_timer),
            (
                "realtime blocks",
                self.realtime_blocks,
                self.realtime_soft_limit,
                self.realtime_timer,
            ),
        ];
        for (what, count, limit, timer) in limits {
            let (count, limit) = (count.get(), limit.get());
            if limit != 0 && count > limit && timer.get() == 0 {
                return Err(DquotCheck::Timer { id: self.id.get(), what, count, limit }.into());
            }
        }
        Ok(())
    }

    /// Checks that the dquot belongs to an owner with this ID.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn verify_id(&self, id: u32) -> Result<(), Check> {
        if self.id.get() != id {
            return Err(DquotCheck::Id { id: self.id.get(), expected: id }.into());
        }
        Ok(())
    }

    /// Checks that the dquot belongs to the owner `id` of this type.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify_owner(&self, kind: QuotaKind, id: u32) -> Result<(), Check> {
        self.verify_id(id)?;
        if self.quota_kind() != Some(kind) {
            let (found, expected) = (self.kind, kind.bits());
            return Err(DquotCheck::OtherKind { id, kind: found, expected }.into());
        }
        Ok(())
    }

    /// Checks the checksum, the UUID and the LSN. Dquots of a v4 volume have none of them.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify_seal(&self, context: &VerifyContext<'_>) -> Result<(), Check> {
        if context.geometry.version == FormatVersion::V4 {
            return Ok(());
        }
        envelope::verify_checksum(self.as_bytes(), CRC_OFFSET)?;
        let found = uuid::Uuid::from_bytes(self.uuid);
        if found != context.geometry.meta_uuid {
            return Err(Check::ForeignUuid { found });
        }
        envelope::verify_lsn(Lsn(self.lsn.get()), context)
    }

    /// Returns whether magic number, type and ID are those of the owner `id`, whatever the other
    /// fields hold.
    fn is_of(&self, kind: QuotaKind, id: u32) -> bool {
        self.magic.get() == DQUOT_MAGIC && self.verify_owner(kind, id).is_ok()
    }
}

/// Returns the dquot at an index of a block, or `None` if the block has no such dquot.
#[must_use]
pub fn dquot_at(block: &[u8], index: u32) -> Option<&DquotDisk> {
    let start = (index as usize).checked_mul(DQUOT_BLOCK_BYTES)?;
    DquotDisk::ref_from_prefix(block.get(start..)?).ok().map(|(dquot, _)| dquot)
}

/// Replaces the fields of the dquot at an index of a block by those of a log item. Computes the
/// checksum of the dquot again if the volume has checksums.
///
/// # Panics
///
/// Panics if the block has no such dquot: a mistake of the caller.
pub fn replace_fields(
    block: &mut [u8],
    index: u32,
    fields: &[u8; DQUOT_BYTES],
    version: FormatVersion,
) {
    let start = index as usize * DQUOT_BLOCK_BYTES;
    let dquot = block.get_mut(start..start + DQUOT_BLOCK_BYTES).expect("the block has the dquot");
    dquot.get_mut(..DQUOT_BYTES).expect("a dquot has its fields").copy_from_slice(fields);
    if version == FormatVersion::V5 {
        crc::seal(dquot, CRC_OFFSET);
    }
}

/// Stores a dquot (`fields`) and its LSN at an index of a block of a v5 volume, and computes the
/// checksum of the dquot.
///
/// # Panics
///
/// Panics if the block has no such dquot: a mistake of the caller.
pub fn write_in_place(block: &mut [u8], index: u32, fields: &[u8; DQUOT_BYTES], lsn: Lsn) {
    let start = index as usize * DQUOT_BLOCK_BYTES;
    let bytes = block.get_mut(start..start + DQUOT_BLOCK_BYTES).expect("the block has the dquot");
    let (dquot, _) = DquotDisk::mut_from_prefix(bytes).expect("the range has a dquot's length");
    dquot.lsn = lsn.0.into();
    replace_fields(block, index, fields, FormatVersion::V5);
}

/// Fills a block with dquots that have no limits and no usage. `first` is the ID of the first one.
/// IDs that do not fit in 32 bits wrap around, as in the kernel.
pub fn fill_block(block: &mut [u8], kind: QuotaKind, first: u32, geometry: &Geometry) {
    block.fill(0);
    for (bytes, index) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(0..) {
        let dquot = DquotDisk::unused(kind, first.wrapping_add(index), geometry);
        bytes.copy_from_slice(dquot.as_bytes());
    }
    if geometry.version == FormatVersion::V5 {
        seal_block(block);
    }
}

/// Fills a block with dquots as [`fill_block`] does, but keeps the fields of each old dquot that
/// passes its own checks. So if a write tore one dquot, only one owner loses its limits. The kept
/// dquots get the LSN 0.
pub fn rebuild_block(block: &mut [u8], kind: QuotaKind, first: u32, geometry: &Geometry) {
    let context = VerifyContext { geometry, log_head: None };
    for (bytes, index) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(0..) {
        let id = first.wrapping_add(index);
        let (dquot, _) = DquotDisk::mut_from_prefix(bytes).expect("a chunk has a dquot's length");
        let is_sound = dquot.is_of(kind, id)
            && dquot.verify_fields(geometry).is_ok()
            && dquot.verify_seal(&context).is_ok();
        if is_sound {
            dquot.lsn = 0.into();
        } else {
            *dquot = DquotDisk::unused(kind, id, geometry);
        }
    }
    let length = block.len();
    let rest = block.get_mut(length - length % DQUOT_BLOCK_BYTES..);
    rest.expect("the rest lies inside the block").fill(0);
    if geometry.version == FormatVersion::V5 {
        seal_block(block);
    }
}

/// Returns whether a block has dquots in all its places, each with the magic number, the type and
/// the ID that its place implies. `first` is the ID of the first place. Other fields may be
/// damaged, for example by a torn write, which never changes these three fields.
#[must_use]
pub fn has_all_owners(block: &[u8], kind: QuotaKind, first: u32) -> bool {
    owners(block, kind, first).all(|is_owner| is_owner)
}

/// Returns whether a damaged block may have been a block of dquots of this type. This is so if it
/// holds only zeros, or if at least one dquot has the magic number, type and ID that belong in its
/// place. `first` is the ID of the first place.
#[must_use]
pub fn may_have_been_dquots(block: &[u8], kind: QuotaKind, first: u32) -> bool {
    block.iter().all(|byte| *byte == 0) || owners(block, kind, first).any(|is_owner| is_owner)
}

/// Returns for each place of a block whether its dquot belongs to the owner that the place implies.
fn owners(block: &[u8], kind: QuotaKind, first: u32) -> impl Iterator<Item = bool> {
    block.chunks_exact(DQUOT_BLOCK_BYTES).zip(0..).map(move |(bytes, index)| {
        let dquot = dquot_at(bytes, 0).expect("a chunk has a dquot's length");
        dquot.is_of(kind, first.wrapping_add(index))
    })
}

/// Computes the checksum of each dquot of a block.
pub fn seal_block(block: &mut [u8]) {
    for dquot in block.chunks_exact_mut(DQUOT_BLOCK_BYTES) {
        crc::seal(dquot, CRC_OFFSET);
    }
}

/// Checks a block of dquots: each dquot by itself, one type for all, and consecutive IDs.
pub(crate) fn verify(bytes: &[u8], _: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    let geometry = context.geometry;
    let mut first = None;
    for index in 0..dquots_per_block(geometry) {
        let needed = (index as usize + 1) * DQUOT_BLOCK_BYTES;
        let dquot = dquot_at(bytes, index).ok_or(envelope::truncated(bytes, needed))?;
        let kind = dquot.verify_fields(geometry)?;
        let (first_kind, first_id) = *first.get_or_insert((kind, dquot.id.get()));
        dquot.verify_owner(first_kind, first_id.wrapping_add(index))?;
        dquot.verify_seal(context)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
