//! A dquot as programs see it: usage, limits and timers in blocks, inodes and seconds.
//!
//! Owns: the conversion from the disk form. Does **not** own: where a dquot is found.

use xfs_format::dquot::{DquotDisk, QuotaKind};

use crate::count::CountedUsage;

/// The usage and the limits of a user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// The ID of the user, group or project. The limits of ID 0 are the default limits of its type,
    /// and its timers are grace periods.
    pub id: u32,
    /// The type of owner.
    pub kind: QuotaKind,
    /// The usage and the limits of blocks of the data device.
    pub blocks: Usage,
    /// The usage and the limits of inodes.
    pub inodes: Usage,
    /// The usage and the limits of blocks of the realtime section.
    pub rt_blocks: Usage,
}

/// The usage and the limits of one resource. A limit of 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The amount in use. On a volume that is mounted with quota, it includes space that is
    /// reserved for writes in progress.
    pub used: u64,
    /// The soft limit. It may be exceeded until the timer ends.
    pub soft: u64,
    /// The hard limit. It is never exceeded.
    pub hard: u64,
    /// The time at which the soft limit becomes a hard limit, in seconds since 1970; 0 if the timer
    /// does not run. For ID 0, the length of the grace period in seconds; 0 stands for seven days.
    pub timer: u64,
}

/// A change of the limits of one resource. `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// The new soft limit.
    pub soft: Option<u64>,
    /// The new hard limit. If the new hard limit is below the soft limit, neither of the two is
    /// set.
    pub hard: Option<u64>,
    /// The new end of the timer, in seconds since 1970. For ID 0, the new grace period in seconds.
    pub timer: Option<u64>,
}

/// A change of the limits of a user, group or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The limits of blocks of the data device.
    pub blocks: Limit,
    /// The limits of inodes.
    pub inodes: Limit,
    /// The limits of blocks of the realtime section.
    pub rt_blocks: Limit,
}

impl Limit {
    /// Returns a change that leaves all values as they are.
    #[must_use]
    pub const fn new() -> Self {
        Self { soft: None, hard: None, timer: None }
    }

    /// Sets the soft limit. 0 removes it.
    #[must_use]
    pub const fn soft(mut self, limit: u64) -> Self {
        self.soft = Some(limit);
        self
    }

    /// Sets the hard limit. 0 removes it.
    #[must_use]
    pub const fn hard(mut self, limit: u64) -> Self {
        self.hard = Some(limit);
        self
    }

    /// Sets the end of the timer, in seconds since 1970. For ID 0, sets the grace period in
    /// seconds.
    #[must_use]
    pub const fn timer(mut self, seconds: u64) -> Self {
        self.timer = Some(seconds);
        self
    }
}

impl Limits {
    /// Returns a change that leaves all limits as they are.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: Limit::new(), inodes: Limit::new(), rt_blocks: Limit::new() }
    }

    /// Sets the change of the limits of blocks of the data device.
    #[must_use]
    pub const fn blocks(mut self, limit: Limit) -> Self {
        self.blocks = limit;
        self
    }

    /// Sets the change of the limits of inodes.
    #[must_use]
    pub const fn inodes(mut self, limit: Limit) -> Self {
        self.inodes = limit;
        self
    }

    /// Sets the change of the limits of blocks of the realtime section.
    #[must_use]
    pub const fn rt_blocks(mut self, limit: Limit) -> Self {
        self.rt_blocks = limit;
        self
    }
}

impl Quota {
    /// Returns the usage alone, in the form in which a count over all inodes gives it.
    #[must_use]
    pub const fn used(&self) -> CountedUsage {
        CountedUsage {
            blocks: self.blocks.used,
            inodes: self.inodes.used,
            rt_blocks: self.rt_blocks.used,
        }
    }

    /// Returns the usage and the limits that a dquot on disk holds.
    #[must_use]
    pub fn of_disk(kind: QuotaKind, disk: &DquotDisk) -> Self {
        Self {
            id: disk.id.get(),
            kind,
            blocks: Usage {
                used: disk.blocks.get(),
                soft: disk.block_soft_limit.get(),
                hard: disk.block_hard_limit.get(),
                timer: disk.timer_seconds(disk.block_timer),
            },
            inodes: Usage {
                used: disk.inodes.get(),
                soft: disk.inode_soft_limit.get(),
                hard: disk.inode_hard_limit.get(),
                timer: disk.timer_seconds(disk.inode_timer),
            },
            rt_blocks: Usage {
                used: disk.realtime_blocks.get(),
                soft: disk.realtime_soft_limit.get(),
                hard: disk.realtime_hard_limit.get(),
                timer: disk.timer_seconds(disk.realtime_timer),
            },
        }
    }
}
