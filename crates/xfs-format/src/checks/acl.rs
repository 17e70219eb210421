//! The errors of failed checks of an access control list.

use thiserror::Error;

/// A failed check of an access control list, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AclCheck {
    #[error("{count} entries do not fit {bytes} bytes")]
    Count { count: u32, bytes: usize },
    #[error("entry with unknown tag {tag:#x}")]
    Tag { tag: u32 },
    #[error("entry with unknown permissions {permissions:#x}")]
    Permissions { permissions: u16 },
    #[error("no entry for the owner, the group of the file, or others")]
    Incomplete,
    #[error(
        "duplicate entries, or entries not in the order owner, users, group, groups, mask, others"
    )]
    Order,
    #[error("entries for named users or groups, but no mask")]
    NoMask,
    #[error("an entry for the reserved user or group number 4294967295")]
    ReservedId,
}
