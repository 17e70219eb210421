//! Limits, default limits and timers.
//!
//! Owns: the rules by which usage is refused and timers run. Does **not** own: locks of dquots.
//!
//! A limit of 0 in a dquot stands for the default limit of its type, which the dquot of ID 0 has.
//! The first charge writes the default limit into the dquot.

use xfs_format::dquot::DquotDisk;
use xfs_sync::{AtomicU64, Ordering, Volume};
use xfs_trans::{DquotFields, QuotaAmount};
use zerocopy::big_endian::{U32, U64};

/// The grace period that holds if the dquot of ID 0 has none: seven days.
#[doc(alias = "XFS_QM_BTIMELIMIT")]
const GRACE_SECONDS: u64 = 7 * 24 * 3600;

/// The default limits of one resource. The fields are written only when the default limits are set.
#[derive(Default)]
struct DefaultLimit {
    soft: AtomicU64<Volume>,
    hard: AtomicU64<Volume>,
    grace_seconds: AtomicU64<Volume>,
}

/// The default limits of one type of owner.
#[derive(Default)]
pub(crate) struct DefaultLimits {
    blocks: DefaultLimit,
    inodes: DefaultLimit,
    realtime: DefaultLimit,
}

/// The limits of one resource in a dquot.
#[derive(Clone, Copy)]
struct OwnLimits {
    soft: U64,
    hard: U64,
}

impl DefaultLimit {
    fn set(&self, soft: U64, hard: U64, grace_seconds: u64) {
        self.soft.store(soft.get(), Ordering::Relaxed);
        self.hard.store(hard.get(), Ordering::Relaxed);
        self.grace_seconds.store(grace_seconds, Ordering::Relaxed);
    }

    fn grace_seconds(&self) -> u64 {
        match self.grace_seconds.load(Ordering::Relaxed) {
            0 => GRACE_SECONDS,
            seconds => seconds,
        }
    }

    #[inline]
    fn or_default(own: U64, default: &AtomicU64<Volume>) -> u64 {
        match own.get() {
            0 => default.load(Ordering::Relaxed),
            limit => limit,
        }
    }

    #[inline]
    fn fill(&self, soft: &mut U64, hard: &mut U64) {
        for (limit, default) in [(soft, &self.soft), (hard, &self.hard)] {
            if *limit == U64::ZERO {
                *limit = default.load(Ordering::Relaxed).into();
            }
        }
    }

    /// Returns whether the owner may have `total` of the resource, reserved space included.
    /// `is_over_time` returns whether the timer of the soft limit has ended.
    #[doc(alias = "xfs_dqresv_check")]
    #[inline]
    fn allows(&self, own: OwnLimits, total: u64, is_over_time: impl FnOnce() -> bool) -> bool {
        let hard = Self::or_default(own.hard, &self.hard);
        let soft = Self::or_default(own.soft, &self.soft);
        if hard != 0 && total > hard {
            return false;
        }
        soft == 0 || total <= soft || !is_over_time()
    }

    /// Returns the end of the timer of a resource in seconds since 1970, if the timer must start or
    /// stop. `running` is the stored timer, and `count` the usage. The timer starts when the count
    /// exceeds a limit, and stops when it exceeds no limit. 0 stands for a timer that does not run.
    #[doc(alias = "xfs_qm_adjust_res_timer")]
    #[inline]
    fn timer(
        &self,
        own: OwnLimits,
        count: U64,
        running: U32,
        now: impl Fn() -> u64,
    ) -> Option<u64> {
        let exceeds = |limit: U64| limit != U64::ZERO && count.get() > limit.get();
        match (exceeds(own.soft) || exceeds(own.hard), running == U32::ZERO) {
            (false, true) | (true, false) => None,
            (false, false) => Some(0),
            (true, true) => Some(now().saturating_add(self.grace_seconds())),
        }
    }

    /// Returns how many blocks, at most `wanted`, may be preallocated if `used` are in use. All of
    /// them may be preallocated if there is no hard limit, or if the usage then stays below the
    /// soft limit. Without a soft limit, 95 % of the hard limit takes its place. Otherwise the
    /// result is a part of what is left below the hard limit.
    fn ahead(&self, own: OwnLimits, used: u64, wanted: u64) -> u64 {
        let hard = Self::or_default(own.hard, &self.hard);
        let soft = Self::or_default(own.soft, &self.soft);
        if hard == 0 {
            return wanted;
        }
        let percent = |part: u64| hard / 100 * part;
        let low_mark = if soft == 0 { percent(95) } else { soft };
        if used.saturating_add(wanted) < low_mark {
            return wanted;
        }
        let left = hard.saturating_sub(used);
        let steps = [5, 3, 1].into_iter().filter(|part| left < percent(*part)).count();
        wanted.min(left >> (2 * steps))
    }
}

/// Returns the disk form of a timer that ends at `seconds`. 0 stands for a timer that does not run.
fn stored(disk: &DquotDisk, seconds: u64) -> U32 {
    if seconds == 0 { U32::ZERO } else { disk.timer_of(seconds) }
}

