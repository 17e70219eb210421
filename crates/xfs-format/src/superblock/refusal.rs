//! Decides whether ferroxfs supports an access to a volume, by the volume's features. Each reason
//! for a refusal has a name.

use super::{Superblock, SuperblockDisk};
use crate::features::{
    FormatVersion, IncompatFeatures, LogIncompatFeatures, RoCompatFeatures, VersionFlags,
};

/// A kind of access to a volume. The features of the volume decide whether ferroxfs supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAccess {
    /// Reads and describes the superblock and the headers.
    Describe,
    /// Reads files and metadata.
    Read,
    /// Changes the volume.
    Write,
    /// Replays the log of the volume onto its devices.
    Recover,
    /// Replays the log of the volume in memory, to read the volume.
    Replay,
}

/// A feature, or a kind of volume, that ferroxfs does not handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A volume of version 1, 2 or 3, which Linux never supported.
    #[error("this is an XFS version {version} volume; only versions 4 and 5 are supported")]
    Version {
        /// The version nibble.
        version: u16,
    },
    /// The volume has no checksums, as volumes that mkfs.xfs made before 2015 or with `-m crc=0`.
    /// It can be read, but not changed.
    #[error("XFS version 4 volumes (-m crc=0) can only be read")]
    Version4Write,
    /// The volume has version 4, and the operation must work on damaged volumes. Blocks of version
    /// 4 do not name their owner or their volume, so it cannot be known to which file a damaged
    /// structure belongs.
    #[error(
        "XFS version 4 volumes (-m crc=0) can be read and checked, but not repaired, salvaged \
             or dumped as metadata"
    )]
    Version4Damaged,
    /// The volume compares names without case and cannot be changed.
    #[error("volumes with case-insensitive names (-n version=ci) can only be read")]
    AsciiCiWrite,
    /// A v4 volume without version 2 directories or without unwritten extents. Every volume made
    /// since 2003 has both.
    #[error(
        "version 4 volumes without version 2 directories and unwritten extents are not supported"
    )]
    OldDirectories,
    /// Directory entries of a v5 volume lack the type byte. Every mkfs.xfs that makes version 5
    /// volumes stores that byte.
    #[error("directory entries without file types (-n ftype=0) are not supported")]
    NoEntryTypes,
    /// The volume needs xfs_repair: a repair did not finish, or an upgrade requires one.
    #[error("the volume is marked as needing repair (NEEDSREPAIR)")]
    NeedsRepair,
    /// The volume has unknown feature bits that forbid any access.
    #[error("unknown incompatible features {0:#x}")]
    UnknownIncompat(u32),
    /// The volume has unknown feature bits that forbid writing.
    #[error("unknown read-only-compatible features {0:#x}: the volume can only be read")]
    UnknownRoCompat(u32),
    /// The volume has unknown feature bits that forbid recovery.
    #[error("unknown log features {0:#x}: the log cannot be replayed")]
    UnknownLogIncompat(u32),
    /// An operation needs parent pointers, which the volume does not have.
    #[error("the volume has no parent pointers (-n parent=1)")]
    NoParentPointers,
    /// The data of the file is on a realtime device that was not given, or that does not exist.
    #[error("the data of this file is on the realtime device, which was not given (--rt-device)")]
    RealtimeData,
    /// An operation would exchange or share the contents of realtime files. This is possible only
    /// in a section with groups, and with realtime extents of one block.
    #[error(
        "contents of realtime files can be exchanged and shared only in realtime groups, with \
             realtime extents of one block"
    )]
    RealtimeExchange,
    /// The volume has zones with gaps between them, as on zoned hardware, or a realtime section
    /// with a combination of features that no mkfs.xfs makes. It can be read, but not changed.
    #[error(
        "volumes with gaps between realtime zones (ZONE_GAPS), as on zoned disks, can only be read"
    )]
    RealtimeWrite,
    /// The realtime section cannot grow: there is none, or it is a classic one that would get a
    /// summary that is too large for one transaction.
    #[error(
        "the volume has no realtime section that can grow; a section without groups grows up to a \
             summary of 48 blocks"
    )]
    RealtimeGrowth,
    /// The volume has a realtime section, and would shrink.
    #[error("a volume with a realtime section cannot shrink")]
    RealtimeShrink,
    /// An operation would allocate blocks in a zone without writing them, such as a preallocation.
    /// Blocks of a zone are allocated when they are written.
    #[error("files in realtime zones cannot be preallocated")]
    ZonedAllocation,
    /// A caller requested a lease on the layout of a file in zones. Garbage collection may move the
    /// blocks of such a file at any time, so no lease is possible.
    #[error("the blocks of files in realtime zones may move, so their layout cannot be leased")]
    ZonedLayout,
    /// Quota was requested for a zoned volume. Writes to zones are not counted.
    #[error("quota is not supported on volumes with realtime zones")]
    ZonedQuota,
    /// An operation would change, as a file, an inode that holds the root of a btree of a realtime
    /// group.
    #[error("an inode that holds a btree of a realtime group cannot be changed as a file")]
    MetadirWrite,
    /// The log cannot hold the reservation of an operation. No mkfs.xfs makes such a small log.
    #[error("the log of {log_bytes} bytes is too small for a transaction of {bytes}")]
    LogTooSmall {
        /// Number of bytes that the operation would reserve.
        bytes: u64,
        /// Length of the log in bytes.
        log_bytes: u64,
    },
}

