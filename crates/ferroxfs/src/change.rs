//! Changing what a volume holds, by inode.
//!
//! Every method changes what it changes at once: after a crash it has happened whole or not at all, but for a
//! new file with inherited access control lists that do not fit into the inode, which may lack some of them. It is durable
//! once [`Volume::sync`](crate::Volume::sync), [`Node::sync`] or [`File::sync_all`](crate::File) has
//! returned; operations become durable in the order in which they were done. On a volume that is
//! open for reading each of them fails with EROFS.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use xfs_buffer::PosixError;
use xfs_dir::{NewAttribute, SetMode, split_linux_name};
use xfs_format::timestamp::Timestamp;

use crate::Result;
use crate::acl::{Acl, AclKind};
use crate::node::Node;
use crate::permission::Access;
use crate::statistics::Activity;
use crate::writing::{Acting, Changes, Creation, NewKind, Place, Removal, RenameMode};

impl Node {
    /// Makes a file in this directory.
    ///
    /// # Errors
    ///
    /// EEXIST, ENOTDIR, ENAMETOOLONG, EINVAL for a name with a slash or NUL, ENOENT if this directory
    /// has been removed, EPERM if it is immutable, ENOSPC; the device's error.
    pub fn create(
        &self,
        name: impl AsRef<OsStr>,
        kind: &NewKind<'_>,
        creation: &Creation,
    ) -> Result<Self> {
        let (parts, directory) = self.acting()?;
        let entry = parts.create(directory, name.as_ref().as_bytes(), kind, creation)?;
        parts.note(Activity::NameAdded);
        Ok(self.share().live(entry))
    }

    /// Makes a regular file without a name, in the group of this directory. Unless it is
    /// [linked](Self::link) it is gone with its last handle.
    ///
    /// # Errors
    ///
    /// ENOTDIR, ENOENT, EPERM if this directory is immutable, or takes no symbolic link, ENOSPC; the
    /// device's error.
    #[doc(alias = "O_TMPFILE")]
    pub fn create_unnamed(&self, creation: &Creation) -> Result<Self> {
        let (parts, directory) = self.acting()?;
        let entry = parts.create_unnamed(directory, creation)?;
        Ok(self.share().live(entry))
    }

