//! Inode (`xfs_dinode`): the core, its checks, and the location of the forks.
//!
//! Owns: the core in both forms, the type and flag words, and every check of an inode against its
//! own bytes. Does **not** own the contents of the forks: extents are in [`extent`](crate::extent),
//! and directories and attributes have their own modules.
//!
//! ```text
//! 0             176             176 + 8·fork_offset        inode size
//! |    core     |   data fork   |      attribute fork      |
//! ```
//!
//! With a fork offset of 0 there is no attribute fork, and the data fork extends to the end.
//!
//! On a v4 volume the core ends at byte 100: it has no checksum and none of the fields after the
//! checksum. Inodes of version 1 have a 16-bit link count in another place and no project.
//!
//! # Invariants
//!
//! - **I1** [`InodeCore::decode`] reads the fields and checks only the format words. The caller
//!   must not trust the other values before [`InodeCore::verify`] has passed. Decoding allocates
//!   nothing, because a scan decodes millions of inodes.
//! - **I2** An inode with mode 0 is free. The core of a free inode is valid, and its forks are not
//!   read.

mod disk;
mod encode;
pub(crate) mod flags;
pub(crate) mod kinds;
mod verify;

pub use crate::checks::inode::InodeCheck;
pub use disk::InodeDisk;
pub use encode::encode_free;
pub use flags::{ExtendedFlags, InodeFlags, InodeFlags2, METADATA_FLAGS};
pub use kinds::{FileType, ForkFormat, ForkKind};
pub use verify::verify_checksum;

use core::mem::{offset_of, size_of};

use zerocopy::FromBytes;
use zerocopy::big_endian::U32;

use crate::addr::{AgInode, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::crc;
use crate::features::{FormatVersion, ProjectIds};
use crate::geometry::Geometry;
use crate::timestamp::{self, Timestamp};

/// Magic number of an inode: "IN".
pub const INODE_MAGIC: u16 = 0x494e;
/// The version of the core of inodes on a v5 volume.
pub const INODE_VERSION: u8 = 3;
/// The version of the core of old inodes on a v4 volume, with a 16-bit link count. All other inodes
/// of a v4 volume have version 2.
const INODE_VERSION_1: u8 = 1;
/// Length in bytes of the core of an inode on a v5 volume. The forks follow the core.
pub const CORE_BYTES: usize = size_of::<InodeDisk>();
/// Length in bytes of the core of an inode on a v4 volume.
pub const CORE_BYTES_V4: usize = offset_of!(InodeDisk, crc);
/// Offset of the checksum inside the inode.
pub const CRC_OFFSET: usize = offset_of!(InodeDisk, crc);
/// Unit of the fork offset, in bytes.
pub const FORK_OFFSET_BYTES: usize = 8;

/// A device number. XFS packs it as major << 18 | minor.
///
/// Not `#[non_exhaustive]`: a device number has no other parts.
#[doc(alias = "xfs_dev_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The major number, of at most 14 bits.
    pub major: u32,
    /// The minor number, of at most 18 bits.
    pub minor: u32,
}

/// Number of bits of the minor number in a packed device number.
const MINOR_BITS: u32 = 18;

/// Decodes a device number as XFS packs it.
#[must_use]
pub const fn unpack_device(raw: u32) -> DeviceNumber {
    DeviceNumber { major: raw >> MINOR_BITS, minor: raw & ((1 << MINOR_BITS) - 1) }
}

/// Encodes a device number as XFS packs it. Returns `None` if a part has too many bits.
#[must_use]
pub const fn pack_device(device: DeviceNumber) -> Option<u32> {
    if device.minor >> MINOR_BITS == 0 && device.major >> (32 - MINOR_BITS) == 0 {
        Some((device.major << MINOR_BITS) | device.minor)
    } else {
        None
    }
}

