//! Growing a volume.
//!
//! Owns: the changes of the volume's groups, on disk and in memory, and the crash argument. Does
//! **not** own the choice of the new size, nor the exclusion of other work (the caller has the
//! journal [frozen](Journal::freeze)).
//!
//! # Crash argument
//!
//! 1. The headers of new groups are written after the end of the volume and flushed. Nothing reads
//!    blocks after the end of the volume.
//! 2. One transaction changes the superblock, and extends the last of the old groups; the added
//!    blocks are free. Until the transaction is durable the volume has its old groups; from then on
//!    it has all groups. The superblock comes first in the transaction: a log replay must know the
//!    length of a group before it verifies the group's headers.
//! 3. Then the copies of the superblock are updated. Only repair tools read them.
//!
//! The superblock's count of free blocks is updated when the log is covered or ended; recovery
//! computes it from the groups.

use std::sync::Arc;

use xfs_buffer::{Error, IoError, Result};
use xfs_device::Durability;
use xfs_format::agi::AGI_SECTOR;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{
    AgNumber, BlockKind, Corruption, DiskAddr, Geometry, Structure, StructureAddress, Superblock,
};
use xfs_trans::{Journal, Transaction};
use zerocopy::FromBytes;

use crate::group::GroupSpace;
use crate::inodes::extend_groups;
use crate::open::{OpenedSpace, open_space};
use crate::space::AllocatorState;

/// Grows the volume to `geometry`, which differs from the volume's geometry only in its blocks and
/// groups. Does nothing if another thread has grown the volume to that size already. The growth is
/// durable on return.
///
/// The copies of the superblock are updated last. A copy that cannot be changed stays as it is. The
/// inner result is the first error of a copy, while the outer result is that of the growth.
///
/// # Errors
///
/// The device's error, or a corrupt header: the volume is unchanged. An error that stopped the log
/// during the change of the superblock: the volume is shut down, and has grown if the change is
/// durable.
#[doc(alias = "xfs_growfs_data")]
pub fn grow(journal: &Arc<Journal>, geometry: &Geometry) -> Result<Result<()>> {
    let before = journal.geometry();
    if geometry.data_blocks <= before.data_blocks {
        return Ok(Ok(()));
    }
    let with = |geometry: &Geometry| Superblock {
        geometry: geometry.clone(),
        ..journal.superblock().clone()
    };
    let superblock = with(geometry);
    let was = open_space(journal.cache(), &with(before))?;
    write_new_groups(journal, &superblock)?;
    change_groups(journal, before, geometry)?;
    refresh(journal, &superblock, &was).inspect_err(|_| {
        // The groups in memory do not match the volume: no thread may continue with them.
        let _ = journal.shut_down(xfs_log::Shutdown::Flush);
    })?;
    Ok(update_copies(journal, geometry))
}

/// Writes the headers of the new groups (step 1 of growing).
fn write_new_groups(journal: &Journal, superblock: &Superblock) -> Result<()> {
    let (device, geometry) = (journal.cache().device(), &superblock.geometry);
    let new = geometry.groups().skip(journal.geometry().ag_count as usize);
    for number in new {
        let headers = xfs_mkfs::encode_empty_group(superblock, number);
        let headers = headers.ok_or_else(|| outside(number))?;
        let at = geometry.header_disk_addr(number, 0);
        let offset = at.byte_offset().ok_or_else(|| outside(number))?;
        let written = device.write_at(&headers, offset, Durability::Cached);
        written.map_err(|source| io_error("write", at, headers.len(), source))?;
    }
    device.flush().map_err(|source| io_error("flush", DiskAddr(0), 0, source))
}

/// Changes the superblock and extends the last of the old groups, in one transaction (step 2 of
/// growing).
fn change_groups(journal: &Arc<Journal>, before: &Geometry, geometry: &Geometry) -> Result<()> {
    let mut tx = journal.begin_while_frozen(TransactionKind::Grow)?;
    tx.set_synchronous();
    tx.commit_or_cancel(|tx| change_in(tx, before, geometry))
}

fn change_in(tx: &mut Transaction<'_>, before: &Geometry, geometry: &Geometry) -> Result<()> {
    let last = AgNumber(before.ag_count - 1);
    let (sector, agi_at) = (geometry.sector_size, geometry.header_disk_addr(last, AGI_SECTOR));
    let superblock = tx.read(DiskAddr(0), sector, BlockKind::Superblock)?;
    let agi = tx.read(agi_at, sector, BlockKind::Agi)?;
    let group = GroupSpace::open(tx, last)?.ok_or_else(|| outside(last))?;
    tx.change(&superblock, 0..size_of::<SuperblockDisk>(), |bytes| {
        let (disk, _) = SuperblockDisk::mut_from_prefix(bytes)
            .unwrap_or_else(|_| unreachable!("the range has the size of a superblock"));
        disk.ag_count = geometry.ag_count.into();
        disk.data_blocks = geometry.data_blocks.into();
    });
    // From here on headers are verified against the new sizes. The headers that differ from those
    // on the device stay in memory until they are written.
    if geometry.ag_length(last) > before.ag_length(last) {
        return group.extend(tx, &agi, geometry);
    }
    tx.cache().set_geometry(geometry.clone());
    group.leave(tx);
    Ok(())
}

/// Updates the state in memory. The groups get the state that they would have if the volume had
/// just been opened. The counters are not set to new values; the growth is added to them. So a
/// thread that holds reserved blocks can still give the blocks back afterwards.
fn refresh(journal: &Journal, superblock: &Superblock, was: &OpenedSpace) -> Result<()> {
    let OpenedSpace { space, counts, pool } = open_space(journal.cache(), superblock)?;
    AllocatorState::of(journal).refresh(space);
    extend_groups(journal);
    let added = |now: u64, was: u64| now.wrapping_sub(was).cast_signed();
    journal.count_growth(added(counts.free_blocks, was.counts.free_blocks), added(pool, was.pool));
    Ok(())
}

/// Updates the copies of the superblock (step 3 of growing). A damaged copy does not prevent the
/// update of the other copies.
pub(crate) fn update_copies(journal: &Arc<Journal>, geometry: &Geometry) -> Result<()> {
    let primary = {
        let buffer =
            journal.cache().read(DiskAddr(0), geometry.sector_size, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        bytes.get(..size_of::<SuperblockDisk>()).expect("a sector holds a superblock").to_vec()
    };
    let mut updated = Ok(());
    for number in geometry.groups().skip(1) {
        updated = updated.and(update_copy(journal, number, &primary));
    }
    updated.and(journal.force_all())
}

fn update_copy(journal: &Arc<Journal>, number: AgNumber, primary: &[u8]) -> Result<()> {
    let geometry = journal.geometry();
    let at = geometry.header_disk_addr(number, 0);
    journal.begin_while_frozen(TransactionKind::Superblock)?.commit_or_cancel(|tx| {
        let copy = tx.read(at, geometry.sector_size, BlockKind::Superblock)?;
        tx.change(&copy, 0..primary.len(), |bytes| bytes.copy_from_slice(primary));
        Ok(())
    })
}

fn io_error(operation: &'static str, at: DiskAddr, length: usize, source: std::io::Error) -> Error {
    IoError::new(operation, at, length as u64, source).into()
}

#[cold]
pub(crate) fn outside(group: AgNumber) -> Error {
    let check = xfs_format::btree::BtreeCheck::Outside;
    Corruption::new(Structure::Agf, StructureAddress::Group(group), check).into()
}
