//! The superblock of a volume whose first sector may be damaged.
//!
//! Owns: finding the copies, and building one superblock from all of them. Does **not** own: the
//! checks of one superblock, or the comparison of superblocks with the headers of groups.
//!
//! 1. The primary superblock, if it is sound, and a copy agrees with it, no copy can be read,
//!    or more groups agree with it than with any copy.
//! 2. Else a copy, where the primary puts the copies, or found by a search: the copy whose
//!    sizes most groups confirm; if several copies are equal in this, the sizes in most copies.
//! 3. If no group agrees with a copy: the headers of groups, inodes, the reverse map, the log.

mod complete;
mod features;
mod headers;
mod log_place;
mod logged;
mod occupied;
mod root;
mod search;
mod witnesses;

use std::cmp::Ordering;
use std::fmt;

use xfs_device::BlockDevice;
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::features::{IncompatFeatures, VersionFlags};
use xfs_format::superblock::{SUPERBLOCK_MAGIC, SuperblockError, Unsupported, seal};
use xfs_format::{
    DiskAddr, FormatVersion, InodeNumber, StructureAddress, Superblock, SuperblockDisk,
};
use zerocopy::big_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::inode::InodeState;
use crate::volume::Evidence;
use witnesses::Witnesses;

pub use logged::complete_by_log;

/// The longest sector, in bytes.
const MAX_SECTOR_BYTES: usize = 32 << 10;
/// The largest number of copies that are read.
const MOST_COPIES: u32 = 4096;
/// The largest number of different copies that take part in a vote. More than a few cannot be
/// expected, because only copies with a right checksum are read.
const MOST_VERSIONS: usize = 64;

/// A superblock, and where it comes from.
#[derive(Clone, Debug)]
pub struct SuperblockEvidence {
    /// The superblock, which passed all checks.
    pub superblock: Superblock,
    /// The superblock in its disk form, with its checksum. It is as long as a sector.
    pub sector: Vec<u8>,
    /// The structures from which the sizes in the superblock were taken.
    pub source: SuperblockSource,
    /// The reason why the superblock may not belong to this volume; `None` if there is no such
    /// reason. A program that only reads can use a doubtful superblock. A program that writes must
    /// not: if the superblock is wrong, the writes can destroy another volume.
    pub doubt: Option<SuperblockDoubt>,
}

/// A reason why a superblock that was found may not belong to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockDoubt {
    /// Too few groups have headers that agree with the sizes and the UUID of the superblock.
    FewGroups {
        /// Number of groups whose headers agree with the superblock.
        agreeing: u32,
        /// Number of groups whose headers were read.
        of: u32,
    },
    /// The device has copies of the superblocks of two volumes. Each copy agrees with the headers
    /// of at least half of the groups that it describes, and the first group of the device agrees
    /// with neither copy. Without copies: the device has headers of two volumes, and no group at
    /// its start.
    Rival,
    /// No superblock is left, and the place of the log is not known. Either the log is external, or
    /// neither the reverse map nor the log's own records show its place.
    NoLog,
    /// No superblock is left, and no directory is its own parent.
    NoRoot,
    /// No superblock is left, and no inode btree can be read.
    NoInodes,
    /// No superblock is left, and the volume has a realtime section.
    Realtime,
    /// No superblock is left, and the volume has a metadata directory.
    MetadataDirectory,
}

impl SuperblockDoubt {
    /// Returns whether the doubt is about the volume to which the superblock belongs. Other doubts
    /// are about a single field.
    const fn is_about_device(self) -> bool {
        matches!(self, Self::FewGroups { .. } | Self::Rival)
    }
}

impl fmt::Display for SuperblockDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewGroups { agreeing, of } => {
                write!(f, "only {agreeing} of {of} allocation groups agree with it")
            }
            Self::Rival => f.write_str("the device holds superblocks of two volumes"),
            Self::NoLog => f.write_str("no structure shows where its log is"),
            Self::NoRoot => f.write_str("no directory is known to be its root"),
            Self::NoInodes => f.write_str("no inode btree can be read"),
            Self::Realtime => {
                f.write_str("only the superblock has the sizes of a realtime section")
            }
            Self::MetadataDirectory => {
                f.write_str("only the superblock has the place of a metadata directory")
            }
        }
    }
}