/// The core of an inode in memory.
#[doc(alias = "xfs_dinode")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeCore {
    /// The inode number under which the inode was read. [`verify`](Self::verify) compares it with
    /// the stored number.
    pub number: InodeNumber,
    /// Type and permissions; 0 in a free inode.
    pub mode: u16,
    /// Format of the data fork.
    pub data_format: ForkFormat,
    /// Format of the attribute fork. The field has no meaning if there is no attribute fork.
    pub attr_format: ForkFormat,
    /// Start of the attribute fork, in units of 8 bytes after the core; 0 without an attribute
    /// fork.
    #[doc(alias = "di_forkoff")]
    pub fork_offset: u8,
    /// Kind of metadata inode if the flag [`METADATA`](InodeFlags2::METADATA) is set, else 0.
    #[doc(alias = "di_metatype")]
    pub metafile_type: u16,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID of the file.
    pub gid: u32,
    /// Number of directory entries that name the inode; 0 for an unlinked file that is still open.
    pub nlink: u32,
    /// Project ID of the inode.
    #[doc(alias = "projid")]
    pub project_id: u32,
    /// Time of the last read.
    #[doc(alias = "atime")]
    pub access_time: Timestamp,
    /// Time of the last change of the contents.
    #[doc(alias = "mtime")]
    pub modify_time: Timestamp,
    /// Time of the last change of the inode.
    #[doc(alias = "ctime")]
    pub change_time: Timestamp,
    /// Time when the inode was created.
    #[doc(alias = "crtime")]
    #[doc(alias = "btime")]
    pub birth_time: Timestamp,
    /// Length in bytes of the file's contents, of the link target, or of a directory's data blocks.
    pub size: u64,
    /// Number of filesystem blocks of both forks, including the forks' btree blocks.
    #[doc(alias = "di_nblocks")]
    pub blocks: u64,
    /// Extent size hint in blocks. It is valid if the flag `EXTSIZE` or `EXTSZINHERIT` is set.
    #[doc(alias = "di_extsize")]
    pub extent_size_hint_blocks: u32,
    /// Extent size hint for copies of shared blocks, in blocks. It is valid if the flag
    /// `COWEXTSIZE` is set. In metadata inodes of a zoned volume the field counts used blocks
    /// instead.
    #[doc(alias = "di_cowextsize")]
    pub cow_extent_size_hint_blocks: u32,
    /// Number of extent records of the data fork.
    #[doc(alias = "di_nextents")]
    pub extents: u64,
    /// Number of extent records of the attribute fork.
    #[doc(alias = "di_anextents")]
    pub attr_extents: u32,
    /// The flags of the word `di_flags`.
    pub flags: InodeFlags,
    /// The flags of the word `di_flags2`.
    pub flags2: InodeFlags2,
    /// The generation. It changes whenever the inode number is reused for another file.
    pub generation: u32,
    /// The next inode of the same unlinked list; null if there is none.
    pub next_unlinked: AgInode,
    /// Number of changes of the inode.
    #[doc(alias = "i_version")]
    pub change_count: u64,
    /// LSN of the last logged change of the inode.
    pub lsn: Lsn,
    /// Device number of a device file; `None` for other files.
    pub rdev: Option<DeviceNumber>,
}

impl InodeCore {
    /// Decodes the inode `number` in `bytes`.
    ///
    /// Decoding is cheap and checks only length, magic number and format words (I1).
    /// See [`verify`](Self::verify).
    ///
    /// # Errors
    ///
    /// Returns a [`Corruption`] if `bytes` is not an inode.
    #[inline]
    pub fn decode(
        bytes: &[u8],
        number: InodeNumber,
        geometry: &Geometry,
    ) -> Result<Self, Corruption> {
        let corrupt = |check: Check| {
            Corruption::new(Structure::Inode, StructureAddress::Inode(number), check)
        };
        let needed = geometry.inode_size as usize;
        let Some((disk, rest)) = bytes.get(..needed).and_then(split_core) else {
            return Err(corrupt(Check::Truncated { available: bytes.len(), needed }));
        };
        // I1: of the values, only magic number and format words are checked here.
        if disk.magic.get() != INODE_MAGIC {
            let (found, expected) = (disk.magic.get().into(), INODE_MAGIC.into());
            return Err(corrupt(Check::Magic { found, expected }));
        }
        let decoded = match geometry.version {
            FormatVersion::V5 => Self::from_disk(disk, rest, number),
            FormatVersion::V4 => Self::from_disk_v4(disk, bytes, geometry, number),
        };
        decoded.map_err(|check| corrupt(check.into()))
    }

    /// Decodes an inode of a v4 volume, whose core has fewer fields. The fields that the core lacks
    /// get the values that they have in a new inode.
    #[cold]
    fn from_disk_v4(
        disk: &InodeDisk,
        bytes: &[u8],
        geometry: &Geometry,
        number: InodeNumber,
    ) -> Result<Self, InodeCheck> {
        let is_version_1 = disk.version == INODE_VERSION_1;
        let has_project_high = geometry.project_ids == ProjectIds::Bits32;
        let disk = InodeDisk {
            // A v1 inode has its link count elsewhere, and no project.
            old_nlink: 0.into(),
            nlink: if is_version_1 { U32::from(disk.old_nlink) } else { disk.nlink },
            project_id_low: if is_version_1 { 0.into() } else { disk.project_id_low },
            project_id_high: if is_version_1 || !has_project_high {
                0.into()
            } else {
                disk.project_id_high
            },
            big_extents: 0.into(),
            change_count: 0.into(),
            lsn: 0.into(),
            flags2: 0.into(),
            cow_extent_size_hint: 0.into(),
            birth_time: 0.into(),
            ..*disk
        };
        Self::from_disk(&disk, bytes.get(CORE_BYTES_V4..).unwrap_or_default(), number)
    }

