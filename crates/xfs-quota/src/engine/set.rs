//! Reads and sets the limits of owners, and reads their usage, on a volume that is open with quota.
//!
//! Owns: the rules of setting limits. Does **not** own: the permission check.

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::dquot::{DquotDisk, QuotaKind};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{Journal, QuotaLedger};
use zerocopy::big_endian::{U32, U64};

use super::QuotaEngine;
use crate::quota_file::DquotIds;
use crate::view::{Limit, Limits, Quota};

impl QuotaEngine {
    /// Returns the usage and the limits of an owner. The usage includes reserved space. The timers
    /// are 0 if limits are not enforced. Returns `None` if the owner has no dquot.
    ///
    /// # Errors
    ///
    /// Returns ESRCH if the type is not counted, the device's error, or the check that failed.
    pub fn quota(&self, journal: &Journal, kind: QuotaKind, id: u32) -> Result<Option<Quota>> {
        self.check_counted(kind)?;
        let Some(dquot) = self.find(journal, kind, id)? else { return Ok(None) };
        Ok(dquot.with(|fields| {
            let mut quota = Quota::of_disk(kind, &fields.disk);
            quota.blocks.used = quota.blocks.used.saturating_add(fields.reserved.blocks);
            quota.inodes.used = quota.inodes.used.saturating_add(fields.reserved.inodes);
            let realtime = &mut quota.rt_blocks;
            realtime.used = realtime.used.saturating_add(fields.reserved.rt_blocks);
            if !self.enforces(kind) {
                // The timers run, and mean nothing.
                let resources = [&mut quota.blocks, &mut quota.inodes, &mut quota.rt_blocks];
                resources.into_iter().for_each(|usage| usage.timer = 0);
            }
            fields.disk.is_used().then_some(quota)
        }))
    }

    /// Returns the IDs whose dquots have a block on disk, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns ESRCH if the type is not counted, the device's error, or the check that failed.
    pub fn ids(&self, journal: &Journal, kind: QuotaKind) -> Result<DquotIds> {
        self.check_counted(kind)?;
        DquotIds::of(&self.file(kind)?.inode(), journal.cache())
    }

    /// Changes limits and timers of an owner. For ID 0 the new values are the default limits and
    /// the grace periods of the type. After the change, a timer runs if and only if the usage
    /// exceeds a limit.
    ///
    /// # Errors
    ///
    /// Returns ESRCH if the type is not counted, ENOSPC if the dquot cannot be allocated, or the
    /// error that stopped the log.
    #[doc(alias = "xfs_qm_scall_setqlim")]
    pub fn set(
        &self,
        journal: &Arc<Journal>,
        kind: QuotaKind,
        id: u32,
        limits: &Limits,
    ) -> Result<()> {
        self.check_counted(kind)?;
        self.ensure(journal, kind, id)?;
        let dquot = self.find(journal, kind, id)?.ok_or(PosixError::NoQuota)?;
        let tx = journal.begin(TransactionKind::ChangeInode, 0)?;
        tx.commit_or_cancel(|tx| {
            tx.change_dquot(&dquot, |disk| {
                apply(disk, limits);
                if id == 0 {
                    self.kind(kind).defaults.set(disk);
                } else {
                    self.kind(kind).defaults.set_timers(disk, || self.now_seconds());
                }
            });
            Ok(())
        })
    }

    fn check_counted(&self, kind: QuotaKind) -> Result<()> {
        if self.counts(kind) { Ok(()) } else { Err(PosixError::NoQuota.into()) }
    }
}

/// Sets limits and timers. If the new hard limit is below the soft limit, neither of the two is
/// set.
fn apply(disk: &mut DquotDisk, limits: &Limits) {
    let copy = *disk;
    let timer = |given: Option<u64>, old: U32| match given {
        None => old,
        Some(seconds) if copy.id.get() == 0 => u32::try_from(seconds).unwrap_or(u32::MAX).into(),
        Some(seconds) => copy.timer_of(seconds),
    };
    let limit = |change: &Limit, soft: &mut U64, hard: &mut U64| {
        let new_soft = change.soft.unwrap_or(soft.get());
        let new_hard = change.hard.unwrap_or(hard.get());
        if new_hard == 0 || new_hard >= new_soft {
            (*soft, *hard) = (new_soft.into(), new_hard.into());
        }
    };
    let Limits { blocks, inodes, rt_blocks } = limits;
    limit(blocks, &mut disk.block_soft_limit, &mut disk.block_hard_limit);
    limit(inodes, &mut disk.inode_soft_limit, &mut disk.inode_hard_limit);
    limit(rt_blocks, &mut disk.realtime_soft_limit, &mut disk.realtime_hard_limit);
    disk.block_timer = timer(blocks.timer, disk.block_timer);
    disk.inode_timer = timer(inodes.timer, disk.inode_timer);
    disk.realtime_timer = timer(rt_blocks.timer, disk.realtime_timer);
}
