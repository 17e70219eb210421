//! Feature bits of the superblock, in the five words that hold them.
//!
//! Owns: the names of the bits. Does **not** own the decision which bits a reader or a writer
//! accepts: [`Superblock::refusal`](crate::superblock::Superblock::refusal) makes it.

use bitflags::bitflags;

bitflags! {
    /// `sb_versionnum` without the version nibble.
    #[doc(alias = "XFS_SB_VERSION")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct VersionFlags: u16 {
        /// Some inode has extended attributes.
        const ATTR = 0x0010;
        /// 32-bit link counts.
        const NLINK = 0x0020;
        /// Quota is or was on.
        const QUOTA = 0x0040;
        /// Inode chunks are aligned.
        const ALIGN = 0x0080;
        /// Stripe unit and width are set.
        const DALIGN = 0x0100;
        /// Log version 2.
        const LOGV2 = 0x0400;
        /// Sector size is not 512.
        const SECTOR = 0x0800;
        /// Unwritten extents.
        const EXTFLG = 0x1000;
        /// Directory version 2.
        const DIRV2 = 0x2000;
        /// Names are compared without ASCII case.
        #[doc(alias = "ASCII_CI")]
        const BORG = 0x4000;
        /// `sb_features2` is in use.
        const MOREBITS = 0x8000;
    }

    /// `sb_features2`.
    #[doc(alias = "XFS_SB_VERSION2")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Features2: u32 {
        /// Free-space counters of the superblock are written lazily.
        const LAZYSBCOUNT = 0x0002;
        /// The attribute fork's offset moves.
        const ATTR2 = 0x0008;
        /// An abandoned form of parent pointers.
        const PARENT_OLD = 0x0010;
        /// 32-bit project identifiers.
        const PROJID32 = 0x0080;
        /// Metadata checksums: a v5 volume.
        const CRC = 0x0100;
        /// File types in directory entries (v4 form of the bit).
        const FTYPE = 0x0200;
    }

    /// `sb_features_compat`: unknown bits may be ignored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CompatFeatures: u32 {
        /// Unnamed bits are kept.
        const _ = !0;
    }

    /// `sb_features_ro_compat`: an unknown bit allows reading only.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct RoCompatFeatures: u32 {
        /// Btree of chunks with free inodes.
        const FINOBT = 1 << 0;
        /// Reverse-map btree.
        const RMAPBT = 1 << 1;
        /// Shared extents and the reference-count btree.
        const REFLINK = 1 << 2;
        /// Block counts of the inode btrees in the AGI.
        const INOBTCNT = 1 << 3;
        /// Unnamed bits are kept.
        const _ = !0;
    }

    /// `sb_features_incompat`: an unknown bit forbids any access.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct IncompatFeatures: u32 {
        /// File types in directory entries.
        const FTYPE = 1 << 0;
        /// Sparse inode chunks.
        #[doc(alias = "SPINODES")]
        const SPARSE_INODES = 1 << 1;
        /// Metadata carries `sb_meta_uuid`, not `sb_uuid`.
        const META_UUID = 1 << 2;
        /// 64-bit time stamps.
        const BIGTIME = 1 << 3;
        /// xfs_repair must run first.
        const NEEDSREPAIR = 1 << 4;
        /// 64-bit extent counters.
        const NREXT64 = 1 << 5;
        /// Exchange-range log items.
        const EXCHRANGE = 1 << 6;
        /// Parent pointers.
        const PARENT = 1 << 7;
        /// Metadata directory tree.
        const METADIR = 1 << 8;
        /// Zoned realtime device.
        const ZONED = 1 << 9;
        /// The zoned device has gaps.
        const ZONE_GAPS = 1 << 10;
        /// Unnamed bits are kept.
        const _ = !0;
    }

    /// `sb_features_log_incompat`: an unknown bit forbids recovery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct LogIncompatFeatures: u32 {
        /// The log may hold attribute intents.
        const XATTRS = 1 << 0;
        /// Unnamed bits are kept.
        const _ = !0;
    }
}
