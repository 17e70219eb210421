//! The code of each failed check of `xfs-format`.
//!
//! Owns: the mapping from [`Corruption`] to [`Code`]. Does **not** own: the codes.

use xfs_format::agf::AgfCheck;
use xfs_format::agfl::AgflCheck;
use xfs_format::agi::AgiCheck;
use xfs_format::attr::AttrCheck;
use xfs_format::btree::BtreeCheck;
use xfs_format::directory::DirectoryCheck;
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::InodeCheck;
use xfs_format::inode_chunk::InodeChunkCheck;
use xfs_format::superblock::SuperblockCheck;
use xfs_format::{Check, Corruption, Structure};

use super::Code;

/// The codes of one structure for the checks that all structures have in common.
struct Common {
    unreadable: Code,
    magic: Code,
    checksum: Code,
    uuid: Code,
    address: Code,
    owner: Code,
    lsn: Code,
    short: Code,
}

macro_rules! common {
    ($unreadable:ident $magic:ident $checksum:ident $uuid:ident $address:ident $owner:ident
     $lsn:ident $short:ident) => {
        Common {
            unreadable: Code::$unreadable,
            magic: Code::$magic,
            checksum: Code::$checksum,
            uuid: Code::$uuid,
            address: Code::$address,
            owner: Code::$owner,
            lsn: Code::$lsn,
            short: Code::$short,
        }
    };
}

const SUPERBLOCK: Common =
    common!(SbUnreadable SbMagic SbChecksum SbUuid SbAddress SbAddress SbLsn SbShort);
const AGF: Common =
    common!(AgfUnreadable AgfMagic AgfChecksum AgfUuid AgfAddress AgfAddress AgfLsn AgfShort);
const AGI: Common =
    common!(AgiUnreadable AgiMagic AgiChecksum AgiUuid AgiAddress AgiAddress AgiLsn AgiShort);
const AGFL: Common = common!(
    AgflUnreadable AgflMagic AgflChecksum AgflUuid AgflAddress AgflAddress AgflLsn AgflShort
);
const BTREE: Common =
    common!(BtUnreadable BtMagic BtChecksum BtUuid BtAddress BtOwner BtLsn BtShort);
const INODE: Common = common!(
    InodeUnreadable InodeMagic InodeChecksum InodeUuid InodeNumberWrong InodeNumberWrong InodeLsn
    InodeShort
);
const DIRECTORY: Common =
    common!(DirUnreadable DirMagic DirChecksum DirUuid DirAddress DirOwner DirLsn DirShort);
const ATTRIBUTES: Common =
    common!(AttrUnreadable AttrMagic AttrChecksum AttrUuid AttrAddress AttrOwner AttrLsn AttrShort);
const SYMLINK: Common =
    common!(LinkUnreadable LinkMagic LinkChecksum LinkUuid LinkAddress LinkOwner LinkLsn LinkShort);

const QUOTA: Common = common!(
    QuotaUnreadable QuotaDquot QuotaDquot QuotaDquot QuotaDquot QuotaDquot QuotaDquot QuotaDquot
);

const REALTIME: Common =
    common!(RtUnreadable RtMagic RtChecksum RtUuid RtAddress RtOwner RtLsn RtShort);

const fn common(structure: Structure) -> &'static Common {
    match structure {
        Structure::Superblock => &SUPERBLOCK,
        Structure::Agf => &AGF,
        Structure::Agi => &AGI,
        Structure::Agfl => &AGFL,
        Structure::Inode => &INODE,
        Structure::Directory => &DIRECTORY,
        // A block of a name index is named by the code that follows the pointer to it.
        Structure::DaBtree => &DIRECTORY,
        Structure::Attr | Structure::Acl | Structure::Parent => &ATTRIBUTES,
        Structure::Symlink => &SYMLINK,
        Structure::Dquot => &QUOTA,
        Structure::RealtimeMetadata | Structure::RealtimeSuperblock => &REALTIME,
        _ => &BTREE,
    }
}

impl Code {
    /// Returns the code for a structure that the device cannot read.
    pub(crate) const fn unreadable(structure: Structure) -> Self {
        common(structure).unreadable
    }

    /// Returns the code for a structure that belongs to another owner.
    pub(crate) const fn foreign(structure: Structure) -> Self {
        common(structure).owner
    }

    /// Returns the code of a failed check. A node of a hash btree is taken for a part of a
    /// directory, although attribute forks have such nodes too.
    #[must_use]
    pub fn of(corruption: &Corruption) -> Self {
        Self::of_check(corruption.check(), common(corruption.structure()))
    }

