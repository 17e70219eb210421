//! Feature bits of the superblock, in the five words that hold them.
//!
//! Owns: the names of the bits. Does **not** own the decision which bits a reader or a writer
//! accepts: [`Superblock::refusal`](crate::superblock::Superblock::refusal) makes it.

use bitflags::bitflags;

/// The width of project identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProjectIds {
    /// Inodes store project identifiers of 16 bits. Only v4 volumes without `PROJID32` have such
    /// inodes.
    Bits16,
    /// Inodes store project identifiers of 32 bits.
    Bits32,
}

/// The version of the on-disk format.
///
/// The version decides the headers of all metadata blocks. Version 5 blocks name their address,
/// owner and volume and have a checksum; version 4 blocks have none of these.
///
/// Not `#[non_exhaustive]`: the kernel has announced no other version.
#[doc(alias = "XFS_SB_VERSION_NUM")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatVersion {
    /// Volumes of mkfs.xfs before 2015, or made with `-m crc=0`. ferroxfs only reads them.
    V4,
    /// Volumes with self-describing metadata.
    V5,
}

impl FormatVersion {
    /// Returns the version number, as the superblock stores it.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// Returns the length in bytes of the core of an inode. The forks follow the core.
    #[must_use]
    pub const fn inode_core_bytes(self) -> usize {
        match self {
            Self::V4 => crate::inode::CORE_BYTES_V4,
            Self::V5 => crate::inode::CORE_BYTES,
        }
    }
}

bitflags! {
    /// The bits of `sb_versionnum`, without the version nibble.
    #[doc(alias = "XFS_SB_VERSION")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct VersionFlags: u16 {
        /// Some inode has, or had, extended attributes.
        const ATTR = 0x0010;
        /// Link counts have 32 bits.
        const NLINK = 0x0020;
        /// Quota is on, or was on.
        const QUOTA = 0x0040;
        /// Inode chunks are aligned.
        const ALIGN = 0x0080;
        /// The stripe unit and the stripe width are set.
        const DALIGN = 0x0100;
        /// The log has version 2.
        const LOGV2 = 0x0400;
        /// The sector size is not 512 bytes.
        const SECTOR = 0x0800;
        /// Extents can be unwritten.
        const EXTFLG = 0x1000;
        /// Directories have version 2.
        const DIRV2 = 0x2000;
        /// Names are compared without ASCII case.
        #[doc(alias = "ASCII_CI")]
        const BORG = 0x4000;
        /// The word `sb_features2` is in use.
        const MOREBITS = 0x8000;
    }

    /// The bits of `sb_features2`.
    #[doc(alias = "XFS_SB_VERSION2")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Features2: u32 {
        /// The superblock's free-space counters are written lazily.
        const LAZYSBCOUNT = 0x0002;
        /// The offset of the attribute fork in the inode can differ between inodes.
        const ATTR2 = 0x0008;
        /// The volume has an abandoned form of parent pointers.
        const PARENT_OLD = 0x0010;
        /// Project identifiers have 32 bits.
        const PROJID32 = 0x0080;
        /// Metadata has checksums: this is a v5 volume.
        const CRC = 0x0100;
        /// Directory entries store the file type (v4 form of the bit).
        const FTYPE = 0x0200;
    }

    /// The bits of `sb_features_compat`. Unknown bits may be ignored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CompatFeatures: u32 {
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }

    /// The bits of `sb_features_ro_compat`. An unknown bit allows reading only.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct RoCompatFeatures: u32 {
        /// Each group has a btree of inode chunks with free inodes.
        const FINOBT = 1 << 0;
        /// Each group has a reverse-map btree.
        const RMAPBT = 1 << 1;
        /// Files may share extents, and each group has a reference-count btree.
        const REFLINK = 1 << 2;
        /// The AGI counts the blocks of the inode btrees.
        const INOBTCNT = 1 << 3;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }

    /// The bits of `sb_features_incompat`. An unknown bit forbids any access.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct IncompatFeatures: u32 {
        /// Directory entries store the file type.
        const FTYPE = 1 << 0;
        /// Inode chunks may be sparse.
        #[doc(alias = "SPINODES")]
        const SPARSE_INODES = 1 << 1;
        /// Metadata carries `sb_meta_uuid` instead of `sb_uuid`.
        const META_UUID = 1 << 2;
        /// Time stamps may have the 64-bit form.
        const BIGTIME = 1 << 3;
        /// The volume must be repaired before it is used.
        const NEEDSREPAIR = 1 << 4;
        /// Extent counters may have the 64-bit form.
        const NREXT64 = 1 << 5;
        /// The log may hold intents to exchange extents.
        const EXCHRANGE = 1 << 6;
        /// Inodes have parent pointers.
        const PARENT = 1 << 7;
        /// Metadata inodes lie in a directory tree of their own.
        const METADIR = 1 << 8;
        /// The realtime device is zoned.
        const ZONED = 1 << 9;
        /// The zones of the realtime device have gaps between them.
        const ZONE_GAPS = 1 << 10;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }

    /// The bits of `sb_features_log_incompat`. An unknown bit forbids recovery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct LogIncompatFeatures: u32 {
        /// The log may hold attribute intents.
        const XATTRS = 1 << 0;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }
}