    #[inline]
    fn from_disk(disk: &InodeDisk, forks: &[u8], number: InodeNumber) -> Result<Self, InodeCheck> {
        let format = |raw| ForkFormat::decode(raw).ok_or(InodeCheck::UnknownFormat { raw });
        let flags2 = InodeFlags2::from_bits_retain(disk.flags2.get());
        let time = |raw: u64| {
            if flags2.contains(InodeFlags2::BIGTIME) {
                timestamp::decode_bigtime(raw)
            } else {
                timestamp::decode_legacy(raw)
            }
        };
        let mode = disk.mode.get();
        let (extents, attr_extents) = disk.extent_counts();
        let is_metadata = flags2.contains(InodeFlags2::METADATA);
        let device = FileType::from_mode(mode).filter(|kind| kind.is_device());
        Ok(Self {
            number,
            mode,
            data_format: format(disk.data_format)?,
            attr_format: format(disk.attr_format)?,
            fork_offset: disk.fork_offset,
            metafile_type: if is_metadata { disk.old_nlink.get() } else { 0 },
            uid: disk.uid.get(),
            gid: disk.gid.get(),
            nlink: disk.nlink.get(),
            project_id: (u32::from(disk.project_id_high.get()) << 16)
                | u32::from(disk.project_id_low.get()),
            access_time: time(disk.access_time.get()),
            modify_time: time(disk.modify_time.get()),
            change_time: time(disk.change_time.get()),
            birth_time: time(disk.birth_time.get()),
            size: disk.size.get(),
            blocks: disk.blocks.get(),
            extent_size_hint_blocks: disk.extent_size_hint.get(),
            cow_extent_size_hint_blocks: disk.cow_extent_size_hint.get(),
            extents,
            attr_extents,
            flags: InodeFlags::from_bits_retain(disk.flags.get()),
            flags2,
            generation: disk.generation.get(),
            next_unlinked: AgInode(disk.next_unlinked.get()),
            change_count: disk.change_count.get(),
            lsn: Lsn(disk.lsn.get()),
            rdev: device.and_then(|_| decode_device(forks)),
        })
    }

    /// Returns the type of the file. Returns `None` for a free inode, and for an unknown type,
    /// which [`verify`](Self::verify) refuses.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Returns whether the inode is free.
    #[inline]
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.mode == 0
    }

    /// Returns whether the inode has an attribute fork, which may be empty.
    #[must_use]
    pub const fn has_attr_fork(&self) -> bool {
        self.fork_offset != 0
    }

    /// Returns whether the file's data is on the realtime device or section.
    #[must_use]
    pub const fn is_realtime(&self) -> bool {
        self.flags.contains(InodeFlags::REALTIME)
    }

    /// Returns the format of a fork, or `None` if the fork does not exist.
    #[must_use]
    pub const fn fork_format(&self, kind: ForkKind) -> Option<ForkFormat> {
        match kind {
            ForkKind::Data => Some(self.data_format),
            ForkKind::Attr if self.has_attr_fork() => Some(self.attr_format),
            ForkKind::Attr => None,
        }
    }

    /// Returns the number of extent records of a fork.
    #[must_use]
    pub const fn fork_extents(&self, kind: ForkKind) -> u64 {
        match kind {
            ForkKind::Data => self.extents,
            ForkKind::Attr => self.attr_extents as u64,
        }
    }

    /// Returns whether new files in a directory would inherit an invalid extent size hint. The hint
    /// is invalid if they also inherit the realtime flag and it is not a multiple of the realtime
    /// extent size.
    ///
    /// Older kernels allowed such hints and xfs_repair complains about them. Newer kernels hide
    /// such a hint from programs, and remove it at the next change of the directory.
    #[must_use]
    pub fn has_misfit_hint(&self, geometry: &Geometry) -> bool {
        self.flags.contains(InodeFlags::EXTSZINHERIT)
            && self.is_misfit(self.extent_size_hint_blocks, geometry)
    }

    /// Returns whether new files in a directory would inherit an invalid extent size hint for
    /// copy-on-write. The hint is invalid if they also inherit the realtime flag and it is not a
    /// multiple of the realtime extent size. Newer kernels also accept such a hint, but remove it
    /// at once.
    #[must_use]
    pub fn has_misfit_copy_hint(&self, geometry: &Geometry) -> bool {
        self.flags2.contains(InodeFlags2::COWEXTSIZE)
            && self.is_misfit(self.cow_extent_size_hint_blocks, geometry)
    }

    fn is_misfit(&self, hint_blocks: u32, geometry: &Geometry) -> bool {
        let extent_blocks = geometry.realtime_extent_blocks.max(1);
        self.flags.contains(InodeFlags::RTINHERIT) && !hint_blocks.is_multiple_of(extent_blocks)
    }

    /// Removes the extent size hint if [`has_misfit_hint`](Self::has_misfit_hint) returns `true`,
    /// and the extent size hint for copy-on-write if `has_misfit_copy_hint` does.
    pub fn drop_misfit_hints(&mut self, geometry: &Geometry) {
        if self.has_misfit_hint(geometry) {
            self.flags -= InodeFlags::EXTSZINHERIT;
            self.extent_size_hint_blocks = 0;
        }
        if self.has_misfit_copy_hint(geometry) {
            self.flags2 -= InodeFlags2::COWEXTSIZE;
            self.cow_extent_size_hint_blocks = 0;
        }
    }

    /// Returns the flags as `FS_IOC_FSGETXATTR` shows them.
    #[must_use]
    pub fn xflags(&self) -> ExtendedFlags {
        let flags = ExtendedFlags::from_inode(self.flags, self.flags2);
        if self.has_attr_fork() { flags | ExtendedFlags::HAS_ATTR } else { flags }
    }
}