/// The source of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockSource {
    /// The first sector of the volume.
    Primary,
    /// The copies in other groups.
    Copies {
        /// Number of copies whose geometry is the geometry of the returned superblock.
        agreeing: u32,
        /// Number of copies that were found.
        found: u32,
    },
    /// The first sector, except for the number of the root inode: the inode that the sector names
    /// is not the root directory, and another inode is.
    PrimaryWithoutRoot,
    /// The newest superblock in the log, because no superblock is left in its place. The headers of
    /// groups agree with its sizes. Programs that do not use the log may have changed the
    /// superblock since.
    Log,
    /// The headers of groups and the structures in the groups, because no superblock is left. If
    /// the place of the log is not found, the superblock states an external log. If the root
    /// directory is not found, the superblock has no root inode. In both cases the superblock is
    /// doubtful ([`SuperblockDoubt`]). The label, the stripe sizes, the limit on inodes and
    /// features that nothing uses are lost.
    GroupHeaders,
}

/// A superblock that was read from the device, in its disk form and decoded.
#[derive(Clone)]
struct Copy {
    disk: SuperblockDisk,
    superblock: Superblock,
}

impl Copy {
    /// Returns whether, according to the sizes in the copy, a group other than the first starts at
    /// byte `at`.
    fn is_in_its_place(&self, at: u64) -> bool {
        let geometry = &self.superblock.geometry;
        let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
        let is_start = at.checked_rem(group_bytes) == Some(0);
        let group = at.checked_div(group_bytes);
        is_start && group.is_some_and(|group| group > 0 && group < geometry.ag_count.into())
    }
}

/// Finds the superblock of the volume on `device`.
///
/// Looks for copies where the sizes in the primary superblock put them. If there are none, looks
/// where mkfs.xfs would have put them. Reads the whole device if that finds none either, or if the
/// headers of the first group are damaged. Returns `None` if there is no superblock that passes its
/// checks.
///
/// A copy is used only if, according to its own sizes, a group starts where the copy lies, because
/// a file can hold the image of another volume. If copies differ, the sizes count that more groups
/// confirm, even if more copies have other sizes: an interrupted growth leaves old copies.
///
/// # Errors
///
/// Returns the reason if a superblock is sound but its volume is not supported. This search does
/// not support version 4.
pub fn find_superblock(
    device: &dyn BlockDevice,
) -> Result<Option<SuperblockEvidence>, SuperblockError> {
    let primary = match read_copy(device, 0) {
        // The version is checked before the checksum, so a damaged version looks like an old one.
        Err(error @ SuperblockError::Unsupported(_))
            if search::likely_places(device).all(|at| read_copy(device, at).is_err()) =>
        {
            return Err(error);
        }
        other => other.ok(),
    };
    if let Some(primary) = &primary {
        let copies = copies_of(device, &primary.superblock);
        let own = key(&primary.disk);
        let agrees = |copy: &Copy| key(&copy.disk).as_bytes() == own.as_bytes();
        let is_alone = copies.is_empty() && is_only_one(device, &primary.superblock);
        if is_alone || copies.iter().any(agrees) {
            let mut right = primary.clone();
            let root = root::find(device, primary, &copies);
            right.disk.root_inode = root.into();
            place_realtime_inodes(&mut right.disk, root);
            let source = if right.disk.root_inode == primary.disk.root_inode {
                SuperblockSource::Primary
            } else {
                SuperblockSource::PrimaryWithoutRoot
            };
            return Ok(build(device, &right, source));
        }
    }
    Ok(by_copies(device, primary))
}

/// Finds the superblock by the headers of groups and the structures in the groups alone, even if
/// the first sector or a copy is sound. `None` if too few headers are left.
#[must_use]
pub fn find_by_headers(device: &dyn BlockDevice) -> Option<SuperblockEvidence> {
    complete::find(device)
}

