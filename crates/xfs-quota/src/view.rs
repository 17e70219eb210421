//! A dquot as programs see it: usage, limits and timers in blocks, inodes and seconds.
//!
//! Owns: the conversion from the disk form. Does **not** own: where a dquot is found.

use xfs_format::dquot::{DquotDisk, QuotaKind};

/// The usage and the limits of a user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The ID of the user, group or project. The limits of ID 0 are the default limits of its type,
    /// and its timers are grace periods.
    pub id: u32,
    /// The type of owner.
    pub kind: QuotaKind,
    /// Blocks of the volume, of the data device.
    pub blocks: Usage,
    /// Inodes.
    pub inodes: Usage,
    /// Blocks of the realtime section.
    pub rt_blocks: Usage,
}

/// The usage and the limits of one resource. A limit of 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The amount in use. On a volume that counts, it includes space that is reserved for writes in
    /// progress.
    pub used: u64,
    /// The soft limit. It may be exceeded until the timer ends.
    pub soft: u64,
    /// The hard limit. It is never exceeded.
    pub hard: u64,
    /// The time at which the soft limit becomes a hard one, in seconds since 1970. 0: the timer
    /// does not run. For ID 0, the length of the grace period in seconds; 0 stands for seven days.
    pub timer: u64,
}

/// A change of the limits of one resource. `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The new soft limit.
    pub soft: Option<u64>,
    /// The new hard limit. A hard limit below the soft limit is not set, nor is the soft limit that
    /// comes with it.
    pub hard: Option<u64>,
    /// The new end of the timer, in seconds since 1970. For ID 0, the new grace period in seconds.
    pub timer: Option<u64>,
}

/// A change of the limits of a user, group or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The limits of blocks of the data device.
    pub blocks: Limit,
    /// The limits of inodes.
    pub inodes: Limit,
    /// The limits of blocks of the realtime section.
    pub rt_blocks: Limit,
}

impl Quota {
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
