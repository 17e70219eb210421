//! Inode (`xfs_dinode`): the 176-byte core, its checks, and where the forks lie.
//!
//! Owns: the core in both forms, the type and flag words, and every check that an inode can make on
//! its own bytes. Does **not** own what is in the forks: extents are in [`extent`](crate::extent),
//! directories and attributes in modules of their own.
//!
//! ```text
//! 0             176             176 + 8·fork_offset        inode size
//! |    core     |   data fork   |      attribute fork      |
//! ```
//!
//! With a fork offset of 0 there is no attribute fork, and the data fork goes to the end.
//!
//! # Invariants
//!
//! - **I1** [`InodeCore::decode`] reads fields and knows the format words; nothing else is believed
//!   until [`InodeCore::verify`] has passed. It allocates nothing: a scan decodes millions of
//!   inodes.
//! - **I2** Mode 0 is a free inode. Its core is valid, and of its forks nothing is looked at.

mod disk;
mod encode;
mod flags;
mod verify;

pub use disk::InodeDisk;
pub use encode::encode_free;
pub use flags::{ExtendedFlags, InodeFlags, InodeFlags2};
pub use verify::{InodeCheck, verify_checksum};

use core::mem::{offset_of, size_of};

use zerocopy::FromBytes;

use crate::addr::{AgInode, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::crc;
use crate::geometry::Geometry;
use crate::timestamp::Timestamp;

/// "IN".
pub const INODE_MAGIC: u16 = 0x494e;
/// The version of the core that a v5 volume has.
pub const INODE_VERSION: u8 = 3;
/// Bytes of the core; the forks follow.
pub const CORE_BYTES: usize = size_of::<InodeDisk>();
/// Offset of the checksum inside the inode.
pub const CRC_OFFSET: usize = offset_of!(InodeDisk, crc);
/// Unit of the fork offset in bytes.
pub const FORK_OFFSET_BYTES: usize = 8;

/// What kind of file an inode is, by the type bits of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// Named pipe.
    Fifo,
    /// Character device.
    CharDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl FileType {
    /// The type in `mode`, or `None` where its type bits mean nothing.
    #[doc(alias = "S_IFMT")]
    #[must_use]
    pub const fn from_mode(mode: u16) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::Regular),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }

    /// The type bits of a mode.
    #[must_use]
    pub const fn mode_bits(self) -> u16 {
        let bits = match self {
            Self::Fifo => 0o01,
            Self::CharDevice => 0o02,
            Self::Directory => 0o04,
            Self::BlockDevice => 0o06,
            Self::Regular => 0o10,
            Self::Symlink => 0o12,
            Self::Socket => 0o14,
        };
        bits << 12
    }

    /// Returns whether it has a device number.
    #[must_use]
    pub const fn is_device(self) -> bool {
        matches!(self, Self::CharDevice | Self::BlockDevice)
    }
}

/// How a fork stores what it holds.
#[doc(alias = "xfs_dinode_fmt")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForkFormat {
    /// A device number; also the format of pipes and sockets, which have none.
    Device,
    /// The bytes themselves: a short directory, a short target, short attributes.
    Local,
    /// An array of extent records.
    Extents,
    /// The root of a btree of extent records.
    Btree,
    /// Never used by XFS on Linux.
    Uuid,
    /// The root of a btree of something else: metadata inodes of the realtime section.
    #[doc(alias = "XFS_DINODE_FMT_META_BTREE")]
    MetadataBtree,
}

impl ForkFormat {
    /// The format that this byte stands for.
    #[must_use]
    pub const fn decode(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Device),
            1 => Some(Self::Local),
            2 => Some(Self::Extents),
            3 => Some(Self::Btree),
            4 => Some(Self::Uuid),
            5 => Some(Self::MetadataBtree),
            _ => None,
        }
    }

    /// The byte that stands for this format.
    #[must_use]
    pub const fn encode(self) -> u8 {
        self as u8
    }
}

/// One of the two forks of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForkKind {
    /// What the file holds.
    Data,
    /// Its extended attributes.
    Attr,
}

/// The number of a device, as XFS packs it: major << 18 | minor.
#[doc(alias = "xfs_dev_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// At most 14 bits.
    pub major: u32,
    /// At most 18 bits.
    pub minor: u32,
}

impl DeviceNumber {
    const MINOR_BITS: u32 = 18;

    /// Unpacks.
    #[must_use]
    pub const fn decode(raw: u32) -> Self {
        Self { major: raw >> Self::MINOR_BITS, minor: raw & ((1 << Self::MINOR_BITS) - 1) }
    }