    /// Gives `file` a name in this directory.
    ///
    /// # Errors
    ///
    /// EEXIST, EPERM for a directory and for what is immutable, EMLINK, ENOENT for a file that was removed
    /// (one [made without a name](Self::create_unnamed) gets its first one), EXDEV where this directory
    /// keeps to another project or `file` is of another volume, ENOSPC; the device's error.
    pub fn link(&self, file: &Self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, directory) = self.acting()?;
        let entry = self.of_this_volume(file)?;
        parts.link(entry, directory, name.as_ref().as_bytes())?;
        parts.note(Activity::NameAdded);
        Ok(())
    }

    /// Removes a name of anything but a directory. The file is freed when it has no other name and
    /// no handle.
    ///
    /// # Errors
    ///
    /// ENOENT, EISDIR, EPERM; the device's error.
    #[doc(alias = "unlink")]
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, directory) = self.acting()?;
        parts.remove(directory, name.as_ref().as_bytes(), Removal::File)?;
        parts.note(Activity::NameRemoved);
        Ok(())
    }

    /// As [`remove_file`](Self::remove_file), for who goes on to use the file: it is there until the node is given up.
    ///
    /// # Errors
    ///
    /// As [`remove_file`](Self::remove_file).
    pub fn detach_file(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        self.detach(name.as_ref(), Removal::File)
    }

    /// As [`remove_dir`](Self::remove_dir), for who goes on to use the directory.
    ///
    /// # Errors
    ///
    /// As [`remove_dir`](Self::remove_dir).
    pub fn detach_dir(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        self.detach(name.as_ref(), Removal::Directory)
    }

    fn detach(&self, name: &OsStr, removal: Removal) -> Result<Self> {
        let (parts, directory) = self.acting()?;
        let entry = parts.detach(directory, name.as_bytes(), removal)?;
        parts.note(Activity::NameRemoved);
        Ok(self.share().live(entry))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, ENOTEMPTY, EPERM; the device's error.
    #[doc(alias = "rmdir")]
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, directory) = self.acting()?;
        parts.remove(directory, name.as_ref().as_bytes(), Removal::Directory)?;
        parts.note(Activity::NameRemoved);
        Ok(())
    }

    /// Moves a name of this directory to `directory`, which may be the same.
    ///
    /// # Errors
    ///
    /// ENOENT; EEXIST with [`RenameMode::NoReplace`]; EISDIR, ENOTDIR, ENOTEMPTY for what cannot be
    /// replaced; EINVAL for a directory that would come to lie below itself; EXDEV, EPERM, ENOSPC;
    /// the device's error.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        directory: &Self,
        new_name: impl AsRef<OsStr>,
        mode: RenameMode,
    ) -> Result<()> {
        let (parts, from) = self.acting()?;
        let to = self.of_this_volume(directory)?;
        let from = Place { directory: from, name: name.as_ref().as_bytes() };
        let to = Place { directory: to, name: new_name.as_ref().as_bytes() };
        parts.rename(from, to, mode)
    }

    /// Changes mode, owner, times, flags or hints.
    ///
    /// # Errors
    ///
    /// EPERM for an immutable file, EINVAL for a hint that it cannot have; the device's error.
    pub fn change(&self, changes: &Changes) -> Result<()> {
        let (parts, entry) = self.acting()?;
        parts.change(entry, changes)
    }

    /// Sets the times of last access and last change to now, as the owner may, and who may write.
    ///
    /// # Errors
    ///
    /// EACCES; EPERM for an immutable file; the device's error.
    #[doc(alias = "UTIME_NOW")]
    pub fn touch(&self) -> Result<()> {
        let (acting, entry) = self.acting()?;
        acting.set_times_to_now(entry)
    }

    /// Sets an access control list, or removes it. The permission bits follow that for access, which is
    /// not kept where they say it all. There need not be one to be removed.
    ///
    /// # Errors
    ///
    /// EACCES for a default list of what is no directory, EOPNOTSUPP for a symbolic link, E2BIG for more
    /// than 5461 entries, EPERM, ENOSPC; the device's error.
    #[doc(alias = "xfs_set_acl")]
    pub fn set_acl(&self, kind: AclKind, list: Option<&Acl>) -> Result<()> {
        let (parts, entry) = self.acting()?;
        parts.set_acl(entry, kind, list)?;
        parts.note(attribute_count(list));
        Ok(())
    }

    /// Sets the time of the last access. Unlike [`change`](Self::change) it leaves the time of the last
    /// change alone, and is possible for an immutable file. While the volume is frozen it does nothing.
    ///
    /// # Errors
    ///
    /// EROFS; the device's error.
    #[doc(alias = "touch_atime")]
    pub fn note_access(&self, time: Timestamp) -> Result<()> {
        let (parts, entry) = self.writable()?;
        let acting = parts.try_writer().map(|writer| Acting::writing(writer, self.who()));
        acting.map_or(Ok(()), |acting| acting.note_access(entry, time))
    }

    /// Sets the times of the last change of the contents and of anything: for a cache that has
    /// changed the contents by [`File::write_back_at`](crate::File::write_back_at), now or before long. It is
    /// possible for an immutable file.
    ///
    /// # Errors
    ///
    /// EROFS; the device's error.
    pub fn note_modified(&self, modified: Timestamp, changed: Timestamp) -> Result<()> {
        let (acting, entry) = self.acting()?;
        acting.note_modified(entry, modified, changed)
    }

    /// Sets an extended attribute by its Linux name. An access control list, `system.posix_acl_access` or
    /// `system.posix_acl_default`, is given in the form that programs use, and set as by
    /// [`set_acl`](Self::set_acl), whatever `mode`.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP for a name in no namespace of XFS; EEXIST and ENODATA by `mode`; ERANGE for a name
    /// of more than 255 bytes, E2BIG for a value of more than 64 KiB; EPERM, ENOSPC; the device's
    /// error.
    pub fn set_attribute(
        &self,
        name: impl AsRef<OsStr>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let (parts, entry) = self.acting()?;
        let full = name.as_ref().as_bytes();
        if let Some(kind) = AclKind::of_linux_name(full) {
            let list = Acl::of_linux_value(value)?;
            parts.set_acl(entry, kind, list.as_ref())?;
            parts.note(attribute_count(list.as_ref()));
            return Ok(());
        }
        let (namespace, name) = split_linux_name(full).ok_or(PosixError::NotSupported)?;
        parts.set_attribute(entry, &NewAttribute { namespace, name, value }, mode)?;
        parts.note(Activity::AttributeSet);
        Ok(())
    }

    /// Removes an extended attribute by its Linux name.
    ///
    /// # Errors
    ///
    /// ENODATA; EOPNOTSUPP for a name in no namespace of XFS; EPERM; the device's error.
    pub fn remove_attribute(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, entry) = self.acting()?;
        let full = name.as_ref().as_bytes();
        if let Some(kind) = AclKind::of_linux_name(full) {
            parts.set_acl(entry, kind, None)?;
            parts.note(Activity::AttributeRemoved);
            return Ok(());
        }
        let split = split_linux_name(full);
        let (namespace, name) = split.ok_or(PosixError::NotSupported)?;
        parts.remove_attribute(entry, namespace, name)?;
        parts.note(Activity::AttributeRemoved);
        Ok(())
    }

    /// Takes off what lets a program act in the name of its owner, as is due before somebody else writes
    /// to it: capabilities always, set-ID bits if `set_ids`. Append-only files lose them as well. Returns
    /// whether there was anything.
    ///
    /// # Errors
    ///
    /// EPERM for an immutable file; ENOSPC; the device's error.
    #[doc(alias = "file_remove_privs")]
    pub fn drop_privileges(&self, set_ids: bool) -> Result<bool> {
        self.check(Access::WRITE)?;
        let (parts, entry) = self.acting()?;
        parts.shed_privileges(entry, set_ids)
    }

    /// Returns when everything that was done to this inode, and before that, is durable.
    ///
    /// # Errors
    ///
    /// What stopped the log; the volume is shut down then.
    #[doc(alias = "fsync")]
    pub fn sync(&self) -> Result<()> {
        let (parts, entry) = self.writable()?;
        parts.sync(entry)
    }

    /// The entry of another node, if it is of this volume.
    fn of_this_volume<'a>(&self, other: &'a Self) -> Result<&'a crate::table::Entry> {
        let (mine, _) = self.writable()?;
        let (others, entry) = other.writable()?;
        if !std::ptr::eq(mine, others) {
            return Err(PosixError::CrossDevice.into());
        }
        Ok(entry)
    }
}

/// What is counted of setting an access control list.
fn attribute_count(list: Option<&Acl>) -> Activity {
    if list.is_some() { Activity::AttributeSet } else { Activity::AttributeRemoved }
}