    /// Returns the code of a failed check of a block of an attribute fork.
    #[must_use]
    pub fn of_attribute(corruption: &Corruption) -> Self {
        Self::of_check(corruption.check(), &ATTRIBUTES)
    }

    fn of_check(check: &Check, common: &Common) -> Self {
        match check {
            Check::Magic { .. } => common.magic,
            Check::Checksum { .. } => common.checksum,
            Check::ForeignUuid { .. } => common.uuid,
            Check::MisplacedBlock { .. } => common.address,
            Check::ForeignOwner { .. } => common.owner,
            Check::LsnAheadOfLog { .. } => common.lsn,
            Check::Truncated { .. } => common.short,
            Check::Superblock(check) => of_superblock(*check),
            Check::Agf(check) => of_agf(*check),
            Check::Agi(check) => of_agi(*check),
            Check::Agfl(check) => of_agfl(*check),
            Check::Btree(check) if common.magic == Self::RtMagic => of_realtime_btree(*check),
            Check::Btree(check) => of_btree(*check),
            Check::FreeSpace(_) => Self::BnoRecord,
            Check::InodeChunk(InodeChunkCheck::Alignment { .. }) => Self::InoAlign,
            Check::InodeChunk(_) => Self::InoRecord,
            Check::Rmap(_) | Check::Refcount(_) if common.magic == Self::RtMagic => Self::RtRecord,
            Check::Rmap(_) => Self::RmapRecord,
            Check::Refcount(_) => Self::RefcRecord,
            Check::Extent(check) => of_extent(*check),
            Check::Inode(check) => of_inode(*check),
            Check::DaBtree(_) if common.magic == Self::AttrMagic => Self::AttrNode,
            Check::DaBtree(_) => Self::DirNode,
            Check::Directory(check) => of_directory(*check),
            Check::Attr(check) => of_attributes(*check),
            Check::Symlink(_) => Self::LinkTarget,
            Check::Dquot(_) => Self::QuotaDquot,
            Check::Acl(_) => Self::AttrAcl,
            Check::Parent(_) => Self::ParentRecord,
            Check::LogRecord(_) | Check::LogItem(_) => Self::LogUnreadable,
            // These are findings of the buffer cache, which the checker does not use.
            _ => common.magic,
        }
    }
}

const fn of_superblock(check: SuperblockCheck) -> Code {
    match check {
        SuperblockCheck::CutShort { .. } => Code::SbDeviceShort,
        SuperblockCheck::Counter { .. } => Code::SbFreeBlocks,
        SuperblockCheck::RootInode { .. } => Code::SbRoot,
        _ => Code::SbField,
    }
}

const fn of_agf(check: AgfCheck) -> Code {
    match check {
        AgfCheck::FreeList { .. } => Code::AgflRange,
        AgfCheck::Root { .. } => Code::AgfRoot,
        AgfCheck::Levels { .. } => Code::AgfLevels,
        AgfCheck::FreeBlocks { .. } => Code::AgfFreeBlocks,
        AgfCheck::Blocks { .. } | AgfCheck::Counted { .. } => Code::AgfBtreeBlocks,
        _ => Code::AgfField,
    }
}

const fn of_agi(check: AgiCheck) -> Code {
    match check {
        AgiCheck::Root { .. } => Code::AgiRoot,
        AgiCheck::Levels { .. } => Code::AgiLevels,
        AgiCheck::Inodes { .. } => Code::AgiCount,
        AgiCheck::Blocks { .. } | AgiCheck::Counted { .. } => Code::AgiInodeBlocks,
        AgiCheck::Unlinked { .. } => Code::AgiUnlinked,
        _ => Code::AgiField,
    }
}

const fn of_agfl(check: AgflCheck) -> Code {
    match check {
        AgflCheck::Block { .. } | AgflCheck::Empty { .. } => Code::AgflEntry,
        AgflCheck::Range { .. } => Code::AgflRange,
        _ => Code::AgflAddress,
    }
}

const fn of_btree(check: BtreeCheck) -> Code {
    match check {
        BtreeCheck::Count { .. } | BtreeCheck::EmptyNode | BtreeCheck::EmptyLeaf => Code::BtCount,
        BtreeCheck::Level { .. } | BtreeCheck::LevelOnPath { .. } => Code::BtLevel,
        BtreeCheck::OutsideParent { .. } => Code::BtKey,
        BtreeCheck::HighKey { .. } => Code::BtHighKey,
        BtreeCheck::Pointer { .. } | BtreeCheck::Outside => Code::BtPointer,
        BtreeCheck::Sibling { .. }
        | BtreeCheck::SiblingOnPath { .. }
        | BtreeCheck::SiblingMissing { .. } => Code::BtSibling,
        _ => Code::BtOrder,
    }
}