/// Returns the bytes of a fork of the inode in `bytes`, or no bytes if the fork has no space.
///
/// `bytes` is the whole inode, from which `core` was decoded.
#[must_use]
pub fn fork<'a>(bytes: &'a [u8], core: &InodeCore, kind: ForkKind) -> &'a [u8] {
    fork_after(core_bytes(bytes), bytes, core, kind)
}

/// Returns the bytes of a fork as [`fork`] does, but for an inode that may be damaged. The caller
/// passes the length that cores have on the volume, because the version in the inode may be wrong.
#[must_use]
pub fn fork_after<'a>(
    core_bytes: usize,
    bytes: &'a [u8],
    core: &InodeCore,
    kind: ForkKind,
) -> &'a [u8] {
    let literal = bytes.get(core_bytes..).unwrap_or_default();
    let middle = usize::from(core.fork_offset) * FORK_OFFSET_BYTES;
    match kind {
        ForkKind::Data if !core.has_attr_fork() => literal,
        ForkKind::Data => literal.get(..middle).unwrap_or(literal),
        ForkKind::Attr if !core.has_attr_fork() => &[],
        ForkKind::Attr => literal.get(middle..).unwrap_or_default(),
    }
}

/// Returns the length of the core of the inode in `bytes`, which follows from the inode's own
/// version. The verifier has compared this version with that of the volume.
#[must_use]
pub fn core_bytes(bytes: &[u8]) -> usize {
    match bytes.get(offset_of!(InodeDisk, version)) {
        Some(1 | 2) => CORE_BYTES_V4,
        _ => CORE_BYTES,
    }
}

/// Stores LSN and checksum in an inode before it is written. `bytes` is the whole inode.
///
/// # Panics
///
/// Panics if `bytes` is shorter than the core.
pub fn seal(bytes: &mut [u8], lsn: Lsn) {
    match InodeDisk::mut_from_prefix(bytes) {
        Ok((disk, _)) => disk.lsn = lsn.0.into(),
        Err(_) => unreachable!("the inode is as long as its core"),
    }
    crc::seal(bytes, CRC_OFFSET);
}

/// The contents that a free inode keeps for the file that takes its number next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeInode {
    /// The generation. No file with this inode number has had it.
    pub generation: u32,
    /// The link of the unlinked list, which is not part of the contents of the inode.
    pub next_unlinked: AgInode,
    /// LSN of the last logged change of the inode.
    pub lsn: Lsn,
}

impl FreeInode {
    /// Returns the contents that the core of a free inode keeps. Returns `None` if the inode is in
    /// use.
    #[must_use]
    pub fn of_core(core: &InodeCore) -> Option<Self> {
        let InodeCore { generation, next_unlinked, lsn, .. } = *core;
        core.is_free().then_some(Self { generation, next_unlinked, lsn })
    }
}

fn split_core(bytes: &[u8]) -> Option<(&InodeDisk, &[u8])> {
    InodeDisk::ref_from_prefix(bytes).ok()
}

fn decode_device(forks: &[u8]) -> Option<DeviceNumber> {
    let (raw, _) = U32::ref_from_prefix(forks).ok()?;
    Some(unpack_device(raw.get()))
}

#[cfg(test)]
mod tests;