/// Builds the superblock when no copy agrees with `primary`, the superblock in the first sector.
/// The sizes come from the copies, or from `primary` if more groups agree with it than with any
/// copy. If there is no copy, or no group agrees with a copy, the sizes come from the headers of
/// groups.
fn by_copies(device: &dyn BlockDevice, primary: Option<Copy>) -> Option<SuperblockEvidence> {
    let (copies, has_rival) = search(device, primary.as_ref());
    let best = vote(device, &copies);
    if let Some(primary) = primary.as_ref() {
        let own = Witnesses::of(device, &primary.superblock.geometry);
        let uuid = primary.superblock.geometry.meta_uuid;
        let loses_to_primary = |best: &Elected<'_>| match own.compare(&best.witnesses) {
            Ordering::Less => false,
            Ordering::Equal => best.copy.superblock.geometry.meta_uuid != uuid,
            Ordering::Greater => true,
        };
        if best.as_ref().is_none_or(loses_to_primary) {
            return build(device, primary, SuperblockSource::Primary)
                .or_else(|| complete::find(device));
        }
    }
    let by_headers = || complete::find(device);
    let Some(Elected { copy, agreeing, witnesses }) = best else { return by_headers() };
    if witnesses.agreeing == 0
        && let Some(found) = by_headers()
    {
        return Some(found);
    }
    let found = u32::try_from(copies.len()).expect("at most MOST_COPIES are read");
    let mut best = copy.clone();
    let stated = primary.as_ref().unwrap_or(copy);
    let root = root::find(device, &Copy { disk: stated.disk, ..best.clone() }, &copies);
    best.disk.root_inode = root.into();
    place_realtime_inodes(&mut best.disk, root);
    let Witnesses { agreeing: groups, of, .. } = witnesses;
    let few = SuperblockDoubt::FewGroups { agreeing: groups, of };
    let doubt =
        if witnesses.is_half() { has_rival.then_some(SuperblockDoubt::Rival) } else { Some(few) };
    let built = build(device, &best, SuperblockSource::Copies { agreeing, found })?;
    Some(SuperblockEvidence { doubt, ..built })
}

/// Returns whether the device can hold no copy: the volume has only one group, or the device is cut
/// short.
fn is_only_one(device: &dyn BlockDevice, superblock: &Superblock) -> bool {
    superblock.geometry.ag_count == 1 || superblock.geometry.data_bytes() > device.length_bytes()
}

fn read_sector(device: &dyn BlockDevice, at: u64) -> Option<Vec<u8>> {
    let left = device.length_bytes().checked_sub(at)?;
    let length = usize::try_from(left).map_or(MAX_SECTOR_BYTES, |left| left.min(MAX_SECTOR_BYTES));
    // A later sector may be unreadable where the first one is not.
    [length, length.min(4096), length.min(512)].into_iter().find_map(|length| {
        let mut bytes = vec![0; length];
        device.read_at(&mut bytes, at).ok().map(|()| bytes)
    })
}

fn read_copy(device: &dyn BlockDevice, at: u64) -> Result<Copy, SuperblockError> {
    let bytes = read_sector(device, at).unwrap_or_default();
    let superblock = Superblock::decode(&bytes, StructureAddress::Disk(DiskAddr(at / 512)))?;
    // Damaged blocks of a v4 volume do not say what they are.
    if superblock.geometry.version == FormatVersion::V4 {
        return Err(Unsupported::Version4Damaged.into());
    }
    let (disk, _) = SuperblockDisk::read_from_prefix(&bytes)
        .expect("a superblock that was decoded is as long as its fields");
    Ok(Copy { disk, superblock })
}

