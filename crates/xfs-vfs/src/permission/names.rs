//! Permissions to create, link and remove files, beyond those on their directory.

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::inode::{FileType, InodeCore};
use xfs_inode::Inode;

use super::{Access, Caller};
use crate::credentials::{Capabilities, Credentials};
use crate::mode_bits::{CLASSES, GROUP_EXECUTE, SET_GROUP_ID, SET_USER_ID, STICKY};
use crate::requests::{CreateOptions, NewKind};

/// Mode bits that a caller can give a new directory. The set-group-ID bit of the new directory
/// comes from its parent instead.
const NEW_DIRECTORY_BITS: u16 = STICKY | CLASSES;

impl Caller<'_> {
    /// Checks that the sticky bit of the directory does not forbid the caller to remove or replace
    /// a name of this file. Does not check other permissions.
    pub(crate) fn check_sticky(self, directory: &InodeCore, file: &InodeCore) -> Result<()> {
        let Some(me) = self.credentials() else { return Ok(()) };
        let may = directory.mode & STICKY == 0 || directory.uid == me.uid() || me.is_as_owner(file);
        if may { Ok(()) } else { Err(PosixError::NotPermitted.into()) }
    }

    /// Checks that the caller may create a file of this kind. Every caller may create the character
    /// device 0:0, which has no driver. An overlay uses it to hide a name of a lower layer.
    #[doc(alias = "vfs_mknod")]
    pub(crate) fn check_kind(self, kind: &NewKind<'_>) -> Result<()> {
        match kind {
            NewKind::CharacterDevice(device) if device.major == 0 && device.minor == 0 => Ok(()),
            NewKind::CharacterDevice(_) | NewKind::BlockDevice(_) => {
                self.require(Capabilities::MKNOD)
            }
            _ => Ok(()),
        }
    }

    /// Returns the owner and the mode that a new file gets if the caller requests those in
    /// `wanted`. The file belongs to the caller. In a set-group-ID directory, a group-executable
    /// file gets no set-group-ID bit, unless the caller is in the directory's group or has
    /// `CAP_FSETID`.
    #[doc(alias = "vfs_prepare_mode")]
    pub(crate) fn creation(
        self,
        file_type: FileType,
        wanted: &CreateOptions,
        directory: impl FnOnce() -> InodeCore,
    ) -> CreateOptions {
        let Some(me) = self.credentials() else { return *wanted };
        let directory = directory();
        let mut mode = wanted.mode;
        let lends_group = SET_GROUP_ID | GROUP_EXECUTE;
        if file_type == FileType::Directory {
            mode &= NEW_DIRECTORY_BITS;
        } else if mode & lends_group == lends_group
            && directory.mode & SET_GROUP_ID != 0
            && !me.may_lend_group(directory.gid)
        {
            mode &= !SET_GROUP_ID;
        }
        CreateOptions { mode, uid: me.uid(), gid: me.gid(), ..*wanted }
    }

    /// Checks that the caller may add a name to this file, if the credentials protect hard links.
    /// Without this check, a caller could keep a set-ID program of another user after that user has
    /// removed it. Or the caller could make another user's program open and change a file through
    /// the new name.
    #[doc(alias = "may_linkat")]
    pub(crate) fn check_link(self, cache: &BufferCache, file: &Inode) -> Result<()> {
        let guarded = self.credentials().filter(|me| me.protects_hard_links());
        let Some(me) = guarded else { return Ok(()) };
        if me.is_as_owner(file.core()) || is_harmless(me, cache, file) {
            return Ok(());
        }
        Err(PosixError::NotPermitted.into())
    }
}

#[doc(alias = "safe_hardlink_source")]
fn is_harmless(me: &Credentials, cache: &BufferCache, file: &Inode) -> bool {
    let mode = file.core().mode;
    let lends_group = SET_GROUP_ID | GROUP_EXECUTE;
    file.file_type() == FileType::Regular
        && mode & SET_USER_ID == 0
        && mode & lends_group != lends_group
        && me.check(cache, file, Access::READ | Access::WRITE).is_ok()
}

#[cfg(test)]
mod tests;
