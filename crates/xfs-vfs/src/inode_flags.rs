//! Checks of the inode flags that forbid operations to every caller.
//!
//! Owns: the meaning of append-only and immutable. Does **not** own: permissions
//! ([`permission`](crate::permission)).

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{InodeCore, InodeFlags};

/// Checks that a file is neither immutable nor append-only. The check is needed before a file is
/// renamed, removed, linked, truncated, written before its end, or extended other than by a write
/// at its end.
pub fn check_mutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE | InodeFlags::APPEND)
}

/// Checks that an inode is not immutable. The check is needed before its attributes change, before
/// a directory gets a name, and before a file is written at its end or gets preallocated space.
pub fn check_not_immutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE)
}

fn check_without(core: &InodeCore, flags: InodeFlags) -> Result<()> {
    if core.flags.intersects(flags) { Err(PosixError::NotPermitted.into()) } else { Ok(()) }
}

/// Checks that the flags of a file allow a write from byte `from` on. An append-only file can only
/// be written at its end.
pub(crate) fn check_writable_from(core: &InodeCore, from: u64) -> Result<()> {
    let only_at_end = core.flags.contains(InodeFlags::APPEND);
    if only_at_end && from < core.size {
        return Err(PosixError::NotPermitted.into());
    }
    check_not_immutable(core)
}
