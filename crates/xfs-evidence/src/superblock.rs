//! The superblock of a volume whose first sector may be damaged.
//!
//! Owns: finding the copies, and building one superblock from all of them. Does **not** own: the
//! checks of one superblock.
//!
//! ```text
//! primary sound ─→ a copy agrees, or none can be read ─→ the primary
//!     │ no             │ no
//!     └────────────────┴─→ copies at likely distances, else the first one on the device
//!                              └─→ the sizes that most copies state, the rest from the primary
//! ```

use xfs_device::BlockDevice;
use xfs_format::features::{IncompatFeatures, VersionFlags};
use xfs_format::superblock::{SUPERBLOCK_MAGIC, SuperblockError, seal};
use xfs_format::{DiskAddr, StructureAddress, Superblock, SuperblockDisk};
use zerocopy::{FromBytes, IntoBytes};

/// The longest sector, in bytes.
const MAX_SECTOR_BYTES: usize = 32 << 10;
/// The shortest group, in bytes.
const MIN_GROUP_BYTES: u64 = 16 << 20;
/// The most groups that are tried as the number of groups of the device.
const MOST_DIVISIONS: u64 = 2048;
/// The most copies that are read.
const MOST_COPIES: u32 = 4096;
/// Length of one read of the search, in bytes.
const SEARCH_BYTES: usize = 1 << 20;
/// Groups start at multiples of the smallest block, in bytes.
const SEARCH_STEP: usize = 1024;

/// A superblock, and where it comes from.
#[derive(Clone, Debug)]
pub struct SuperblockEvidence {
    /// The superblock, which passed all checks.
    pub superblock: Superblock,
    /// The superblock in its disk form, sealed. It is as long as a sector.
    pub sector: Vec<u8>,
    /// The source of the sizes.
    pub source: SuperblockSource,
}

/// The source of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockSource {
    /// The first sector of the volume.
    Primary,
    /// The copies in other groups.
    Copies {
        /// Number of copies that state these sizes.
        agreeing: u32,
        /// Number of copies that were found.
        found: u32,
    },
}

/// A superblock that was read from some place.
#[derive(Clone)]
struct Copy {
    disk: SuperblockDisk,
    superblock: Superblock,
}

/// Finds the superblock of the volume on `device`.
///
/// The search for copies can read the whole device, if the primary is damaged and no copy lies
/// where mkfs.xfs would have put it. Returns `None` if there is no superblock that passes its
/// checks.
///
/// # Errors
///
/// Returns the reason if a superblock is sound but its volume is not supported, as version 4 is
/// not.
pub fn find_superblock(
    device: &dyn BlockDevice,
) -> Result<Option<SuperblockEvidence>, SuperblockError> {
    let primary = match read_copy(device, 0) {
        // The version is checked before the checksum, so a damaged version looks like an old one.
        Err(error @ SuperblockError::Unsupported(_))
            if likely_places(device).all(|at| read_copy(device, at).is_err()) =>
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
            return Ok(build(device, primary, SuperblockSource::Primary));
        }
    }
    let copies = search(device, primary.as_ref());
    let Some((best, agreeing)) = vote(&copies) else {
        return Ok(primary.and_then(|copy| build(device, &copy, SuperblockSource::Primary)));
    };
    let found = u32::try_from(copies.len()).expect("at most MOST_COPIES are read");
    let mut best = best.clone();
    best.disk.root_inode = root_of(&copies, primary.as_ref()).into();
    Ok(build(device, &best, SuperblockSource::Copies { agreeing, found }))
}

/// Returns whether no copy can be expected: there is one group, or the device is cut short.
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
    let (disk, _) = SuperblockDisk::read_from_prefix(&bytes)
        .expect("a superblock that was decoded is as long as its fields");
    Ok(Copy { disk, superblock })
}

/// Reads the copies where `superblock` says that groups begin, without the primary.
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