/// Reads the copies of `superblock` at the starts of groups other than the first.
fn copies_of(device: &dyn BlockDevice, superblock: &Superblock) -> Vec<Copy> {
    let geometry = &superblock.geometry;
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let step = geometry.ag_count.div_ceil(MOST_COPIES).max(1);
    let groups = (1..geometry.ag_count).step_by(step as usize);
    groups
        .filter_map(|group| read_copy(device, u64::from(group).checked_mul(group_bytes)?).ok())
        .filter(|copy| copy.superblock.geometry.meta_uuid == geometry.meta_uuid)
        .collect()
}

/// Finds the copies of one volume on the device. Looks first where the sizes in `primary`, the
/// superblock in the first sector, put the copies. If there is no copy, searches the device.
/// Returns the copies, and whether the device may belong to another volume as well.
fn search(device: &dyn BlockDevice, primary: Option<&Copy>) -> (Vec<Copy>, bool) {
    let by_primary = primary.map(|copy| copies_of(device, &copy.superblock));
    if let Some(copies) = by_primary.filter(|copies| !copies.is_empty()) {
        return (copies, false);
    }
    let Some(search::BestCopy { copy, has_rival }) = search::find(device) else {
        return (Vec::new(), false);
    };
    let copies = copies_of(device, &copy.superblock);
    (if copies.is_empty() { vec![copy] } else { copies }, has_rival)
}

/// Returns the fields of a superblock that all copies of a volume share. The other fields are
/// zeros: counters, and fields that the kernel changes only in the primary superblock.
fn key(disk: &SuperblockDisk) -> SuperblockDisk {
    let runtime = VersionFlags::ATTR | VersionFlags::QUOTA;
    let incompat = disk.incompat.get() & !IncompatFeatures::NEEDSREPAIR.bits();
    SuperblockDisk {
        root_inode: 0.into(),
        realtime_bitmap_inode: 0.into(),
        realtime_summary_inode: 0.into(),
        version: (disk.version.get() & !runtime.bits()).into(),
        label: [0; 12],
        in_progress: 0,
        inode_max_percent: 0,
        inode_count: 0.into(),
        free_inodes: 0.into(),
        free_blocks: 0.into(),
        free_realtime_extents: 0.into(),
        user_quota_inode: 0.into(),
        group_quota_inode: 0.into(),
        project_quota_inode: 0.into(),
        quota_flags: 0.into(),
        incompat: incompat.into(),
        log_incompat: 0.into(),
        crc: [0; 4],
        lsn: 0.into(),
        ..*disk
    }
}

/// The copy of the superblock that won a vote of all copies.
struct Elected<'a> {
    copy: &'a Copy,
    /// Number of copies with the same shared fields, including this one.
    agreeing: u32,
    witnesses: Witnesses,
}

/// Returns the copy whose sizes the headers of the groups confirm best (see `Witnesses::compare`).
/// In a tie, the copy wins whose shared fields the most other copies repeat, and then the first
/// copy.
fn vote<'a>(device: &dyn BlockDevice, copies: &'a [Copy]) -> Option<Elected<'a>> {
    let mut versions: Vec<Elected<'a>> = Vec::new();
    for copy in copies {
        let wanted = key(&copy.disk);
        let is_same =
            |known: &&mut Elected<'_>| key(&known.copy.disk).as_bytes() == wanted.as_bytes();
        if let Some(known) = versions.iter_mut().find(is_same) {
            known.agreeing += 1;
        } else if versions.len() < MOST_VERSIONS {
            let witnesses = Witnesses::of(device, &copy.superblock.geometry);
            versions.push(Elected { copy, agreeing: 1, witnesses });
        }
    }
    // `max_by` returns the last of equal elements.
    versions.into_iter().rev().max_by(|one, other| {
        one.witnesses.compare(&other.witnesses).then(one.agreeing.cmp(&other.agreeing))
    })
}

/// Sets the numbers of the inodes of the realtime bitmap and summary if no copy states them.
/// mkfs.xfs makes these inodes directly after the root inode, also on a volume without a realtime
/// device.
fn place_realtime_inodes(disk: &mut SuperblockDisk, root: u64) {
    let is_metadir = disk.incompat.get() & IncompatFeatures::METADIR.bits() != 0;
    let is_unset = disk.realtime_bitmap_inode.get() == u64::MAX
        && disk.realtime_summary_inode.get() == u64::MAX;
    if let (Some(second), true, false) = (root.checked_add(2), is_unset, is_metadir) {
        disk.realtime_bitmap_inode = (second - 1).into();
        disk.realtime_summary_inode = second.into();
    }
}

