//! The last steps of a replay: refusing work that needs transactions, and computing the counters of
//! the superblock.

use xfs_buffer::{Error, IoError, Result};
use xfs_device::{BlockDevice, Durability};
use xfs_format::agf::{AGF_SECTOR, Agf, BtreeRoot};
use xfs_format::agi::{AGI_SECTOR, Agi};
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeKind};
use xfs_format::features::Features2;
use xfs_format::log_item::LogItemCheck;
use xfs_format::superblock::{self, SuperblockDisk};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, DiskAddr, FormatVersion, InodeNumber, Structure,
    StructureAddress, Superblock, VerifyContext,
};
use zerocopy::FromBytes;

use super::refusal::{RecoveryError, Refusal};
use super::{Leftovers, Replayed};

/// The bit in the first block number of a reference count record that marks blocks reserved for
/// copy-on-write.
const COPY_ON_WRITE_BIT: u32 = 1 << 31;

/// Returns an error that names the first work that needs transactions, if the replay left any.
pub(super) fn refuse(replayed: &Replayed) -> Result<(), RecoveryError> {
    if let Some(first) = replayed.intents.first() {
        let (count, kind, lsn) = (replayed.intents.len(), first.kind(), first.lsn());
        return Err(Refusal::UnfinishedIntents { count, kind, lsn }.into());
    }
    if let Some((group, inode)) = first_unlinked(replayed)? {
        return Err(Refusal::UnlinkedInode { group, inode }.into());
    }
    refuse_copies(replayed)
}

fn first_unlinked(replayed: &Replayed) -> Result<Option<(AgNumber, InodeNumber)>> {
    for group in replayed.superblock.geometry.groups() {
        let agi = read_agi(replayed, group)?;
        if let Some((_, inode)) = agi.unlinked_heads().next() {
            return Ok(Some((group, replayed.superblock.geometry.join_inode(group, inode))));
        }
    }
    Ok(None)
}

/// Returns an error if blocks are reserved for copy-on-write.
#[doc(alias = "xfs_reflink_recover_cow")]
fn refuse_copies(replayed: &Replayed) -> Result<(), RecoveryError> {
    for group in replayed.superblock.geometry.groups() {
        let Some(root) = read_agf(replayed, group)?.refcount else { continue };
        if has_copies(replayed, group, root)? {
            return Err(Refusal::CopyOnWriteLeftovers { group }.into());
        }
    }
    Ok(())
}

/// Returns whether blocks of a group are reserved for copy-on-write. `root` is the root of the
/// group's reference count btree. Reads only the last record of this btree, because the records of
/// reserved blocks come last.
fn has_copies(replayed: &Replayed, group: AgNumber, root: BtreeRoot) -> Result<bool> {
    let geometry = &replayed.superblock.geometry;
    let kind = BtreeKind::Refcount;
    let mut block = root.block;
    for expected in (0..root.levels).rev() {
        let at = geometry.ag_block_disk_addr(group, block);
        let length = geometry.block_size as usize;
        let bytes = read_verified(replayed, at, length, BlockKind::Btree(kind))?;
        let node = BtreeBlock::decode(&bytes, kind, at)?;
        let corrupt = |check: BtreeCheck| {
            Corruption::new(Structure::Btree, StructureAddress::Disk(at), check)
        };
        let found = node.level();
        if found != expected {
            return Err(corrupt(BtreeCheck::LevelOnPath { found, expected }).into());
        }
        let Some(last) = node.count().checked_sub(1) else {
            // Only a leaf without a parent may be empty.
            return if root.levels == 1 {
                Ok(false)
            } else {
                Err(corrupt(BtreeCheck::EmptyLeaf).into())
            };
        };
        if node.is_leaf() {
            let start = node.record(last).and_then(<[u8]>::first_chunk::<4>);
            let start = start.expect("a decoded leaf holds its records");
            return Ok(u32::from_be_bytes(*start) & COPY_ON_WRITE_BIT != 0);
        }
        let child = node.pointer(last).expect("a decoded node holds its children");
        block = AgBlock(u32::try_from(child).expect("a pointer inside a group has 32 bits"));
    }
    unreachable!("a verified header gives a btree at least one level")
}

