//! Changes of the quota fields of the superblock.
//!
//! Owns: the transactions that change flags and inode numbers. Does **not** own: the decision which
//! flags are set.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::features::VersionFlags;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{AgNumber, BlockKind, InodeNumber};
use xfs_trans::{Journal, Transaction};
use zerocopy::FromBytes;

/// Changes the quota flags in a transaction of its own. Logs nothing if `change` returns the flags
/// as they are.
///
/// # Errors
///
/// Returns the error that stopped the log.
pub(crate) fn change_flags(
    journal: &Arc<Journal>,
    change: impl FnOnce(QuotaFlags) -> QuotaFlags,
) -> Result<()> {
    let tx = journal.begin(TransactionKind::Superblock, 0)?;
    tx.commit_or_cancel(|tx| change_fields(tx, change, |_| {}))
}

/// Stores the number of a new quota inode in the superblock, in the transaction that makes the
/// inode.
pub(crate) fn set_inode(
    tx: &mut Transaction<'_>,
    kind: QuotaKind,
    inode: InodeNumber,
) -> Result<()> {
    change_fields(
        tx,
        |flags| flags,
        |disk| {
            let number = inode.0.into();
            match kind {
                QuotaKind::User => disk.user_quota_inode = number,
                QuotaKind::Group => disk.group_quota_inode = number,
                QuotaKind::Project => disk.project_quota_inode = number,
            }
            disk.version = (disk.version.get() | VersionFlags::QUOTA.bits()).into();
        },
    )
}

/// Sets the bit of the superblock that says that the volume has quota inodes.
pub(crate) fn set_quota_bit(tx: &mut Transaction<'_>) -> Result<()> {
    let add_bit = |disk: &mut SuperblockDisk| {
        disk.version = (disk.version.get() | VersionFlags::QUOTA.bits()).into();
    };
    change_fields(tx, |flags| flags, add_bit)
}

fn change_fields(
    tx: &mut Transaction<'_>,
    flags: impl FnOnce(QuotaFlags) -> QuotaFlags,
    change: impl FnOnce(&mut SuperblockDisk),
) -> Result<()> {
    let geometry = tx.geometry();
    let at = geometry.header_disk_addr(AgNumber(0), 0);
    let buffer = tx.read(at, geometry.sector_size, BlockKind::Superblock)?;
    let (mut new, old) = {
        let bytes = buffer.bytes();
        let (disk, _) = SuperblockDisk::ref_from_prefix(&bytes)
            .expect("a sector is longer than the superblock");
        (*disk, *disk)
    };
    let (before, after) = {
        let before = QuotaFlags::from_bits_retain(old.quota_flags.get());
        (before, flags(before))
    };
    new.quota_flags = after.bits().into();
    change(&mut new);
    if before == after && zerocopy::IntoBytes::as_bytes(&new) == zerocopy::IntoBytes::as_bytes(&old)
    {
        return Ok(());
    }
    tx.change(&buffer, 0..size_of::<SuperblockDisk>(), |bytes| {
        bytes.copy_from_slice(zerocopy::IntoBytes::as_bytes(&new));
    });
    Ok(())
}
