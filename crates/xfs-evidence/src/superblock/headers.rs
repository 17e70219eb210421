//! The sizes of a volume that has no superblock left. They are computed from structures that state
//! their own number or address.
//!
//! Owns: finding the headers of groups, and the sizes that follow from them. Does **not** own: the
//! log, the root directory and the features of inodes, which no header states (`complete.rs`).
//!
//! ```text
//! AGF      group, length in blocks, UUID; its distance from the AGI is a sector
//! root     a block of a btree states its own address: that gives the size of a block
//! AGF n    place of group n: that gives the length of the groups before it
//! inode    the distance of two numbers that follow each other is the size of an inode
//! ```

use xfs_device::BlockDevice;
use xfs_format::SuperblockDisk;
use xfs_format::agf::{AGF_MAGIC, AgfDisk};
use xfs_format::agi::{AGI_MAGIC, AgiDisk};
use xfs_format::btree::ShortHeaderDisk;
use xfs_format::crc;
use xfs_format::features::{Features2, IncompatFeatures, RoCompatFeatures, VersionFlags};
use xfs_format::inode::{INODE_MAGIC, InodeDisk};
use xfs_format::superblock::SUPERBLOCK_MAGIC;
use zerocopy::{FromBytes, FromZeros};

use crate::read_around::read_around;

/// Length of one read of the search, in bytes.
const SEARCH_BYTES: usize = 1 << 20;
/// The smallest sector, in bytes. Headers start at multiples of this length.
const STEP: usize = 512;
/// Offset of the checksum in an AGF.
const AGF_CRC: usize = 216;
/// The largest number of bytes of a group that are searched for inodes.
const INODE_SEARCH_BYTES: u64 = 256 << 20;
/// The largest number of groups whose headers are used.
const MOST_HEADERS: usize = 4096;
/// The largest number of headers from which the search tries to compute the sizes of the volume,
/// one after another.
const MOST_TRIED: usize = 64;
/// The length of the log, in blocks, that the built superblock states. It is the length of the
/// shortest log, because the true place and length are not known.
const LOG_BLOCKS: u32 = 512;
/// The size of an extent of the realtime device that mkfs.xfs chooses, in bytes.
const REALTIME_EXTENT_BYTES: u32 = 4096;
/// The version that the built superblock states.
const VERSION_5: u16 = 5;
/// Base-2 logarithm of the length in bytes of a directory block, as mkfs.xfs chooses it on volumes
/// whose blocks are smaller than that.
const DIRECTORY_BLOCK_LOG: u32 = 12;

/// The AGF and the AGI of one group, as they were found on the device.
struct Headers {
    /// Offset of the group on the device, in bytes.
    start: u64,
    sector_bytes: u32,
    agf: AgfDisk,
    agi: AgiDisk,
}

/// The sizes of the volume, computed from the headers of its groups.
struct Sizes {
    block_bytes: u32,
    ag_blocks: u32,
    ag_count: u32,
    data_blocks: u64,
    inode_bytes: u32,
}

/// A superblock with the sizes of the volume.
pub(super) struct Found {
    /// The superblock in its disk form. Its root inode and its log are not set, and it has all
    /// features that inodes can use. Its size is that up to the last group whose header was found.
    pub(super) disk: SuperblockDisk,
    /// Whether the device has headers of another volume, and no group at its start.
    pub(super) has_rival: bool,
}

/// Returns a superblock with the sizes of the volume, or `None` if too few headers are left.
pub(super) fn find(device: &dyn BlockDevice) -> Option<Found> {
    let headers = search(device);
    let is_start = |group: &&Headers| group.start == 0 && group.agf.group.get() == 0;
    let first_group = headers.iter().find(is_start);
    // The first group belongs to the volume. Other headers can lie in a file that holds a volume.
    first_group.into_iter().chain(&headers).take(MOST_TRIED).find_map(|first| {
        let is_own = |other: &&Headers| other.agf.uuid == first.agf.uuid;
        let of_volume: Vec<&Headers> = headers.iter().filter(is_own).collect();
        let sizes = sizes(device, &of_volume)?;
        let disk = build(of_volume.first()?, &sizes);
        let has_rival = first_group.is_none() && of_volume.len() < headers.len();
        Some(Found { disk, has_rival })
    })
}

/// Returns the length in bytes that mkfs.xfs chooses for an inode cluster.
pub(super) const fn cluster_bytes(inode_bytes: u32) -> u32 {
    (8 << 10) * (inode_bytes / 256)
}

