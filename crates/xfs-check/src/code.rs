//! The stable codes of findings, in one table.
//!
//! Owns: code, area, severity and meaning of each finding. A code is never renamed.
//! docs/reference/findings.md is written from this table. Does **not** own: the code of each failed
//! check of `xfs-format` (`of_corruption.rs`).

mod of_corruption;

use std::fmt;

use crate::finding::Severity;

/// The part of a volume that a finding is about. The area decides what the damage means for the
/// user of the volume, and how it can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each area is the structure of that name")]
#[non_exhaustive]
pub enum Area {
    Superblock,
    Agf,
    Agi,
    Agfl,
    Btree,
    FreeSpace,
    InodeBtree,
    ReverseMap,
    Refcount,
    Inode,
    Map,
    Directory,
    Attributes,
    ParentPointers,
    Symlink,
    Quota,
    Space,
    MetadataDirectory,
    Realtime,
    Log,
}

impl Area {
    /// Returns the name of the area, as a heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Superblock => "Superblock",
            Self::Agf => "Headers of free space (AGF)",
            Self::Agi => "Headers of inodes (AGI)",
            Self::Agfl => "Free lists (AGFL)",
            Self::Btree => "Btrees",
            Self::FreeSpace => "Records of free space",
            Self::InodeBtree => "Records of inode chunks",
            Self::ReverseMap => "Reverse map",
            Self::Refcount => "Reference counts",
            Self::Inode => "Inodes",
            Self::Map => "Maps of forks",
            Self::Directory => "Directories",
            Self::Attributes => "Extended attributes",
            Self::ParentPointers => "Parent pointers",
            Self::Symlink => "Symbolic links",
            Self::Quota => "Quota",
            Self::Space => "Owners of blocks",
            Self::MetadataDirectory => "Metadata directory",
            Self::Realtime => "Realtime section",
            Self::Log => "Log",
        }
    }

    /// Returns the consequence of damage in this area, as a clause.
    #[must_use]
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Superblock => "the kernel may refuse to mount the volume",
            Self::Agf | Self::Agfl => "the kernel shuts down when it allocates in this group",
            Self::Agi => "files of this group cannot be made or removed",
            Self::Btree | Self::FreeSpace => {
                "blocks may be given out twice, or an allocation shuts the volume down"
            }
            Self::InodeBtree => "inodes may be given out twice, or cannot be found",
            Self::ReverseMap => "later repairs lose a source of evidence",
            Self::Refcount => "a write may change the contents of another file",
            Self::Inode => "the file cannot be opened, or shows wrong properties",
            Self::Map => "contents of the file cannot be read",
            Self::Directory => "names in this directory are missing or cannot be found",
            Self::Attributes => "attributes of the file are missing or cannot be read",
            Self::ParentPointers => "the path of the file cannot be found from its inode",
            Self::Symlink => "the link leads nowhere",
            Self::Quota => "limits and usage of owners are wrong, and changes of their files fail",
            Self::Space => "blocks are lost, or two owners overwrite each other",
            Self::MetadataDirectory => "the kernel may refuse to mount the volume",
            Self::Realtime => {
                "contents of realtime files may be overwritten, or a change shuts the volume down"
            }
            Self::Log => "the newest changes may be missing",
        }
    }

    /// Returns the way in which damage in this area can be repaired.
    #[must_use]
    pub const fn repair(self) -> &'static str {
        match self {
            Self::Superblock => "take the fields from the copies and the group headers",
            Self::Agf | Self::Agi | Self::Agfl => {
                "write the headers and btrees of the group again from the claims of all owners"
            }
            Self::Btree | Self::FreeSpace => "write the btree again from the claims of all owners",
            Self::InodeBtree => "write the btree again from the inode clusters",
            Self::ReverseMap | Self::Refcount | Self::Space => {
                "write the records again from the forks of all files"
            }
            Self::Inode => "correct the field from the forks and the names of the inode",
            Self::Map => "write the map again from its leaves and the reverse map",
            Self::Directory => {
                "write the index again from the entries, and lost entries from parent pointers"
            }
            Self::Attributes => "write the nodes again from the leaves",
            Self::ParentPointers => "write the parent pointers again from the entries",
            Self::Symlink => "keep the parts that are left, with --allow-loss",
            Self::Quota => "let the next mount with quota write the dquots again",
            Self::MetadataDirectory => "make the metadata inodes and their names again",
            Self::Realtime => "write the records again from the maps of realtime files",
            Self::Log => "replay the whole checkpoints before the damage, with --allow-loss",
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $word:literal, $area:ident, $severity:ident, $meaning:literal;)*) => {
        /// The code of a finding. It prints as a stable word such as `agf.freeblks`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "`meaning` says what each code means")]
        pub enum Code {
            $($variant,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable word by which the code is printed, such as `agf.freeblks`.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Returns the area of the volume that the finding is about.
            #[must_use]
            pub const fn area(self) -> Area {
                match self {
                    $(Self::$variant => Area::$area,)*
                }
            }

            /// Returns the way in which the damage can be repaired. `None` if there is none,
            /// because the image lacks its end.
            #[must_use]
            pub const fn repair(self) -> Option<&'static str> {
                match self {
                    Self::SbDeviceShort => None,
                    code => Some(code.area().repair()),
                }
            }

            /// Returns the severity of a finding with this code.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$variant => Severity::$severity,)*
                }
            }

            /// Returns what is wrong, as a clause.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }
        }
    };
}