/// Builds the superblock from `copy`. Fields that only the primary superblock has are taken from
/// the first sector if that sector still has the UUID of this volume.
fn build(
    device: &dyn BlockDevice,
    copy: &Copy,
    source: SuperblockSource,
) -> Option<SuperblockEvidence> {
    let mut disk = copy.disk;
    if source != SuperblockSource::Primary {
        disk.in_progress = 0;
        let raw = read_sector(device, 0).unwrap_or_default();
        let raw = SuperblockDisk::read_from_prefix(&raw).ok().map(|(raw, _)| raw);
        let is_own = |raw: &SuperblockDisk| {
            raw.magic.get() == SUPERBLOCK_MAGIC && raw.uuid == copy.disk.uuid
        };
        if let Some(raw) = raw.filter(is_own) {
            disk.label = raw.label;
            disk.inode_count = raw.inode_count;
            disk.free_inodes = raw.free_inodes;
            disk.free_blocks = raw.free_blocks;
            disk.lsn = raw.lsn;
            take_quota(device, &copy.superblock, &raw, &mut disk);
        }
    }
    finish(disk, source).or_else(|| {
        // Counters that cannot be right are left to a repair, which counts again.
        let zero = 0.into();
        let plain =
            SuperblockDisk { inode_count: zero, free_inodes: zero, free_blocks: zero, ..disk };
        finish(plain, source)
    })
}

/// Takes the quota inodes and the state of quota from `raw`: the damaged first sector or a logged
/// superblock. No copy has them. An inode number is left out if the inode can be read and is not a
/// quota inode of that type. The flags that say that the counts are right are not copied.
fn take_quota(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    raw: &SuperblockDisk,
    disk: &mut SuperblockDisk,
) {
    let evidence = Evidence::new(device, superblock);
    let usable = |number: U64, kind: QuotaKind| {
        let inode = InodeNumber(number.get());
        let is_set = inode.0 != 0 && !inode.is_null();
        if !is_set || superblock.geometry.split_inode(inode).is_none() {
            return None;
        }
        let found = evidence.inode(inode);
        let is_right = match found.state {
            InodeState::Sound(_) => evidence.quota_kind(&found) == Some(kind),
            InodeState::Free(_) => false,
            InodeState::Doubtful(..) | InodeState::Gone(_) => true,
        };
        is_right.then_some(number)
    };
    let user = usable(raw.user_quota_inode, QuotaKind::User);
    let group = usable(raw.group_quota_inode, QuotaKind::Group);
    let project = usable(raw.project_quota_inode, QuotaKind::Project);
    let mut known = QuotaFlags::empty();
    for (kind, number) in QuotaKind::ALL.into_iter().zip([user, group, project]) {
        if number.is_some() {
            known |= kind.accounted_flag() | kind.enforced_flag();
        }
    }
    if known.is_empty() {
        return;
    }
    disk.user_quota_inode = user.unwrap_or(disk.user_quota_inode);
    disk.group_quota_inode = group.unwrap_or(disk.group_quota_inode);
    disk.project_quota_inode = project.unwrap_or(disk.project_quota_inode);
    disk.quota_flags = (raw.quota_flags.get() & known.bits()).into();
    disk.version = (disk.version.get() | VersionFlags::QUOTA.bits()).into();
}

fn finish(disk: SuperblockDisk, source: SuperblockSource) -> Option<SuperblockEvidence> {
    let mut sector = vec![0; usize::from(disk.sector_size.get())];
    disk.write_to_prefix(&mut sector).ok()?;
    seal(&mut sector);
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).ok()?;
    Some(SuperblockEvidence { superblock, sector, source, doubt: None })
}