/// Computes the counters of the superblock as sums over the groups. The counters are not logged
/// with each change.
#[doc(alias = "xfs_initialize_perag_data")]
pub(super) fn recount(replayed: &mut Replayed) -> Result<()> {
    let geometry = &replayed.superblock.geometry;
    // Without lazy counters, every transaction logs the superblock with exact counters, and the
    // headers of groups do not count the blocks of btrees.
    if !replayed.superblock.features2.contains(Features2::LAZYSBCOUNT) {
        return Ok(());
    }
    let (mut inodes, mut free_inodes, mut free_blocks) = (0_u64, 0_u64, 0_u64);
    for group in geometry.groups() {
        let (agf, agi) = (read_agf(replayed, group)?, read_agi(replayed, group)?);
        inodes += u64::from(agi.count);
        free_inodes += u64::from(agi.free_count);
        free_blocks += u64::from(agf.free_blocks)
            + u64::from(agf.free_list.count)
            + u64::from(agf.btree_blocks);
    }
    let corrupt = |what, stored, limit| {
        let check = LogItemCheck::Counter { what, stored, limit };
        Error::from(Corruption::new(
            Structure::Superblock,
            StructureAddress::Disk(DiskAddr(0)),
            check,
        ))
    };
    if free_blocks > geometry.data_blocks {
        return Err(corrupt("free blocks", free_blocks, geometry.data_blocks));
    }
    if free_inodes > inodes {
        return Err(corrupt("free inodes", free_inodes, inodes));
    }
    let mut sector = read(replayed, DiskAddr(0), geometry.sector_size as usize)?;
    let (disk, _) = SuperblockDisk::mut_from_prefix(&mut sector)
        .map_err(|_| ())
        .expect("a sector holds a superblock");
    disk.inode_count = inodes.into();
    disk.free_inodes = free_inodes.into();
    disk.free_blocks = free_blocks.into();
    let quota_flags = disk.quota_flags.get() & !replayed.stale_quota.bits();
    disk.quota_flags = quota_flags.into();
    let is_v5 = geometry.version == FormatVersion::V5;
    if replayed.leftovers == Leftovers::Refused && is_v5 {
        // The log is empty now: nothing in it needs a feature any more.
        disk.log_incompat = 0.into();
    }
    if is_v5 {
        superblock::seal(&mut sector);
    }
    replayed.superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))?;
    replayed.device.write_at(&sector, 0, Durability::Cached).map_err(|source| {
        let (at, length_bytes) = (DiskAddr(0), sector.len() as u64);
        Error::Io(IoError::new("replay", at, length_bytes, source))
    })
}

fn read_agf(replayed: &Replayed, group: AgNumber) -> Result<Agf> {
    let geometry = &replayed.superblock.geometry;
    let at = geometry.header_disk_addr(group, AGF_SECTOR);
    let sector = read_verified(replayed, at, geometry.sector_size as usize, BlockKind::Agf)?;
    Ok(Agf::decode(&sector, at, geometry)?)
}

fn read_agi(replayed: &Replayed, group: AgNumber) -> Result<Agi> {
    let geometry = &replayed.superblock.geometry;
    let at = geometry.header_disk_addr(group, AGI_SECTOR);
    let sector = read_verified(replayed, at, geometry.sector_size as usize, BlockKind::Agi)?;
    Ok(Agi::decode(&sector, at, geometry)?)
}

fn read_verified(
    replayed: &Replayed,
    at: DiskAddr,
    length: usize,
    kind: BlockKind,
) -> Result<Vec<u8>> {
    let bytes = read(replayed, at, length)?;
    let geometry = &replayed.superblock.geometry;
    let context = VerifyContext { geometry, log_head: Some(replayed.state.head) };
    kind.verify(&bytes, at, &context)?;
    Ok(bytes)
}

fn read(replayed: &Replayed, at: DiskAddr, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let offset = at.byte_offset().unwrap_or(u64::MAX);
    replayed
        .device
        .read_at(&mut bytes, offset)
        .map_err(|source| Error::Io(IoError::new("read", at, length as u64, source)))?;
    Ok(bytes)
}