codes! {
    SbUnreadable = "sb.unreadable", Superblock, Fatal, "the device cannot read it";
    SbMagic = "sb.magic", Superblock, Fatal, "the magic number is wrong";
    SbChecksum = "sb.checksum", Superblock, Fatal, "the checksum does not match";
    SbUuid = "sb.uuid", Superblock, Fatal, "it belongs to another volume";
    SbAddress = "sb.address", Superblock, Fatal, "it carries the address of another place";
    SbLsn = "sb.lsn", Superblock, Unsafe, "it was written after the end of the log";
    SbShort = "sb.short", Superblock, Fatal, "it has fewer bytes than it needs";
    SbField = "sb.field", Superblock, Fatal, "a field contradicts the other fields";
    SbDeviceShort = "sb.device-short", Superblock, Loss, "the device is shorter than the volume";
    SbCopy = "sb.copy", Superblock, Unsafe, "a copy of the superblock differs";
    SbCopyDamaged = "sb.copy-damaged", Superblock, Unsafe, "a copy of the superblock is damaged";
    SbUnused = "sb.unused", Superblock, Unsafe, "bytes that no feature of the volume uses are not 0";
    SbRoot = "sb.root", Superblock, Loss, "the root directory is not where mkfs puts it";
    SbNeedsRepair = "sb.needs-repair", Superblock, Unsafe, "the volume is marked as needing repair";
    SbInodes = "sb.icount", Superblock, Counter, "the count of inodes is wrong";
    SbFreeInodes = "sb.ifree", Superblock, Counter, "the count of free inodes is wrong";
    SbFreeBlocks = "sb.fdblocks", Superblock, Counter, "the count of free blocks is wrong";
    AgfUnreadable = "agf.unreadable", Agf, Fatal, "the device cannot read it";
    AgfMagic = "agf.magic", Agf, Fatal, "the magic number is wrong";
    AgfChecksum = "agf.checksum", Agf, Fatal, "the checksum does not match";
    AgfUuid = "agf.uuid", Agf, Fatal, "it belongs to another volume";
    AgfAddress = "agf.address", Agf, Fatal, "it carries the address of another place";
    AgfLsn = "agf.lsn", Agf, Unsafe, "it was written after the end of the log";
    AgfShort = "agf.short", Agf, Fatal, "it has fewer bytes than it needs";
    AgfField = "agf.field", Agf, Fatal, "a field contradicts the geometry";
    AgfRoot = "agf.root", Agf, Fatal, "the root of a btree lies outside of the group";
    AgfLevels = "agf.levels", Agf, Fatal, "the height of a btree is impossible";
    AgfFreeBlocks = "agf.freeblks", Agf, Counter, "the count of free blocks is wrong";
    AgfLongest = "agf.longest", Agf, Counter, "the length of the longest free extent is wrong";
    AgfBtreeBlocks = "agf.btreeblks", Agf, Counter, "the count of btree blocks is wrong";
    AgfRmapBlocks = "agf.rmapblocks", Agf, Counter, "the count of reverse-map blocks is wrong";
    AgfRefcountBlocks = "agf.refcblocks", Agf, Counter, "the count of reference-count blocks is wrong";
    AgiUnreadable = "agi.unreadable", Agi, Fatal, "the device cannot read it";
    AgiMagic = "agi.magic", Agi, Fatal, "the magic number is wrong";
    AgiChecksum = "agi.checksum", Agi, Fatal, "the checksum does not match";
    AgiUuid = "agi.uuid", Agi, Fatal, "it belongs to another volume";
    AgiAddress = "agi.address", Agi, Fatal, "it carries the address of another place";
    AgiLsn = "agi.lsn", Agi, Unsafe, "it was written after the end of the log";
    AgiShort = "agi.short", Agi, Fatal, "it has fewer bytes than it needs";
    AgiField = "agi.field", Agi, Fatal, "a field contradicts the geometry";
    AgiRoot = "agi.root", Agi, Fatal, "the root of an inode btree lies outside of the group";
    AgiLevels = "agi.levels", Agi, Fatal, "the height of an inode btree is impossible";
    AgiCount = "agi.count", Agi, Counter, "the count of inodes is wrong";
    AgiFreeCount = "agi.freecount", Agi, Counter, "the count of free inodes is wrong";
    AgiInodeBlocks = "agi.iblocks", Agi, Counter, "the count of inode-btree blocks is wrong";
    AgiFreeInodeBlocks = "agi.fblocks", Agi, Counter, "the count of free-inode-btree blocks is wrong";
    AgiNewest = "agi.newino", Agi, Counter, "the newest chunk is none that can exist";
    AgiNewestGone = "agi.newino-gone", Agi, Preen, "the newest chunk has been freed since";
    AgiUnlinked = "agi.unlinked", Agi, Unsafe, "the head of an unlinked list is impossible";
    AgiUnlinkedList = "agi.unlinked-list", Agi, Unsafe, "an unlinked list leads to an inode that does not belong there";
    AgflUnreadable = "agfl.unreadable", Agfl, Unsafe, "the device cannot read it";
    AgflMagic = "agfl.magic", Agfl, Unsafe, "the magic number is wrong";
    AgflChecksum = "agfl.checksum", Agfl, Unsafe, "the checksum does not match";
    AgflUuid = "agfl.uuid", Agfl, Unsafe, "it belongs to another volume";
    AgflAddress = "agfl.address", Agfl, Unsafe, "it carries the address of another place";
    AgflLsn = "agfl.lsn", Agfl, Unsafe, "it was written after the end of the log";
    AgflShort = "agfl.short", Agfl, Unsafe, "it has fewer bytes than it needs";
    AgflRange = "agfl.range", Agfl, Unsafe, "first, last and count of the free list disagree";
    AgflEntry = "agfl.entry", Agfl, Unsafe, "an entry of the free list is not a block of the group";
    BtUnreadable = "bt.unreadable", Btree, Unsafe, "the device cannot read it";
    BtMagic = "bt.magic", Btree, Unsafe, "the magic number is wrong";
    BtChecksum = "bt.checksum", Btree, Unsafe, "the checksum does not match";
    BtUuid = "bt.uuid", Btree, Unsafe, "it belongs to another volume";
    BtAddress = "bt.address", Btree, Unsafe, "it carries the address of another place";
    BtOwner = "bt.owner", Btree, Unsafe, "it belongs to another owner";
    BtLsn = "bt.lsn", Btree, Unsafe, "it was written after the end of the log";
    BtShort = "bt.short", Btree, Unsafe, "it has fewer bytes than it needs";
    BtLevel = "bt.level", Btree, Unsafe, "the level of a block is wrong";
    BtCount = "bt.count", Btree, Unsafe, "the number of entries is impossible";
    BtOrder = "bt.order", Btree, Unsafe, "entries are not in order";
    BtKey = "bt.key", Btree, Unsafe, "a key in a node is not the first key of its child";
    BtHighKey = "bt.high-key", Btree, Unsafe, "a high key in a node is not the highest key of its child";
    BtPointer = "bt.pointer", Btree, Unsafe, "a pointer leads outside of the space of its btree";
    BtSibling = "bt.sibling", Btree, Unsafe, "a sibling pointer does not lead to the neighbour";
    BtLoop = "bt.loop", Btree, Unsafe, "a btree has more blocks than its space";
    BtLow = "bt.low", Btree, Preen, "a block has fewer entries than the format asks for";
    BtJoinable = "bt.joinable", Btree, Preen, "two records could be one";
    InodeUnreadable = "inode.unreadable", Inode, Loss, "the device cannot read it";
    InodeMagic = "inode.magic", Inode, Loss, "the magic number is wrong";
    InodeChecksum = "inode.checksum", Inode, Loss, "the checksum does not match";
    InodeUuid = "inode.uuid", Inode, Loss, "it belongs to another volume";
    InodeLsn = "inode.lsn", Inode, Unsafe, "it was written after the end of the log";
    InodeShort = "inode.short", Inode, Loss, "it has fewer bytes than it needs";
    InodeNumberWrong = "inode.number", Inode, Loss, "the inode carries another number";
    InodeType = "inode.type", Inode, Loss, "the type of the file is impossible";
    InodeFormat = "inode.format", Inode, Loss, "the format of a fork does not fit the type of the file";
    InodeForkOffset = "inode.fork-offset", Inode, Loss, "the start of the attribute fork is impossible";
    InodeSize = "inode.size", Inode, Loss, "the size is impossible";
    InodeTime = "inode.time", Inode, Unsafe, "a time is impossible";
    InodeFeature = "inode.feature", Inode, Unsafe, "the inode uses a feature that the volume does not have";
    InodeHint = "inode.hint", Inode, Unsafe, "an extent size hint is impossible";
    InodeFlags = "inode.flags", Inode, Unsafe, "a flag does not exist, or the type of the file cannot have it";
    InodeField = "inode.field", Inode, Loss, "a field is impossible";
    InodeExtents = "inode.extents", Inode, Loss, "the number of extents does not fit the format";
    InodeNotFree = "inode.not-free", Inode, Unsafe, "a free inode has links, blocks or extents";
    InodeBlocks = "inode.nblocks", Inode, Counter, "the count of blocks is wrong";
    InodeNextents = "inode.nextents", Inode, Counter, "the count of extents is wrong";
    InodeLinks = "inode.nlink", Inode, Counter, "the link count is wrong";
    InodeUnlinked = "inode.unlinked", Inode, Unsafe, "an inode without links is on no unlinked list, or a linked one is";
    InodeReflink = "inode.reflink", Inode, Unsafe, "a file with shared blocks is not marked as sharing";
    InodeReflinkUnused = "inode.reflink-unused", Inode, Preen, "a file is marked as sharing, and shares no block";
    DirUnreadable = "dir.unreadable", Directory, Loss, "the device cannot read it";
    DirMagic = "dir.magic", Directory, Loss, "the magic number is wrong";
    DirChecksum = "dir.checksum", Directory, Loss, "the checksum does not match";
    DirUuid = "dir.uuid", Directory, Loss, "it belongs to another volume";
    DirAddress = "dir.address", Directory, Loss, "it carries the address of another place";
    DirOwner = "dir.owner", Directory, Loss, "it belongs to another owner";
    DirLsn = "dir.lsn", Directory, Unsafe, "it was written after the end of the log";
    DirShort = "dir.short", Directory, Loss, "it has fewer bytes than it needs";
    DirEntry = "dir.entry", Directory, Loss, "an entry is impossible";
    DirName = "dir.name", Directory, Loss, "a name is not a legal name";
    DirDots = "dir.dots", Directory, Loss, "the entries \".\" and \"..\" are wrong";
    DirFree = "dir.free", Directory, Unsafe, "the free records of a block are wrong";
    DirIndex = "dir.index", Directory, Unsafe, "the hash index does not match the entries";
    DirBestFree = "dir.best-free", Directory, Unsafe, "the free-space index does not match the blocks";
    DirSize = "dir.size", Directory, Unsafe, "the size does not match the blocks";
    DirForm = "dir.form", Directory, Loss, "a block does not fit the form of the directory";
    DirNode = "dir.node", Directory, Unsafe, "a node of the hash index is wrong";
    DirNameTwice = "dir.name-twice", Directory, Loss, "a name stands twice in the directory";
    DirType = "dir.type", Directory, Unsafe, "an entry has the type of another inode";
    DirTarget = "dir.target", Directory, Loss, "an entry names an inode that is not in use";
    DirParent = "dir.parent", Directory, Unsafe, "\"..\" is not the directory that has the name";
    DirTwice = "dir.twice", Directory, Loss, "a directory has more than one name";
    DirUnreachable = "dir.unreachable", Directory, Loss, "a directory has no name";
    DirAliased = "dir.aliased", Directory, Loss, "forks map the same blocks again and again, so not all of them were read";
    DirRing = "dir.ring", Directory, Loss, "a directory is below itself";
    AttrUnreadable = "attr.unreadable", Attributes, Loss, "the device cannot read it";
    AttrMagic = "attr.magic", Attributes, Loss, "the magic number is wrong";
    AttrChecksum = "attr.checksum", Attributes, Loss, "the checksum does not match";
    AttrUuid = "attr.uuid", Attributes, Loss, "it belongs to another volume";
    AttrAddress = "attr.address", Attributes, Loss, "it carries the address of another place";
    AttrOwner = "attr.owner", Attributes, Loss, "it belongs to another owner";
    AttrLsn = "attr.lsn", Attributes, Unsafe, "it was written after the end of the log";
    AttrShort = "attr.short", Attributes, Loss, "it has fewer bytes than it needs";
    AttrEntry = "attr.entry", Attributes, Loss, "an attribute is impossible";
    AttrOrder = "attr.order", Attributes, Unsafe, "attributes are not in the order of their hashes";
    AttrFree = "attr.free", Attributes, Unsafe, "the counters of a leaf are wrong";
    AttrNode = "attr.node", Attributes, Unsafe, "a node of the attribute btree is wrong";
    AttrRemote = "attr.remote", Attributes, Loss, "a remote value is not whole";
    AttrTwice = "attr.twice", Attributes, Loss, "an attribute stands twice";
    AttrAcl = "attr.acl", Attributes, Unsafe, "an access control list is impossible";
    AttrUnreached = "attr.unreached", Attributes, Preen, "blocks of the attribute fork hold no attribute";
    AttrIncomplete = "attr.incomplete", Attributes, Preen, "an attribute was not finished before a crash";
    LinkUnreadable = "link.unreadable", Symlink, Loss, "the device cannot read it";
    LinkMagic = "link.magic", Symlink, Loss, "the magic number is wrong";
    LinkChecksum = "link.checksum", Symlink, Loss, "the checksum does not match";
    LinkUuid = "link.uuid", Symlink, Loss, "it belongs to another volume";
    LinkAddress = "link.address", Symlink, Loss, "it carries the address of another place";
    LinkOwner = "link.owner", Symlink, Loss, "it belongs to another owner";
    LinkLsn = "link.lsn", Symlink, Unsafe, "it was written after the end of the log";
    LinkShort = "link.short", Symlink, Loss, "it has fewer bytes than it needs";
    LinkTarget = "link.target", Symlink, Loss, "the target of a symbolic link is not whole";
    QuotaUnreadable = "quota.unreadable", Quota, Unsafe, "the device cannot read it";
    QuotaDquot = "quota.dquot", Quota, Unsafe, "a dquot is damaged";
    QuotaCount = "quota.count", Quota, Counter, "the usage that a dquot states is wrong";
    QuotaStale = "quota.stale", Quota, Preen, "a dquot is damaged, and the next mount with quota writes it again";
    BnoRecord = "bno.record", FreeSpace, Unsafe, "a record of free space is impossible";
    BnoDiffers = "bno.differs", FreeSpace, Unsafe, "the btrees of free space differ";
    InoRecord = "ino.record", InodeBtree, Loss, "a record of an inode chunk is impossible";
    InoAlign = "ino.align", InodeBtree, Unsafe, "an inode chunk is not aligned";
    FinoDiffers = "fino.differs", InodeBtree, Unsafe, "the free-inode btree differs from the inode btree";
    InoFree = "ino.free", InodeBtree, Unsafe, "the inode btree and the inode disagree whether the inode is free";
    RmapRecord = "rmap.record", ReverseMap, Unsafe, "a record of the reverse map is impossible";
    RmapMissing = "rmap.missing", ReverseMap, Unsafe, "an extent in use is not in the reverse map";
    RmapExtra = "rmap.extra", ReverseMap, Unsafe, "the reverse map has an extent that no owner claims";
    RefcRecord = "refc.record", Refcount, Unsafe, "a record of reference counts is impossible";
    RefcCount = "refc.count", Refcount, Unsafe, "a reference count is wrong";
    RefcMetadata = "refc.metadata", Refcount, Unsafe, "metadata is recorded as shared";
    MapRecord = "map.record", Map, Loss, "an extent is impossible";
    MapOrder = "map.order", Map, Loss, "extents are not in order";
    MapOutside = "map.outside", Map, Loss, "an extent lies outside of the space for files";
    MapUnwritten = "map.unwritten", Map, Loss, "an unwritten extent in a fork that cannot have one";
    MapRoot = "map.root", Map, Loss, "the root of an extent btree is impossible";
    MapPastEnd = "map.past-end", Map, Unsafe, "an extent past the end of a directory, link or attribute fork";
    MapJoinable = "map.joinable", Map, Preen, "extents that one extent could map";
    ParentRecord = "parent.record", ParentPointers, Unsafe, "a parent pointer is impossible";
    ParentMissing = "parent.missing", ParentPointers, Unsafe, "a name has no parent pointer";
    ParentExtra = "parent.extra", ParentPointers, Unsafe, "a parent pointer has no name";
    SpaceLeaked = "space.leaked", Space, Unsafe, "blocks have no owner";
    SpaceCrosslinked = "space.crosslinked", Space, Loss, "blocks have more owners than are counted";
    MetaRoot = "meta.root", MetadataDirectory, Loss, "the root of the metadata directory is none";
    MetaMissing = "meta.missing", MetadataDirectory, Loss, "a file of the metadata directory is missing";
    MetaName = "meta.name", MetadataDirectory, Unsafe, "the metadata directory has a name that does not belong there";
    MetaInode = "meta.inode", MetadataDirectory, Unsafe, "an inode of the metadata directory has wrong properties";
    MetaMixed = "meta.mixed", MetadataDirectory, Unsafe, "a name leads into the metadata directory or out of it";
    RtDeviceShort = "rt.device-short", Realtime, Loss, "the realtime device is shorter than the section";
    RtSuper = "rt.super", Realtime, Unsafe, "the superblock of the realtime device is damaged or differs";
    RtUnreadable = "rt.unreadable", Realtime, Unsafe, "the device cannot read it";
    RtMagic = "rt.magic", Realtime, Unsafe, "the magic number is wrong";
    RtChecksum = "rt.checksum", Realtime, Unsafe, "the checksum does not match";
    RtUuid = "rt.uuid", Realtime, Unsafe, "it belongs to another volume";
    RtAddress = "rt.address", Realtime, Unsafe, "it carries the address of another place";
    RtOwner = "rt.owner", Realtime, Unsafe, "it belongs to another owner";
    RtLsn = "rt.lsn", Realtime, Unsafe, "it was written after the end of the log";
    RtShort = "rt.short", Realtime, Unsafe, "it has fewer bytes than it needs";
    RtFile = "rt.file", Realtime, Unsafe, "a file of the section has a wrong size, a hole or an unwritten extent";
    RtTree = "rt.tree", Realtime, Unsafe, "a block of a btree of a realtime group is impossible";
    RtKey = "rt.key", Realtime, Unsafe, "a key in a node is not that of its child";
    RtOrder = "rt.order", Realtime, Unsafe, "entries of a btree are not in order, or overlap";
    RtRecord = "rt.record", Realtime, Unsafe, "a record of a btree is impossible";
    RtBitmapEnd = "rt.bitmap-end", Realtime, Unsafe, "the bitmap has free extents after the end of the section";
    RtSummary = "rt.summary", Realtime, Unsafe, "the summary does not match the bitmap";
    RtFreeExtents = "rt.frextents", Realtime, Counter, "the count of free realtime extents is wrong";
    RtUsed = "rt.used", Realtime, Counter, "the count of used blocks of a zone is wrong";
    RtAlign = "rt.align", Realtime, Unsafe, "an extent does not keep to the realtime extents";
    RtLeaked = "rt.leaked", Realtime, Unsafe, "realtime blocks have no owner and are not free";
    RtCrosslinked = "rt.crosslinked", Realtime, Loss, "realtime blocks have more owners than are counted";
    RtRefcount = "rt.refcount", Realtime, Unsafe, "a reference count of realtime blocks is wrong";
    RtRmapMissing = "rt.rmap-missing", Realtime, Unsafe, "an extent in use is not in the reverse map of its realtime group";
    RtRmapExtra = "rt.rmap-extra", Realtime, Unsafe, "the reverse map of a realtime group has an extent that no owner claims";
    LogCut = "log.cut", Log, Note, "whole records follow the end of the log and are not replayed";
    LogReplayed = "log.replayed", Log, Note, "the log was dirty and has been replayed in memory";
    LogUnreadable = "log.unreadable", Log, Unsafe, "the log cannot be read or replayed";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Code;

    #[test]
    fn words_are_unique_and_name_their_structure() {
        let mut words = HashSet::new();
        for code in Code::ALL {
            let word = code.word();
            assert!(words.insert(word), "{word} stands twice");
            let (structure, what) = word.split_once('.').expect("structure.what");
            assert!(!structure.is_empty() && !what.is_empty(), "{word}");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || b".-".contains(&byte);
            assert!(word.bytes().all(is_plain), "{word}");
        }
    }
}
