//! Quota: the usage and the limits of users, groups and projects.
//!
//! Owns: the dquots of a volume that counts usage ([`QuotaEngine`]), limits and timers, starting
//! quota on a volume, counting all inodes, reading quota inodes, and the form in which programs see
//! a dquot ([`Quota`]). Does **not** own: the bytes of a dquot (`xfs_format::dquot`), the log item
//! of a dquot and the moment of counting (`xfs-trans`), or the replay of logged dquots (`xfs-log`).
//!
//! Design: docs/internals/quota.md.

mod attach;
mod count;
mod engine;
mod files;
mod quota_file;
mod quotacheck;
mod state;
mod superblock;
mod view;

pub use attach::{Attachment, QuotaMode, QuotaOptions, resolve_modes};
pub use count::{CountStep, CountedUsage, UsageCounts};
pub use engine::{QuotaClock, QuotaEngine};
pub use quota_file::{DquotIds, QuotaFile};
pub use state::QuotaState;
pub use view::{Limit, Limits, Quota, Usage};
pub use xfs_format::dquot::QuotaKind as QuotaType;