const fn of_realtime_btree(check: BtreeCheck) -> Code {
    match check {
        BtreeCheck::Order { .. } => Code::RtOrder,
        BtreeCheck::OutsideParent { .. } | BtreeCheck::HighKey { .. } => Code::RtKey,
        _ => Code::RtTree,
    }
}

const fn of_extent(check: ExtentCheck) -> Code {
    match check {
        ExtentCheck::Order { .. } | ExtentCheck::KeyOrder { .. } => Code::MapOrder,
        ExtentCheck::OutsideVolume { .. } | ExtentCheck::Child { .. } => Code::MapOutside,
        ExtentCheck::Unwritten { .. } => Code::MapUnwritten,
        ExtentCheck::RootLevel { .. } | ExtentCheck::RootCount { .. } => Code::MapRoot,
        ExtentCheck::Count { .. } | ExtentCheck::Room { .. } => Code::InodeNextents,
        _ => Code::MapRecord,
    }
}

const fn of_inode(check: InodeCheck) -> Code {
    match check {
        InodeCheck::Misplaced { .. } => Code::InodeNumberWrong,
        InodeCheck::Mode { .. } => Code::InodeType,
        InodeCheck::Size { .. }
        | InodeCheck::Empty { .. }
        | InodeCheck::LocalSize { .. }
        | InodeCheck::TargetSize { .. } => Code::InodeSize,
        InodeCheck::TooFewLinks { .. } => Code::InodeLinks,
        InodeCheck::FeatureOff { .. } => Code::InodeFeature,
        InodeCheck::ForkOffset { .. } => Code::InodeForkOffset,
        InodeCheck::UnknownFormat { .. } | InodeCheck::Format { .. } => Code::InodeFormat,
        InodeCheck::ExtentsExceedBlocks { .. }
        | InodeCheck::ExtentCount { .. }
        | InodeCheck::NeedlessBtree { .. }
        | InodeCheck::ExtentsWithoutFork { .. } => Code::InodeExtents,
        InodeCheck::ExtentSizeHint { .. } | InodeCheck::CowExtentSizeHint { .. } => Code::InodeHint,
        InodeCheck::Reflink { .. } => Code::InodeReflink,
        InodeCheck::Nanoseconds { .. } => Code::InodeTime,
        _ => Code::InodeField,
    }
}

const fn of_directory(check: DirectoryCheck) -> Code {
    match check {
        DirectoryCheck::Cycle => Code::DirRing,
        DirectoryCheck::NameEmpty { .. } | DirectoryCheck::NameBytes { .. } => Code::DirName,
        DirectoryCheck::FreeLength { .. }
        | DirectoryCheck::FreeAdjacent { .. }
        | DirectoryCheck::FreeNotListed { .. }
        | DirectoryCheck::BestFree { .. } => Code::DirFree,
        DirectoryCheck::DotEntries => Code::DirDots,
        DirectoryCheck::IndexCount { .. }
        | DirectoryCheck::HashOrder { .. }
        | DirectoryCheck::NotIndexed { .. }
        | DirectoryCheck::IndexTarget { .. }
        | DirectoryCheck::IndexLive { .. }
        | DirectoryCheck::IndexDiffers { .. } => Code::DirIndex,
        DirectoryCheck::BestCount { .. }
        | DirectoryCheck::FreeIndex { .. }
        | DirectoryCheck::FreeUnknown { .. }
        | DirectoryCheck::FreeMissing { .. } => Code::DirBestFree,
        DirectoryCheck::Size { .. } => Code::DirSize,
        DirectoryCheck::Form => Code::DirForm,
        DirectoryCheck::NameTwice { .. } => Code::DirNameTwice,
        _ => Code::DirEntry,
    }
}

const fn of_attributes(check: AttrCheck) -> Code {
    match check {
        AttrCheck::HashOrder { .. } | AttrCheck::Hash { .. } => Code::AttrOrder,
        AttrCheck::UsedBytes { .. } | AttrCheck::FreeRange { .. } | AttrCheck::FirstUsed { .. } => {
            Code::AttrFree
        }
        AttrCheck::RemoteValue { .. }
        | AttrCheck::RemoteRange { .. }
        | AttrCheck::RemotePiece { .. } => Code::AttrRemote,
        _ => Code::AttrEntry,
    }
}
