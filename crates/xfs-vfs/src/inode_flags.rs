//! Operations that the flags of an inode forbid.
//!
//! Owns: append-only and immutable files. Does **not** own: permissions
//! ([`permission`](crate::permission)).

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{InodeCore, InodeFlags};

/// Checks that a file may be renamed, removed, linked, truncated, extended other than by writing at
/// its end, or have its contents changed anywhere up to its end.
pub fn check_mutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE | InodeFlags::APPEND)
}

/// Checks that names may be added to a directory, that bytes may be written at the end of a file,
/// that space may be preallocated for it, and that the inode itself may change.
pub fn check_not_immutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE)
}

fn check_without(core: &InodeCore, flags: InodeFlags) -> Result<()> {
    if core.flags.intersects(flags) { Err(PosixError::NotPermitted.into()) } else { Ok(()) }
}

/// Checks that bytes may be written from this offset on.
pub(crate) fn check_writable_from(core: &InodeCore, from: u64) -> Result<()> {
    let only_at_end = core.flags.contains(InodeFlags::APPEND);
    if only_at_end && from < core.size {
        return Err(PosixError::NotPermitted.into());
    }
    check_not_immutable(core)
}