/// The version nibble of a v4 volume.
const VERSION_4: u16 = 4;
/// The version nibble of a v5 volume.
const VERSION_5: u16 = 5;
/// Mask of the version nibble in `sb_versionnum`.
pub(super) const VERSION_NIBBLE: u16 = 0x000f;
/// Version numbers that exist.
const KNOWN_VERSIONS: core::ops::RangeInclusive<u16> = 1..=VERSION_5;

/// Returns an error for a volume of a version before 4. This check must precede all others, because
/// the superblock of such a volume has no checksum.
pub(super) fn refuse_version(disk: &SuperblockDisk) -> Result<(), Unsupported> {
    let version = disk.version.get() & VERSION_NIBBLE;
    if !matches!(version, VERSION_4 | VERSION_5) && KNOWN_VERSIONS.contains(&version) {
        return Err(Unsupported::Version { version });
    }
    Ok(())
}

/// Incompatible features with which a volume can be read.
const READABLE: IncompatFeatures = IncompatFeatures::FTYPE
    .union(IncompatFeatures::SPARSE_INODES)
    .union(IncompatFeatures::META_UUID)
    .union(IncompatFeatures::BIGTIME)
    .union(IncompatFeatures::NEEDSREPAIR)
    .union(IncompatFeatures::NREXT64)
    .union(IncompatFeatures::EXCHRANGE)
    .union(IncompatFeatures::PARENT)
    .union(IncompatFeatures::METADIR)
    .union(IncompatFeatures::ZONED)
    .union(IncompatFeatures::ZONE_GAPS);

/// Read-only-compatible features with which a volume can be written.
const WRITABLE: RoCompatFeatures = RoCompatFeatures::FINOBT
    .union(RoCompatFeatures::RMAPBT)
    .union(RoCompatFeatures::REFLINK)
    .union(RoCompatFeatures::INOBTCNT);

impl Superblock {
    /// Returns the reason why `access` is refused, or `None` if it is allowed.
    #[must_use]
    pub fn refusal(&self, access: VolumeAccess) -> Option<Unsupported> {
        let reasons = [self.read_refusal(access), self.write_refusal(access)];
        reasons.into_iter().flatten().next()
    }

    fn read_refusal(&self, access: VolumeAccess) -> Option<Unsupported> {
        if access == VolumeAccess::Describe {
            return None;
        }
        let unknown = self.incompat.difference(READABLE);
        if !unknown.is_empty() {
            return Some(Unsupported::UnknownIncompat(unknown.bits()));
        }
        let version = self.geometry.version;
        let needed = VersionFlags::DIRV2.union(VersionFlags::EXTFLG);
        if version == FormatVersion::V4 && !self.version_flags.contains(needed) {
            return Some(Unsupported::OldDirectories);
        }
        if version == FormatVersion::V5 && !self.has_incompat(IncompatFeatures::FTYPE) {
            return Some(Unsupported::NoEntryTypes);
        }
        if self.has_incompat(IncompatFeatures::NEEDSREPAIR) {
            return Some(Unsupported::NeedsRepair);
        }
        None
    }

    fn write_refusal(&self, access: VolumeAccess) -> Option<Unsupported> {
        if matches!(access, VolumeAccess::Describe | VolumeAccess::Read) {
            return None;
        }
        // A log of a v4 volume is replayed, in memory and on the disk.
        if access == VolumeAccess::Write && self.geometry.version == FormatVersion::V4 {
            return Some(Unsupported::Version4Write);
        }
        if access == VolumeAccess::Write && self.version_flags.contains(VersionFlags::BORG) {
            return Some(Unsupported::AsciiCiWrite);
        }
        let unknown = self.ro_compat.difference(WRITABLE);
        if !unknown.is_empty() {
            return Some(Unsupported::UnknownRoCompat(unknown.bits()));
        }
        let unknown = self.log_incompat.difference(LogIncompatFeatures::XATTRS);
        let replays = matches!(access, VolumeAccess::Recover | VolumeAccess::Replay);
        if replays && !unknown.is_empty() {
            return Some(Unsupported::UnknownLogIncompat(unknown.bits()));
        }
        // Reading a volume needs none of the structures that only a writer maintains.
        if access == VolumeAccess::Replay {
            return None;
        }
        if self.has_realtime() && !self.has_writable_realtime() {
            return Some(Unsupported::RealtimeWrite);
        }
        None
    }
}