/// Finds copies on the device: where the primary's sizes put them, where a division of the device
/// into equal groups puts them, and else at the first place that holds one.
fn search(device: &dyn BlockDevice, primary: Option<&Copy>) -> Vec<Copy> {
    let by_primary = primary.map(|copy| copies_of(device, &copy.superblock));
    if let Some(copies) = by_primary.filter(|copies| !copies.is_empty()) {
        return copies;
    }
    let first = likely_places(device).find_map(|at| read_copy(device, at).ok());
    let first = first.or_else(|| search_device(device));
    first.map_or_else(Vec::new, |copy| {
        let copies = copies_of(device, &copy.superblock);
        if copies.is_empty() { vec![copy] } else { copies }
    })
}

/// Returns the places of the second group if the device has 2, 3, … equal groups, for each size of
/// a block.
fn likely_places(device: &dyn BlockDevice) -> impl Iterator<Item = u64> + use<> {
    let length = device.length_bytes();
    let most = (length / MIN_GROUP_BYTES).min(MOST_DIVISIONS);
    (2..=most).flat_map(move |count| {
        [4096_u64, 1024, 2048, 8192, 16384, 32768, 65536]
            .map(move |block| (length / block).div_ceil(count) * block)
    })
}

/// Reads the device in order, up to the first copy.
fn search_device(device: &dyn BlockDevice) -> Option<Copy> {
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = MIN_GROUP_BYTES;
    while at < device.length_bytes() {
        let left = device.length_bytes() - at;
        let count = usize::try_from(left).map_or(SEARCH_BYTES, |left| left.min(SEARCH_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        if device.read_at(piece, at).is_ok() {
            let places = piece.chunks(SEARCH_STEP).zip((at..).step_by(SEARCH_STEP));
            let is_one = |bytes: &[u8]| bytes.starts_with(&SUPERBLOCK_MAGIC.to_be_bytes());
            let mut found = places.filter(|(bytes, _)| is_one(bytes));
            if let Some(copy) = found.find_map(|(_, at)| read_copy(device, at).ok()) {
                return Some(copy);
            }
        }
        at += count as u64;
    }
    None
}

/// Returns the fields of a superblock that all copies of a volume share. The other fields are
/// zeros: counters, and what the kernel changes in the primary only.
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

/// Returns the copy whose shared fields most copies have, and their number. The first wins a tie.
fn vote(copies: &[Copy]) -> Option<(&Copy, u32)> {
    let mut best: Option<(&Copy, u32)> = None;
    // Copies that differ are few: a copy is read only if its checksum is right.
    for copy in copies.iter().take(64) {
        let wanted = key(&copy.disk);
        let agreeing =
            copies.iter().filter(|other| key(&other.disk).as_bytes() == wanted.as_bytes()).count();
        let agreeing = u32::try_from(agreeing).expect("at most MOST_COPIES are read");
        if best.is_none_or(|(_, most)| agreeing > most) {
            best = Some((copy, agreeing));
        }
    }
    best
}

/// Returns the root inode that most superblocks state. mkfs.xfs writes it into few copies, and all
/// ones into the others.
fn root_of(copies: &[Copy], primary: Option<&Copy>) -> u64 {
    let roots: Vec<u64> = copies
        .iter()
        .chain(primary)
        .map(|copy| copy.disk.root_inode.get())
        .filter(|root| *root != u64::MAX)
        .collect();
    let votes = |root: u64| roots.iter().filter(|other| **other == root).count();
    roots.iter().copied().max_by_key(|root| votes(*root)).unwrap_or(u64::MAX)
}

/// Builds the superblock. Fields that only the primary has are taken from the first sector if it
/// still names this volume.
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

fn finish(disk: SuperblockDisk, source: SuperblockSource) -> Option<SuperblockEvidence> {
    let mut sector = vec![0; usize::from(disk.sector_size.get())];
    disk.write_to_prefix(&mut sector).ok()?;
    seal(&mut sector);
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).ok()?;
    Some(SuperblockEvidence { superblock, sector, source })
}