impl DefaultLimits {
    /// Takes the default limits over from the dquot of ID 0.
    pub(crate) fn set(&self, disk: &DquotDisk) {
        let grace = |timer| disk.timer_seconds(timer);
        self.blocks.set(disk.block_soft_limit, disk.block_hard_limit, grace(disk.block_timer));
        self.inodes.set(disk.inode_soft_limit, disk.inode_hard_limit, grace(disk.inode_timer));
        let (soft, hard) = (disk.realtime_soft_limit, disk.realtime_hard_limit);
        self.realtime.set(soft, hard, grace(disk.realtime_timer));
    }

    /// Writes the default limits into a dquot, for each limit that the dquot itself does not have
    /// (0).
    #[doc(alias = "xfs_qm_adjust_dqlimits")]
    #[inline]
    pub(crate) fn fill(&self, disk: &mut DquotDisk) {
        self.blocks.fill(&mut disk.block_soft_limit, &mut disk.block_hard_limit);
        self.inodes.fill(&mut disk.inode_soft_limit, &mut disk.inode_hard_limit);
        self.realtime.fill(&mut disk.realtime_soft_limit, &mut disk.realtime_hard_limit);
    }

    /// Starts or stops each timer of a dquot, according to its counts and limits.
    #[doc(alias = "xfs_qm_adjust_dqtimers")]
    #[inline]
    pub(crate) fn set_timers(&self, disk: &mut DquotDisk, now: impl Fn() -> u64) {
        let blocks = OwnLimits { soft: disk.block_soft_limit, hard: disk.block_hard_limit };
        if let Some(end) = self.blocks.timer(blocks, disk.blocks, disk.block_timer, &now) {
            disk.block_timer = stored(disk, end);
        }
        let inodes = OwnLimits { soft: disk.inode_soft_limit, hard: disk.inode_hard_limit };
        if let Some(end) = self.inodes.timer(inodes, disk.inodes, disk.inode_timer, &now) {
            disk.inode_timer = stored(disk, end);
        }
        let realtime = OwnLimits { soft: disk.realtime_soft_limit, hard: disk.realtime_hard_limit };
        let (count, running) = (disk.realtime_blocks, disk.realtime_timer);
        if let Some(end) = self.realtime.timer(realtime, count, running, &now) {
            disk.realtime_timer = stored(disk, end);
        }
    }

    /// Returns how many blocks, at most `wanted`, may be preallocated for the owner of a dquot.
    pub(crate) fn blocks_ahead(&self, fields: &DquotFields, wanted: QuotaAmount) -> QuotaAmount {
        let DquotFields { disk, reserved } = fields;
        let blocks = OwnLimits { soft: disk.block_soft_limit, hard: disk.block_hard_limit };
        let used = disk.blocks.get().saturating_add(reserved.blocks);
        let realtime = OwnLimits { soft: disk.realtime_soft_limit, hard: disk.realtime_hard_limit };
        let rt_used = disk.realtime_blocks.get().saturating_add(reserved.rt_blocks);
        QuotaAmount {
            blocks: self.blocks.ahead(blocks, used, wanted.blocks),
            rt_blocks: self.realtime.ahead(realtime, rt_used, wanted.rt_blocks),
            inodes: wanted.inodes,
        }
    }

    /// Returns whether the owner of a dquot may get `wanted` in addition to what it uses and has
    /// reserved.
    pub(crate) fn allow(
        &self,
        fields: &DquotFields,
        wanted: QuotaAmount,
        now: impl Fn() -> u64,
    ) -> bool {
        let (disk, reserved) = (&fields.disk, fields.reserved);
        let is_over = |timer: U32| {
            let end = disk.timer_seconds(timer);
            end != 0 && now() > end
        };
        let total = |count: U64, reserved: u64, wanted: u64| {
            count.get().saturating_add(reserved).saturating_add(wanted)
        };
        let blocks = wanted.blocks == 0
            || self.blocks.allows(
                OwnLimits { soft: disk.block_soft_limit, hard: disk.block_hard_limit },
                total(disk.blocks, reserved.blocks, wanted.blocks),
                || is_over(disk.block_timer),
            );
        let realtime = wanted.rt_blocks == 0
            || self.realtime.allows(
                OwnLimits { soft: disk.realtime_soft_limit, hard: disk.realtime_hard_limit },
                total(disk.realtime_blocks, reserved.rt_blocks, wanted.rt_blocks),
                || is_over(disk.realtime_timer),
            );
        blocks
            && realtime
            && (wanted.inodes == 0
                || self.inodes.allows(
                    OwnLimits { soft: disk.inode_soft_limit, hard: disk.inode_hard_limit },
                    total(disk.inodes, reserved.inodes, wanted.inodes),
                    || is_over(disk.inode_timer),
                ))
    }
}

#[cfg(test)]
mod tests;
