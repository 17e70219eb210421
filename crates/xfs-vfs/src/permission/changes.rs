//! Permissions to change the mode, owner, times and flags of an inode.

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::inode::{ExtendedFlags, FileType, InodeCore, InodeFlags};
use xfs_inode::Inode;

use super::{Access, Caller};
use crate::credentials::{Capabilities, Credentials};
use crate::mode_bits::{GROUP_EXECUTE, SET_GROUP_ID, SET_USER_ID};
use crate::requests::SetAttributes;

impl Caller<'_> {
    /// Returns the set-ID bits that a file loses when the caller writes to it or gives it to
    /// another owner. Otherwise new contents would run as a program with the power of the old
    /// owner, or old contents with the power of the new owner. On a file without group execute
    /// permission, the set-group-ID bit means mandatory locks. Such a file keeps the bit if the
    /// caller is in the file's group or has `CAP_FSETID`.
    #[doc(alias = "setattr_should_drop_suidgid")]
    pub(crate) fn lost_set_ids(self, core: &InodeCore) -> u16 {
        let keeps_group = core.mode & GROUP_EXECUTE == 0 && self.may_lend_group(core.gid);
        let lost = if keeps_group { SET_USER_ID } else { SET_USER_ID | SET_GROUP_ID };
        core.mode & lost
    }

    /// Returns the set-group-ID bit if the caller must not set it on a file of group `gid`, and 0
    /// otherwise. A caller outside of the group needs `CAP_FSETID`.
    pub(crate) fn withheld_set_group_id(self, gid: u32) -> u16 {
        if self.may_lend_group(gid) { 0 } else { SET_GROUP_ID }
    }

    /// Checks that the caller may make these changes to an inode. Returns the set-ID bits that the
    /// inode loses in addition to [`lost_set_ids`](Self::lost_set_ids).
    #[doc(alias = "setattr_prepare")]
    pub(crate) fn check_change(self, core: &InodeCore, changes: &SetAttributes) -> Result<u16> {
        let Some(me) = self.credentials() else { return Ok(0) };
        let has_right = me.may_give_away(core, changes)
            && (!needs_owner(core, changes, self) || me.is_as_owner(core));
        if !has_right {
            return Err(PosixError::NotPermitted.into());
        }
        if changes.created.is_some() || changes.changed.is_some() {
            self.require(Capabilities::SYS_ADMIN)?;
        }
        self.check_flags(core, changes)?;
        let mut withheld = 0;
        if sets_mode(core, changes, self) {
            withheld = self.withheld_set_group_id(changes.gid.unwrap_or(core.gid));
        }
        if changes.has_settings() && !me.has(Capabilities::FSETID) {
            withheld |= SET_USER_ID | SET_GROUP_ID;
        }
        Ok(withheld)
    }

    /// Checks that the caller may set the times of last access and modification to the current
    /// time: the caller is the owner, or may write the file.
    #[doc(alias = "ATTR_TOUCH")]
    pub(crate) fn check_touch(self, cache: &BufferCache, inode: &Inode) -> Result<()> {
        match self.check_owner(inode.core()) {
            Ok(()) => Ok(()),
            Err(_) => self.check(cache, inode, Access::WRITE),
        }
    }

    fn check_flags(self, core: &InodeCore, changes: &SetAttributes) -> Result<()> {
        let Some(wanted) = changes.xflags else { return Ok(()) };
        let guarded = [
            (ExtendedFlags::IMMUTABLE, InodeFlags::IMMUTABLE),
            (ExtendedFlags::APPEND, InodeFlags::APPEND),
        ];
        let changes_one =
            guarded.iter().any(|(flag, now)| wanted.contains(*flag) != core.flags.contains(*now));
        if changes_one { self.require(Capabilities::LINUX_IMMUTABLE) } else { Ok(()) }
    }

    fn may_lend_group(self, gid: u32) -> bool {
        self.credentials().is_none_or(|me| me.may_lend_group(gid))
    }
}

impl Credentials {
    /// Returns whether a user with these credentials may set the owner and group in `changes`. An
    /// owner cannot give a file away, except to a group that the owner is in.
    #[doc(alias = "chown_ok")]
    #[doc(alias = "chgrp_ok")]
    fn may_give_away(&self, core: &InodeCore, changes: &SetAttributes) -> bool {
        let owns = self.uid() == core.uid;
        let uid = changes.uid.is_none_or(|uid| owns && uid == core.uid);
        let gid = changes.gid.is_none_or(|gid| owns && (gid == core.gid || self.is_in_group(gid)));
        uid && gid || self.has(Capabilities::CHOWN)
    }
}

fn needs_owner(core: &InodeCore, changes: &SetAttributes, caller: Caller<'_>) -> bool {
    sets_mode(core, changes, caller)
        || changes.has_settings()
        || changes.accessed.is_some()
        || changes.modified.is_some()
}

/// Returns whether `changes` change the mode. A change of owner or group also changes the mode if
/// it removes set-ID bits. For such a change, [`Capabilities::CHOWN`] alone does not suffice.
fn sets_mode(core: &InodeCore, changes: &SetAttributes, caller: Caller<'_>) -> bool {
    let is_directory = core.file_type() == Some(FileType::Directory);
    let moves = (changes.uid.is_some() || changes.gid.is_some()) && !is_directory;
    changes.mode.is_some() || moves && caller.lost_set_ids(core) != 0
}

#[cfg(test)]
mod tests;