    /// Packs, or `None` where a part does not fit.
    #[must_use]
    pub const fn encode(self) -> Option<u32> {
        if self.minor >> Self::MINOR_BITS == 0 && self.major >> (32 - Self::MINOR_BITS) == 0 {
            Some((self.major << Self::MINOR_BITS) | self.minor)
        } else {
            None
        }
    }
}

/// The core of an inode in memory.
#[doc(alias = "xfs_dinode")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeCore {
    /// The number under which it was read; [`verify`](Self::verify) compares it with the stored
    /// one.
    pub number: InodeNumber,
    /// Type and permissions; 0 in a free inode.
    pub mode: u16,
    /// Format of the data fork.
    pub data_format: ForkFormat,
    /// Format of the attribute fork; means nothing without one.
    pub attr_format: ForkFormat,
    /// Where the attribute fork starts, in units of 8 bytes after the core; 0 without one.
    #[doc(alias = "di_forkoff")]
    pub fork_offset: u8,
    /// Kind of metadata inode, where the flag [`METADATA`](InodeFlags2::METADATA) is on; else 0.
    #[doc(alias = "di_metatype")]
    pub metafile_type: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Directory entries that point here; 0 for an unlinked file that is still open.
    pub nlink: u32,
    /// Project.
    #[doc(alias = "projid")]
    pub project_id: u32,
    /// Last read.
    #[doc(alias = "atime")]
    pub access_time: Timestamp,
    /// Last change of the contents.
    #[doc(alias = "mtime")]
    pub modify_time: Timestamp,
    /// Last change of the inode.
    #[doc(alias = "ctime")]
    pub change_time: Timestamp,
    /// When the inode was made.
    #[doc(alias = "crtime")]
    #[doc(alias = "btime")]
    pub birth_time: Timestamp,
    /// Bytes of the file, of the target, or of a directory's data blocks.
    pub size: u64,
    /// Filesystem blocks of both forks, their btree blocks included.
    #[doc(alias = "di_nblocks")]
    pub blocks: u64,
    /// Allocation hint in blocks; means something with `EXTSIZE` or `EXTSZINHERIT`.
    #[doc(alias = "di_extsize")]
    pub extent_size_hint_blocks: u32,
    /// The same for copies of shared blocks, with `COWEXTSIZE`. On a zoned volume's metadata inodes
    /// it counts used blocks instead.
    #[doc(alias = "di_cowextsize")]
    pub cow_extent_size_hint_blocks: u32,
    /// Extent records of the data fork.
    #[doc(alias = "di_nextents")]
    pub extents: u64,
    /// Extent records of the attribute fork.
    #[doc(alias = "di_anextents")]
    pub attr_extents: u32,
    /// Flags.
    pub flags: InodeFlags,
    /// More flags.
    pub flags2: InodeFlags2,
    /// Changes whenever the number is used for another file.
    pub generation: u32,
    /// The next inode of the same list of unlinked files; null outside such a list.
    pub next_unlinked: AgInode,
    /// Counts changes.
    #[doc(alias = "i_version")]
    pub change_count: u64,
    /// LSN of the last write of this inode.
    pub lsn: Lsn,
    /// Device number of a device file.
    pub rdev: Option<DeviceNumber>,
}

