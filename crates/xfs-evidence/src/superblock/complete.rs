//! Building a superblock without any copy of it: the fields that no group header states, from other
//! structures.
//!
//! Owns: the order in which these fields are found, and the doubts about the result. Does **not**
//! own: the sizes of the volume (`headers.rs`).
//!
//! ```text
//! sizes ─→ form and alignment of inode chunks ─→ inodes: features, directory blocks
//!       ─→ end of the volume                  ─→ root directory ─→ log
//! ```
//!
//! Label, stripe sizes, the limit on inodes and features that nothing uses are lost. The first
//! sector gives the label if that sector still has the UUID of the volume.

use xfs_device::BlockDevice;
use xfs_format::features::{IncompatFeatures, VersionFlags};
use xfs_format::superblock::SUPERBLOCK_MAGIC;
use xfs_format::{InodeNumber, SuperblockDisk};
use zerocopy::FromBytes;

use super::features::{self, Chunks, Shown};
use super::witnesses::Witnesses;
use super::{
    SuperblockDoubt, SuperblockEvidence, SuperblockSource, finish, headers, log_place,
    place_realtime_inodes, read_sector, root,
};
use crate::inode::InodeState;
use crate::sweep::sweep;
use crate::volume::Evidence;

/// Builds the superblock of a volume that has no copy of it, from the headers of groups and the
/// structures in the groups. Returns `None` if too few headers are left.
pub(super) fn find(device: &dyn BlockDevice) -> Option<SuperblockEvidence> {
    let headers::Found { mut disk, has_rival } = headers::find(device)?;
    let mut doubt = has_rival.then_some(SuperblockDoubt::Rival);
    finish(disk, SuperblockSource::GroupHeaders)?;
    find_end(device, &mut disk);
    take_label(device, &mut disk);
    match chunks(device, &disk) {
        Some(found) => set_chunks(&mut disk, found),
        None => doubt = doubt.or(Some(SuperblockDoubt::NoInodes)),
    }
    let read = finish(disk, SuperblockSource::GroupHeaders)?;
    let evidence = Evidence::new(device, &read.superblock);
    let shown = features::of_inodes(&evidence);
    set_features(&mut disk, &shown);
    let read = finish(disk, SuperblockSource::GroupHeaders)?;
    let evidence = Evidence::new(device, &read.superblock);
    let root = root::of_volume(&evidence);
    if let Some(root) = root {
        disk.root_inode = root.0.into();
        place_realtime_inodes(&mut disk, root.0);
    }
    let log = log_place::find(&evidence);
    if let Some(log) = log {
        let start = evidence.geometry().join_block(log.group, log.start);
        disk.log_start = start.0.into();
        disk.log_blocks = log.length_blocks.into();
        set_uuid(&mut disk, log.uuid.map(|uuid| *uuid.as_bytes()));
    }
    let found = finish(disk, SuperblockSource::GroupHeaders);
    // A place of the log that fails the checks of the superblock is not the place of the log.
    let Some(found) = found else {
        return Some(SuperblockEvidence { doubt: doubt.or(Some(SuperblockDoubt::NoLog)), ..read });
    };
    let doubt = doubt
        .or_else(|| of_sections(device, &found, &shown))
        .or_else(|| log.is_none().then_some(SuperblockDoubt::NoLog))
        .or_else(|| root.is_none().then_some(SuperblockDoubt::NoRoot))
        .or_else(|| of_groups(device, &found));
    Some(SuperblockEvidence { doubt, ..found })
}

/// Extends the volume by the groups after the last header that was found, up to the last one in
/// which a block states its own address. Every group has such blocks: the roots of its btrees.
/// Space without them is not part of the volume.
fn find_end(device: &dyn BlockDevice, disk: &mut SuperblockDisk) {
    let ag_blocks = u64::from(disk.ag_blocks.get());
    // Only the last group of a volume is shorter than the others.
    if disk.data_blocks.get().checked_rem(ag_blocks) != Some(0) {
        return;
    }
    let on_device = device.length_bytes() >> disk.block_log;
    let read = finish(*disk, SuperblockSource::GroupHeaders);
    let Some(longest) = read.and_then(|read| read.superblock.geometry.grown_to(on_device)) else {
        return;
    };
    let mut longer = *disk;
    longer.data_blocks = longest.data_blocks.into();
    longer.ag_count = longest.ag_count.into();
    let Some(read) = finish(longer, SuperblockSource::GroupHeaders) else { return };
    let evidence = Evidence::new(device, &read.superblock);
    let groups = longest.ag_count;
    let mut last = None;
    sweep(&evidence, disk.ag_count.get()..groups, &(), &mut |sighting, _| {
        let group = read.superblock.geometry.split_disk_addr(sighting.at);
        last = last.max(group.map(|(group, _)| group.0));
    });
    if let Some(last) = last {
        let blocks = (u64::from(last) + 1) * ag_blocks;
        disk.data_blocks = blocks.min(longest.data_blocks).into();
        disk.ag_count = (last + 1).into();
    }
}