/// Reads the device in order and collects the headers of groups.
fn search(device: &dyn BlockDevice) -> Vec<Headers> {
    let mut found: Vec<Headers> = Vec::new();
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = 0;
    while at < device.length_bytes() && found.len() < MOST_HEADERS {
        let left = device.length_bytes() - at;
        let count = usize::try_from(left).map_or(SEARCH_BYTES, |left| left.min(SEARCH_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        read_around(device, at, piece);
        let sectors = piece.chunks_exact(STEP).zip((at..).step_by(STEP));
        let agfs = sectors.filter(|(bytes, _)| bytes.starts_with(&AGF_MAGIC.to_be_bytes()));
        found.extend(agfs.filter_map(|(_, at)| headers_at(device, at)));
        at += count as u64;
    }
    found
}

/// Reads the headers of the group whose AGF lies at byte `at`. The AGI must follow in the next
/// sector, so the distance between the two gives the size of a sector.
fn headers_at(device: &dyn BlockDevice, at: u64) -> Option<Headers> {
    [512_u32, 1024, 2048, 4096, 8192, 16384, 32768].into_iter().find_map(|sector_bytes| {
        let mut bytes = vec![0; 2 * sector_bytes as usize];
        device.read_at(&mut bytes, at).ok()?;
        let (first, second) = bytes.split_at_checked(sector_bytes as usize)?;
        let (agf, _) = AgfDisk::read_from_prefix(first).ok()?;
        let (agi, _) = AgiDisk::read_from_prefix(second).ok()?;
        let start = at.checked_sub(sector_bytes.into())?;
        let is_sound = crc::stored(first, AGF_CRC) == crc::compute(first, AGF_CRC);
        let is_pair = agi.magic.get() == AGI_MAGIC
            && agi.group == agf.group
            && agi.length == agf.length
            && agi.uuid == agf.uuid;
        (is_sound && is_pair).then_some(Headers { start, sector_bytes, agf, agi })
    })
}

fn sizes(device: &dyn BlockDevice, headers: &[&Headers]) -> Option<Sizes> {
    let block_bytes = headers.iter().find_map(|group| block_bytes(device, group))?;
    let first = headers.first()?;
    let number = |group: &Headers| u64::from(group.agf.group.get());
    let later = headers.iter().find(|other| number(other) > number(first));
    let ag_bytes = match later {
        Some(other) => (other.start.checked_sub(first.start)?) / (number(other) - number(first)),
        None if number(first) > 0 => first.start / number(first),
        None => u64::from(first.agf.length.get()) * u64::from(block_bytes),
    };
    if first.start != number(first).checked_mul(ag_bytes)? {
        return None;
    }
    let ag_blocks = u32::try_from(ag_bytes / u64::from(block_bytes)).ok()?;
    let last = headers.iter().max_by_key(|group| number(group))?;
    let before = number(last) * u64::from(ag_blocks);
    let data_blocks = before.checked_add(last.agf.length.get().into())?;
    let ag_count = u32::try_from(data_blocks.div_ceil(ag_blocks.max(1).into())).ok()?;
    let inode_bytes = headers.iter().find_map(|group| inode_bytes(device, group))?;
    Some(Sizes { block_bytes, ag_blocks, ag_count, data_blocks, inode_bytes })
}

/// Returns the size of a filesystem block in bytes, found by trying each possible size. With the
/// right size, the pointer in the AGF leads to the root of the free-space btree, and this block
/// states the address at which it was found.
fn block_bytes(device: &dyn BlockDevice, group: &Headers) -> Option<u32> {
    (10..=16).map(|log| 1_u32 << log).find(|size| {
        let roots = [group.agf.by_block_root.get(), group.agf.by_size_root.get()];
        roots.into_iter().all(|root| {
            let at = group.start.saturating_add(u64::from(root) * u64::from(*size));
            let mut bytes = [0; size_of::<ShortHeaderDisk>()];
            let header = device
                .read_at(&mut bytes, at)
                .ok()
                .and_then(|()| ShortHeaderDisk::read_from_bytes(&bytes).ok());
            header.is_some_and(|header| {
                header.address.get() == at / 512 && header.uuid == group.agf.uuid
            })
        })
    })
}

/// Returns the size of an inode in bytes: the distance on the device between two inodes with
/// consecutive numbers.
fn inode_bytes(device: &dyn BlockDevice, group: &Headers) -> Option<u32> {
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = group.start;
    let end = group.start.saturating_add(INODE_SEARCH_BYTES).min(device.length_bytes());
    while at < end {
        let count = usize::try_from(end - at).map_or(SEARCH_BYTES, |left| left.min(SEARCH_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        read_around(device, at, piece);
        if let Some(found) = inode_distance(piece, group) {
            return Some(found);
        }
        at += count as u64;
    }
    None
}

fn inode_distance(piece: &[u8], group: &Headers) -> Option<u32> {
    let inode_at = |offset: usize| {
        let bytes = piece.get(offset..)?;
        let (disk, _) = InodeDisk::ref_from_prefix(bytes).ok()?;
        let is_own = disk.magic.get() == INODE_MAGIC && disk.uuid == group.agf.uuid;
        is_own.then(|| disk.number.get())
    };
    (0..piece.len()).step_by(STEP).find_map(|offset| {
        let number = inode_at(offset)?;
        let sizes = [512_u32, 1024, 2048].into_iter();
        let mut sizes = sizes.filter(|size| inode_at(offset + *size as usize).is_some());
        sizes.next().filter(|size| inode_at(offset + *size as usize) == number.checked_add(1))
    })
}

fn build(group: &Headers, sizes: &Sizes) -> SuperblockDisk {
    let none = u64::MAX.into();
    let (block_log, inode_log) = (sizes.block_bytes.ilog2(), sizes.inode_bytes.ilog2());
    let with_sectors = group.sector_bytes > 512;
    let sector_log = group.sector_bytes.ilog2() as u8;
    let mut version = VersionFlags::NLINK
        | VersionFlags::ALIGN
        | VersionFlags::LOGV2
        | VersionFlags::EXTFLG
        | VersionFlags::DIRV2
        | VersionFlags::MOREBITS;
    version.set(VersionFlags::SECTOR, with_sectors);
    let features2 =
        Features2::CRC | Features2::PROJID32 | Features2::LAZYSBCOUNT | Features2::ATTR2;
    let chunk_blocks = (64 * sizes.inode_bytes) >> block_log;
    SuperblockDisk {
        magic: SUPERBLOCK_MAGIC.into(),
        block_size: sizes.block_bytes.into(),
        data_blocks: sizes.data_blocks.into(),
        uuid: group.agf.uuid,
        root_inode: none,
        realtime_bitmap_inode: none,
        realtime_summary_inode: none,
        realtime_extent_blocks: (REALTIME_EXTENT_BYTES >> block_log).max(1).into(),
        ag_blocks: sizes.ag_blocks.into(),
        ag_count: sizes.ag_count.into(),
        log_blocks: LOG_BLOCKS.into(),
        version: (version.bits() | VERSION_5).into(),
        sector_size: (group.sector_bytes as u16).into(),
        inode_size: (sizes.inode_bytes as u16).into(),
        inodes_per_block: (1_u16 << block_log.saturating_sub(inode_log)).into(),
        block_log: block_log as u8,
        sector_log,
        inode_log: inode_log as u8,
        inodes_per_block_log: block_log.saturating_sub(inode_log) as u8,
        ag_blocks_log: sizes.ag_blocks.next_power_of_two().trailing_zeros() as u8,
        inode_alignment_blocks: chunk_blocks.into(),
        sparse_alignment_blocks: (cluster_bytes(sizes.inode_bytes) >> block_log).into(),
        directory_block_log: DIRECTORY_BLOCK_LOG.saturating_sub(block_log) as u8,
        log_sector_log: if with_sectors { sector_log } else { 0 },
        log_sector_size: (if with_sectors { group.sector_bytes as u16 } else { 0 }).into(),
        log_stripe_unit_bytes: 1.into(),
        features2: features2.bits().into(),
        bad_features2: features2.bits().into(),
        ro_compat: ro_compat(group).bits().into(),
        incompat: incompat().bits().into(),
        ..SuperblockDisk::new_zeroed()
    }
}

/// Returns the read-only compatible features that the headers show to be in use, such as an
/// optional btree.
fn ro_compat(group: &Headers) -> RoCompatFeatures {
    let (agf, agi) = (&group.agf, &group.agi);
    let mut features = RoCompatFeatures::empty();
    features.set(RoCompatFeatures::RMAPBT, agf.reverse_map_levels.get() != 0);
    features.set(RoCompatFeatures::REFLINK, agf.refcount_levels.get() != 0);
    features.set(RoCompatFeatures::FINOBT, agi.free_levels.get() != 0);
    features.set(RoCompatFeatures::INOBTCNT, agi.inode_btree_blocks.get() != 0);
    features
}

/// Returns the incompatible features with which the inodes are first read: all that inodes can use.
/// Each structure shows by itself whether it uses one of these features. `complete.rs` later
/// removes the features that nothing uses, except FTYPE, which all volumes of version 5 have.
fn incompat() -> IncompatFeatures {
    IncompatFeatures::FTYPE
        | IncompatFeatures::SPARSE_INODES
        | IncompatFeatures::BIGTIME
        | IncompatFeatures::NREXT64
        | IncompatFeatures::PARENT
}
