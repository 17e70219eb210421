//! The quota flags of a volume that is opened for writing without quota, or that is only recovered.
//!
//! Owns: the decision whether an access leads to changes that the dquots do not count, and clearing
//! the flags in that case. Does **not** own: counting (`xfs-quota`), the flags of a volume that is
//! opened with quota ([`Attachment`](xfs_quota::Attachment)), or the replay of logged dquots
//! (`xfs-log`).
//!
//! A volume that is opened without quota counts nothing, like a mount by the kernel without quota
//! options. A kernel trusts the counts only while flags of the superblock say that they were
//! checked. Without these flags it counts again. So the first transaction of a volume that is
//! opened for writing without quota clears the flags. A log holds transactions in their order:
//! after a crash either no change is there, or the flags are cleared too (Q1 in
//! docs/internals/quota.md).
//!
//! A recovery that is not a part of opening for writing replays logged dquots together with the
//! changes that they count. The recovery clears the flags only if it must then finish work that
//! changes counts: freeing an unlinked inode, or an unfinished change of a file's blocks.

use std::mem::offset_of;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::BlockKind;
use xfs_format::dquot::QuotaFlags;
use xfs_format::log_item::ItemKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::VolumeAccess;
use xfs_format::{AgNumber, SuperblockDisk};
use xfs_log::{Intent, Replayed};
use xfs_trans::Journal;

/// Clears the flags that say that the counts of quota were checked, if a volume with this `access`
/// changes files without counting. This must be the first transaction of the journal.
pub(super) fn stop_counting(
    journal: &Arc<Journal>,
    replayed: &Replayed,
    access: VolumeAccess,
) -> Result<()> {
    let flags = QuotaFlags::from_bits_retain(replayed.superblock().quota_flags);
    // With a metadata directory, the flags also decide about later mounts without options. The
    // caller has found that nothing is to be counted.
    let is_kept = replayed.superblock().metadata_directory_inode.is_some();
    let cleared = match is_kept && access == VolumeAccess::Write {
        true => QuotaFlags::all(),
        false => QuotaFlags::CHECKED,
    };
    if !flags.intersects(cleared) {
        return Ok(());
    }
    let stops = match access {
        VolumeAccess::Write => true,
        VolumeAccess::Recover | VolumeAccess::Replay => leaves_work_to_count(journal, replayed)?,
        VolumeAccess::Describe | VolumeAccess::Read => false,
    };
    if !stops {
        return Ok(());
    }
    let flags = flags.difference(cleared).bits().to_be_bytes();
    let at = journal.geometry().header_disk_addr(AgNumber(0), 0);
    let length = journal.geometry().sector_size;
    let tx = journal.begin(TransactionKind::Superblock, 0)?;
    tx.commit_or_cancel(|tx| {
        let buffer = tx.read(at, length, BlockKind::Superblock)?;
        tx.change(&buffer, FLAGS..FLAGS + flags.len(), |field| field.copy_from_slice(&flags));
        Ok(())
    })
}

/// Offset of the quota flags in the superblock, in bytes.
const FLAGS: usize = offset_of!(SuperblockDisk, quota_flags);

/// Returns whether a crash left work that changes the number of inodes or blocks that a user, group
/// or project owns.
fn leaves_work_to_count(journal: &Arc<Journal>, replayed: &Replayed) -> Result<bool> {
    if replayed.intents().iter().any(changes_files) {
        return Ok(true);
    }
    for group in journal.geometry().groups() {
        if !xfs_alloc::unlinked_lists(journal.cache(), group)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether finishing an intent can change the number of blocks of a file. Only an intent
/// about an extent map, an attribute or an exchange of contents can. All other intents concern
/// blocks that their owner has already given up.
fn changes_files(intent: &Intent) -> bool {
    matches!(intent.kind(), ItemKind::Map | ItemKind::Attr | ItemKind::Exchange)
}