/// Copies the label from the first sector if that sector still has the UUID of the volume.
fn take_label(device: &dyn BlockDevice, disk: &mut SuperblockDisk) {
    let raw = read_sector(device, 0).unwrap_or_default();
    let raw = SuperblockDisk::read_from_prefix(&raw).ok().map(|(raw, _)| raw);
    let is_own =
        |raw: &SuperblockDisk| raw.magic.get() == SUPERBLOCK_MAGIC && raw.uuid == disk.uuid;
    if let Some(raw) = raw.filter(is_own) {
        disk.label = raw.label;
    }
}

fn chunks(device: &dyn BlockDevice, disk: &SuperblockDisk) -> Option<Chunks> {
    let sparse = finish(*disk, SuperblockSource::GroupHeaders)?;
    let without = disk.incompat.get() & !IncompatFeatures::SPARSE_INODES.bits();
    let full = SuperblockDisk { incompat: without.into(), ..*disk };
    let full = finish(full, SuperblockSource::GroupHeaders)?;
    let sparse = Evidence::new(device, &sparse.superblock);
    features::chunks(&sparse, &Evidence::new(device, &full.superblock))
}

/// Sets the feature of sparse chunks and the alignment of inode chunks. As mkfs.xfs chooses it, the
/// alignment is the length of a chunk on a volume with sparse chunks, and otherwise the length of a
/// cluster. It is smaller if a chunk does not start at such a multiple.
fn set_chunks(disk: &mut SuperblockDisk, chunks: Chunks) {
    let (inode_bytes, block_log) = (u32::from(disk.inode_size.get()), u32::from(disk.block_log));
    let cluster_blocks = headers::cluster_bytes(inode_bytes) >> block_log;
    let chunk_blocks = (64 * inode_bytes) >> block_log;
    let mut incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
    incompat.set(IncompatFeatures::SPARSE_INODES, chunks.is_sparse);
    disk.incompat = incompat.bits().into();
    if chunks.is_sparse {
        disk.inode_alignment_blocks = chunk_blocks.into();
        disk.sparse_alignment_blocks = cluster_blocks.into();
    } else {
        disk.inode_alignment_blocks = cluster_blocks.min(chunks.alignment_blocks).into();
        disk.sparse_alignment_blocks = 0.into();
    }
}

fn set_features(disk: &mut SuperblockDisk, shown: &Shown) {
    let mut incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
    incompat.set(IncompatFeatures::BIGTIME, shown.has_big_times);
    incompat.set(IncompatFeatures::NREXT64, shown.has_large_counts);
    incompat.set(IncompatFeatures::PARENT, shown.has_parents);
    disk.incompat = incompat.bits().into();
    let mut version = VersionFlags::from_bits_retain(disk.version.get());
    version.set(VersionFlags::ATTR, shown.has_attributes);
    disk.version = version.bits().into();
    if let Some(log) = shown.directory_block_log {
        disk.directory_block_log = log;
    }
}

/// Sets the UUID that users see to `uuid`, the UUID in the log. It can differ from the UUID of the
/// metadata: after a change, only the superblock and the log have the new UUID.
fn set_uuid(disk: &mut SuperblockDisk, uuid: Option<[u8; 16]>) {
    let Some(uuid) = uuid.filter(|uuid| *uuid != disk.uuid && *uuid != [0; 16]) else { return };
    disk.meta_uuid = disk.uuid;
    disk.uuid = uuid;
    disk.incompat = (disk.incompat.get() | IncompatFeatures::META_UUID.bits()).into();
}

/// Returns a doubt if the volume has a realtime section or a metadata directory: only the
/// superblock has the sizes of the one and the place of the other.
fn of_sections(
    device: &dyn BlockDevice,
    found: &SuperblockEvidence,
    shown: &Shown,
) -> Option<SuperblockDoubt> {
    if shown.has_metadata_directory {
        return Some(SuperblockDoubt::MetadataDirectory);
    }
    let evidence = Evidence::new(device, &found.superblock);
    let superblock = &found.superblock;
    let has_bits = |number: InodeNumber| match evidence.inode(number).state {
        InodeState::Sound(core) => core.size != 0,
        _ => false,
    };
    let inodes = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
    let has_realtime = shown.has_realtime || inodes.into_iter().any(has_bits);
    has_realtime.then_some(SuperblockDoubt::Realtime)
}

/// Returns a doubt if fewer than half of the groups agree with the superblock.
fn of_groups(device: &dyn BlockDevice, found: &SuperblockEvidence) -> Option<SuperblockDoubt> {
    let witnesses = Witnesses::of(device, &found.superblock.geometry);
    let Witnesses { agreeing, of, .. } = witnesses;
    (!witnesses.is_half()).then_some(SuperblockDoubt::FewGroups { agreeing, of })
}
