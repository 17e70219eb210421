//! Quota: the usage and the limits of users, groups and projects.
//!
//! Owns: reading quota inodes, and the form in which programs see a dquot ([`Quota`]). Does **not**
//! own: the bytes of a dquot (`xfs_format::dquot`) or the replay of logged dquots (`xfs-log`).
//!
//! Design: docs/internals/quota.md.

mod quota_file;
mod state;
mod view;

pub use quota_file::{DquotIds, QuotaFile};
pub use state::QuotaState;
pub use view::{Limit, Limits, Quota, Usage};
pub use xfs_format::dquot::QuotaKind as QuotaType;