impl InodeCore {
    /// Reads the fields of the inode in `bytes`, which is `number`.
    ///
    /// Cheap, and structural only: length, magic and the format words. See
    /// [`verify`](Self::verify).
    ///
    /// # Errors
    ///
    /// [`Corruption`] for bytes that are no inode.
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
        let Some((disk, forks)) = bytes.get(..needed).and_then(split_core) else {
            return Err(corrupt(Check::Truncated { available: bytes.len(), needed }));
        };
        if disk.magic.get() != INODE_MAGIC {
            let (found, expected) = (disk.magic.get().into(), INODE_MAGIC.into());
            return Err(corrupt(Check::Magic { found, expected }));
        }
        Self::from_disk(disk, forks, number).map_err(|check| corrupt(check.into()))
    }

    #[inline]
    fn from_disk(disk: &InodeDisk, forks: &[u8], number: InodeNumber) -> Result<Self, InodeCheck> {
        let format = |raw| ForkFormat::decode(raw).ok_or(InodeCheck::UnknownFormat { raw });
        let flags2 = InodeFlags2::from_bits_retain(disk.flags2.get());
        let time = |raw: u64| {
            if flags2.contains(InodeFlags2::BIGTIME) {
                Timestamp::decode_bigtime(raw)
            } else {
                Timestamp::decode_legacy(raw)
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

    /// What kind of file it is; `None` for a free inode (and for a mode that means nothing, which
    /// [`verify`](Self::verify) refuses).
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Returns whether no file uses this inode.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.mode == 0
    }

    /// Returns whether there is an attribute fork, if only an empty one.
    #[must_use]
    pub const fn has_attr_fork(&self) -> bool {
        self.fork_offset != 0
    }

    /// Returns whether the data is on the realtime device or section.
    #[must_use]
    pub const fn is_realtime(&self) -> bool {
        self.flags.contains(InodeFlags::REALTIME)
    }

    /// The format of a fork; `None` for an attribute fork that does not exist.
    #[must_use]
    pub const fn fork_format(&self, kind: ForkKind) -> Option<ForkFormat> {
        match kind {
            ForkKind::Data => Some(self.data_format),
            ForkKind::Attr if self.has_attr_fork() => Some(self.attr_format),
            ForkKind::Attr => None,
        }
    }

    /// How many extent records a fork has.
    #[must_use]
    pub const fn fork_extents(&self, kind: ForkKind) -> u64 {
        match kind {
            ForkKind::Data => self.extents,
            ForkKind::Attr => self.attr_extents as u64,
        }
    }

    /// Returns whether a directory has a hint that is not in whole extents of the realtime device,
    /// and hands both on. Older kernels let it be set, and xfs_repair complains of it; newer ones
    /// show it as no hint, and take it away when they change the directory.
    #[must_use]
    pub fn has_misfit_hint(&self, geometry: &Geometry) -> bool {
        self.flags.contains(InodeFlags::EXTSZINHERIT)
            && self.is_misfit(self.extent_size_hint_blocks, geometry)
    }

    /// The same of the hint for copies, which newer kernels let be set too, and take away at once.
    #[must_use]
    pub fn has_misfit_copy_hint(&self, geometry: &Geometry) -> bool {
        self.flags2.contains(InodeFlags2::COWEXTSIZE)
            && self.is_misfit(self.cow_extent_size_hint_blocks, geometry)
    }

    fn is_misfit(&self, hint_blocks: u32, geometry: &Geometry) -> bool {
        let extent_blocks = geometry.realtime_extent_blocks.max(1);
        self.flags.contains(InodeFlags::RTINHERIT) && !hint_blocks.is_multiple_of(extent_blocks)
    }

    /// Takes away hints that do not fit.
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

    /// The flags as the call `FS_IOC_FSGETXATTR` shows them.
    #[must_use]
    pub fn xflags(&self) -> ExtendedFlags {
        let flags = ExtendedFlags::from_inode(self.flags, self.flags2);
        if self.has_attr_fork() { flags | ExtendedFlags::HAS_ATTR } else { flags }
    }
}

/// The bytes of a fork inside the inode in `bytes`, empty where it has no room at all.
///
/// `bytes` is the whole inode, from which `core` was decoded.
#[must_use]
pub fn fork<'a>(bytes: &'a [u8], core: &InodeCore, kind: ForkKind) -> &'a [u8] {
    let literal = bytes.get(CORE_BYTES..).unwrap_or_default();
    let middle = usize::from(core.fork_offset) * FORK_OFFSET_BYTES;
    match kind {
        ForkKind::Data if !core.has_attr_fork() => literal,
        ForkKind::Data => literal.get(..middle).unwrap_or(literal),
        ForkKind::Attr if !core.has_attr_fork() => &[],
        ForkKind::Attr => literal.get(middle..).unwrap_or_default(),
    }
}

/// Stores LSN and checksum before an inode is written. `bytes` is the whole inode.
///
/// # Panics
///
/// If `bytes` is shorter than the core.
pub fn seal(bytes: &mut [u8], lsn: Lsn) {
    match InodeDisk::mut_from_prefix(bytes) {
        Ok((disk, _)) => disk.lsn = lsn.0.into(),
        Err(_) => unreachable!("an inode holds its core"),
    }
    crc::seal(bytes, CRC_OFFSET);
}

fn split_core(bytes: &[u8]) -> Option<(&InodeDisk, &[u8])> {
    InodeDisk::ref_from_prefix(bytes).ok()
}

fn decode_device(forks: &[u8]) -> Option<DeviceNumber> {
    let (raw, _) = zerocopy::big_endian::U32::ref_from_prefix(forks).ok()?;
    Some(DeviceNumber::decode(raw.get()))
}

#[cfg(test)]
mod tests;
