//! The counters of realtime groups, compared with the sums of their reverse maps. xfs_repair does
//! not compare them on zoned volumes.
//!
//! The sums are counted here, from the blocks of the btrees on the device, and by no code of the
//! writer or of the checker.

use std::sync::Arc;

use ferroxfs::device::SharedDevice;
use ferroxfs::raw::Superblock;
use ferroxfs::{InodeNumber, Node, OpenOptions, Volume};
use xfs_device::{BlockDevice, Durability};
use xfs_format::realtime::{RealtimeReverseMapTree, RealtimeTreeBlock, RealtimeTreeEntries};
use xfs_format::{BlockKind, FsBlock, IncompatFeatures};
use xfs_testkit::CowDevice;

use crate::disks::VolumeDisks;

/// Offsets in an inode of version 3: its length without forks, the offset of the attribute fork in
/// units of 8 bytes, and the count of used blocks of a zone.
const CORE_BYTES: usize = 176;
const FORK_OFFSET: usize = 82;
const USED_OFFSET: usize = 128;

/// The most levels of a btree.
const LEVELS_MAX: u32 = 9;

/// Checks the counters of all realtime groups of a recovered volume. In zones, the count in the
/// inode of the reverse map must equal the blocks of all records. In other groups, the free extents
/// of the superblock must equal the blocks that no record covers.
///
/// # Errors
///
/// The counter that differs.
pub(crate) fn check_sums(device: CowDevice) -> Result<(), String> {
    let disks = VolumeDisks::inside(Arc::new(device));
    let data = Arc::clone(disks.data());
    let volume = disks.with(&OpenOptions::new()).open().map_err(|error| error.to_string())?;
    let superblock = volume.superblock().clone();
    let realtime = &superblock.geometry.realtime;
    if realtime.group_count == 0 {
        return Ok(());
    }
    let is_zoned = superblock.geometry.has_incompat(IncompatFeatures::ZONED);
    let mut free = 0;
    for number in 0..realtime.group_count {
        let inode = reverse_map(&volume, number).map_err(|error| error.to_string())?;
        let counted = MapRecords::read(&data, &superblock, inode)?;
        free += realtime.group_length(number).saturating_sub(counted.covered());
        let sum = counted.of_files();
        if is_zoned && sum != u64::from(counted.used) {
            return Err(format!("zone {number} counts {} blocks of {sum}", counted.used));
        }
    }
    let counted = superblock.free_realtime_extents;
    if !is_zoned && counted != free {
        return Err(format!("{counted} free realtime extents, but no record covers {free}"));
    }
    Ok(())
}

/// Adds 1 to the count of used blocks of the first zone. A judge must reject the device.
pub(crate) fn forge_count(device: &CowDevice) -> Result<(), String> {
    let disks = VolumeDisks::inside(Arc::new(device.fork()));
    let volume = disks.with(&OpenOptions::new()).open().map_err(|error| error.to_string())?;
    let superblock = volume.superblock().clone();
    let number = reverse_map(&volume, 0).map_err(|error| error.to_string())?;
    let (at, mut inode) = read_inode(device, &superblock, number)?;
    let count = inode.get_mut(USED_OFFSET + 3).ok_or("a short inode")?;
    *count = count.wrapping_add(1);
    xfs_testkit::reseal(&mut inode, BlockKind::InodeCluster, &superblock.geometry);
    device.write_at(&inode, at, Durability::Cached).map_err(|error| error.to_string())
}

/// Returns the inode of the reverse map of a group.
fn reverse_map(volume: &Volume, group: u32) -> ferroxfs::Result<InodeNumber> {
    let groups: Node = volume.metadata_root()?.lookup("rtgroups".as_ref())?;
    Ok(groups.lookup(format!("{group}.rmap").as_ref())?.number())
}

