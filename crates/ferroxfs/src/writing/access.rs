//! What the flags of an inode forbid.
//!
//! Owns: append-only and immutable files. Does **not** own: what rights and owners have to do with it
//! ([`permission`](crate::permission)).

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{InodeCore, InodeFlags};

/// Whether a file may be renamed, removed, linked, cut, made longer otherwise than by writing at its end, or
/// have its contents changed anywhere: however long it is.
pub(crate) fn check_mutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE | InodeFlags::APPEND)
}

/// Whether something may be added to a directory or written at the end of a file, whether space may be set
/// aside for it, and whether the inode itself may change.
pub(crate) fn check_not_immutable(core: &InodeCore) -> Result<()> {
    check_without(core, InodeFlags::IMMUTABLE)
}

fn check_without(core: &InodeCore, flags: InodeFlags) -> Result<()> {
    if core.flags.intersects(flags) { Err(PosixError::NotPermitted.into()) } else { Ok(()) }
}

/// Whether something may be written from this byte on.
pub(crate) fn check_writable_from(core: &InodeCore, from: u64) -> Result<()> {
    let only_at_end = core.flags.contains(InodeFlags::APPEND);
    if only_at_end && from < core.size {
        return Err(PosixError::NotPermitted.into());
    }
    check_not_immutable(core)
}