/// Returns the offset and the bytes of an inode.
fn read_inode(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    number: InodeNumber,
) -> Result<(u64, Vec<u8>), String> {
    let place = superblock.geometry.inode_location(number).ok_or("no such inode")?;
    let start = place.cluster.byte_offset().ok_or("an inode past all devices")?;
    let at = start + u64::from(place.offset_bytes);
    let mut bytes = vec![0; superblock.geometry.inode_size as usize];
    device.read_at(&mut bytes, at).map_err(|error| error.to_string())?;
    Ok((at, bytes))
}

/// The records of a group's reverse map: first block, number of blocks, owner.
struct MapRecords {
    /// The count in the inode.
    used: u32,
    records: Vec<(u32, u32, u64)>,
}

impl MapRecords {
    fn read(
        data: &SharedDevice,
        superblock: &Superblock,
        number: InodeNumber,
    ) -> Result<Self, String> {
        let (_, inode) = read_inode(&**data, superblock, number)?;
        let used = word(&inode, USED_OFFSET)?;
        let fork = usize::from(*inode.get(FORK_OFFSET).ok_or("a short inode")?) * 8;
        let end = if fork == 0 { inode.len() } else { CORE_BYTES + fork };
        let root = inode.get(CORE_BYTES..end).ok_or("a short inode")?;
        let root = RealtimeTreeEntries::of_root::<RealtimeReverseMapTree>(root);
        let root = root.map_err(|check| check.to_string())?;
        let mut found = Self { used, records: Vec::new() };
        found.visit(data, superblock, &root, 0)?;
        Ok(found)
    }

    fn visit(
        &mut self,
        data: &SharedDevice,
        superblock: &Superblock,
        entries: &RealtimeTreeEntries<'_>,
        depth: u32,
    ) -> Result<(), String> {
        if depth > LEVELS_MAX {
            return Err("a btree with too many levels".to_owned());
        }
        for record in entries.records() {
            let owner = record.get(8..16).and_then(|bytes| bytes.first_chunk());
            let owner = u64::from_be_bytes(*owner.ok_or("a short record")?);
            self.records.push((word(record, 0)?, word(record, 4)?, owner));
        }
        for (_, child) in entries.children() {
            let block = read_block(data, superblock, child)?;
            let at = superblock.geometry.block_disk_addr(child).ok_or("a block past the end")?;
            let block = RealtimeTreeBlock::decode::<RealtimeReverseMapTree>(&block, at);
            let block = block.map_err(|error| error.to_string())?;
            self.visit(data, superblock, &block.entries, depth + 1)?;
        }
        Ok(())
    }

    /// Returns the sum of the blocks that files own. Owners with the highest bit are no inodes.
    fn of_files(&self) -> u64 {
        let of_files = self.records.iter().filter(|(_, _, owner)| owner >> 63 == 0);
        of_files.map(|(_, count, _)| u64::from(*count)).sum()
    }

    /// Returns the number of blocks that at least one record covers. Records of shared blocks
    /// overlap.
    fn covered(&self) -> u64 {
        let mut ranges: Vec<_> = self
            .records
            .iter()
            .map(|(start, count, _)| (u64::from(*start), u64::from(*start) + u64::from(*count)))
            .collect();
        ranges.sort_unstable();
        let (mut covered, mut end) = (0, 0);
        for (start, next) in ranges {
            covered += next.saturating_sub(start.max(end));
            end = end.max(next);
        }
        covered
    }
}

fn read_block(
    data: &SharedDevice,
    superblock: &Superblock,
    block: FsBlock,
) -> Result<Vec<u8>, String> {
    let at = superblock.geometry.block_disk_addr(block).and_then(|at| at.byte_offset());
    let mut bytes = vec![0; superblock.geometry.block_size as usize];
    let at = at.ok_or("a block past the end")?;
    data.read_at(&mut bytes, at).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn word(bytes: &[u8], offset: usize) -> Result<u32, String> {
    let bytes = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    Ok(u32::from_be_bytes(*bytes.ok_or("a short structure")?))
}
