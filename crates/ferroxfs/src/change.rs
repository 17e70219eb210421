//! Changing a volume by inode.
//!
//! Owns: the operations on a [`Node`] as methods, and their counters. Does **not** own: their
//! implementation (`xfs-vfs`). The [crate](crate#changes) says which operations are atomic and
//! durable, and how every change can fail.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use xfs_buffer::PosixError;
use xfs_dir::{NewAttribute, SetMode, split_linux_name};
use xfs_format::timestamp::Timestamp;
use xfs_vfs::{
    Access, Acl, AclKind, Activity, CreateOptions, EntryName, NewKind, OpContext, Removal,
    RenameMode, SetAttributes,
};

use crate::Result;
use crate::node::Node;

/// The longest name of an attribute on Linux, in bytes, with its namespace.
#[doc(alias = "XATTR_NAME_MAX")]
const MAX_LINUX_NAME_BYTES: usize = 255;

impl Node {
    /// Makes a file in this directory. The file inherits the access control lists of the directory.
    /// If the lists do not fit into the inode, a crash may leave the file without some of them.
    ///
    /// # Errors
    ///
    /// - EEXIST, also for `.` and `..`.
    /// - ENOENT for an empty name or target, and if this directory was removed.
    /// - ENOTDIR if this is no directory.
    /// - ENAMETOOLONG for a name of more than 255 bytes, or a target of more than 1023.
    /// - EINVAL for a name with a slash or NUL, a target with NUL, a device number that does not
    ///   fit.
    /// - EACCES if the caller may not search and write this directory.
    /// - EPERM if this directory is immutable; for a symbolic link if this directory takes none
    ///   (`NOSYMLINKS`); for a device other than 0:0 without
    ///   [`Capabilities::MKNOD`](crate::Capabilities::MKNOD).
    /// - EMLINK for a new directory, if this directory has the largest number of links.
    /// - ENOSPC, and those of [every change](crate#errors).
    pub fn create(
        &self,
        name: impl AsRef<OsStr>,
        kind: &NewKind<'_>,
        options: &CreateOptions,
    ) -> Result<Self> {
        let (context, directory) = self.op_context()?;
        let entry = context.create(directory, name.as_ref().as_bytes(), kind, options)?;
        context.mount.note(Activity::NameAdded);
        Ok(self.volume_ref().node_of(entry))
    }

    /// Makes a regular file without a name, preferably in the allocation group of this directory.
    /// Unless it is [linked](Self::link), the file is freed with its last handle, or after a crash.
    /// It inherits access control lists like a file of [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// ENOTDIR; ENOENT if this directory was removed; EACCES if the caller may not search and write
    /// it; EPERM if it is immutable; ENOSPC; the errors of [every change](crate#errors).
    #[doc(alias = "O_TMPFILE")]
    pub fn create_unnamed(&self, options: &CreateOptions) -> Result<Self> {
        let (context, directory) = self.op_context()?;
        let entry = context.create_unnamed(directory, options)?;
        Ok(self.volume_ref().node_of(entry))
    }

    /// Gives `file` a name in this directory.
    ///
    /// # Errors
    ///
    /// - EEXIST, ENOTDIR, ENAMETOOLONG and EINVAL as [`create`](Self::create).
    /// - ENOENT for an empty name, if this directory was removed, and for a file that was removed.
    ///   A file [made without a name](Self::create_unnamed) is not one of these: it can be linked
    ///   once.
    /// - EACCES if the caller may not search and write this directory.
    /// - EPERM for a directory; if the file is immutable or append-only, or this directory
    ///   immutable; if the caller is refused further names
    ///   ([`protect_hard_links`](crate::Credentials::protect_hard_links)).
    /// - EMLINK if the file has the largest number of names.
    /// - EXDEV if new files of this directory inherit a project ID and `file` has a different one,
    ///   or if `file` is of another volume.
    /// - ENOSPC, and those of [every change](crate#errors).
    pub fn link(&self, file: &Self, name: impl AsRef<OsStr>) -> Result<()> {
        let (context, directory) = self.op_context()?;
        let entry = self.of_this_volume(file)?;
        context.link(entry, directory, name.as_ref().as_bytes())?;
        context.mount.note(Activity::NameAdded);
        Ok(())
    }

    /// Removes the entry `name`, which must not lead to a directory. The file is freed once it has
    /// no other name and no open handle. If the system crashes before that, the recovery of the
    /// volume frees the file.
    ///
    /// # Errors
    ///
    /// - ENOENT, also if this directory was removed.
    /// - EISDIR for a directory, `.` and `..`; ENOTDIR if this is no directory.
    /// - ENAMETOOLONG for a name of more than 255 bytes.
    /// - EACCES if the caller may not search and write this directory.
    /// - EPERM if this directory or the file is immutable or append-only, or if this directory is
    ///   sticky and the caller owns neither.
    /// - The errors of [every change](crate#errors).
    #[doc(alias = "unlink")]
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (context, directory) = self.op_context()?;
        context.remove(directory, name.as_ref().as_bytes(), Removal::File)?;
        context.mount.note(Activity::NameRemoved);
        Ok(())
    }

    /// Removes an entry as [`remove_file`](Self::remove_file) does, and returns the node of the
    /// file, for a caller that continues to use the file. The file exists until the returned node
    /// is dropped.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`remove_file`](Self::remove_file).
    pub fn detach_file(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        self.detach(name.as_ref(), Removal::File)
    }

    /// Removes an empty directory as [`remove_dir`](Self::remove_dir) does, and returns its node,
    /// for a caller that continues to use the directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`remove_dir`](Self::remove_dir).
    pub fn detach_dir(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        self.detach(name.as_ref(), Removal::Directory)
    }

    fn detach(&self, name: &OsStr, removal: Removal) -> Result<Self> {
        let (context, directory) = self.op_context()?;
        let entry = context.detach(directory, name.as_bytes(), removal)?;
        context.mount.note(Activity::NameRemoved);
        Ok(self.volume_ref().node_of(entry))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// ENOTDIR for anything else; ENOTEMPTY, also for `..`; EINVAL for `.`; ENOENT, ENAMETOOLONG,
    /// EACCES, EPERM and all others as [`remove_file`](Self::remove_file).
    #[doc(alias = "rmdir")]
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (context, directory) = self.op_context()?;
        context.remove(directory, name.as_ref().as_bytes(), Removal::Directory)?;
        context.mount.note(Activity::NameRemoved);
        Ok(())
    }

    /// Moves a name of this directory to `directory`, which may be the same. A concurrent lookup
    /// finds one of the two names, and a replaced name is never absent.
    ///
    /// # Errors
    ///
    /// - ENOENT if `name` does not exist, if a name is empty, if `new_name` does not exist with
    ///   [`RenameMode::Exchange`], and if a directory was removed.
    /// - EEXIST with [`RenameMode::NoReplace`], and if a directory to be replaced is not empty.
    /// - ENOTEMPTY if the target is this directory, or above it.
    /// - EISDIR for a file in the place of a directory; ENOTDIR for the reverse, and if `self` or
    ///   `directory` is no directory.
    /// - EBUSY for `.` and `..`; ENAMETOOLONG for a name of more than 255 bytes.
    /// - EINVAL for a name with a slash or NUL, and for a directory that would become its own
    ///   descendant.
    /// - EACCES if the caller may not search and write both directories, or may not write a
    ///   directory that moves to another parent directory.
    /// - EPERM as [`remove_file`](Self::remove_file), for the source and for the target; if
    ///   `directory` is immutable.
    /// - EMLINK for a directory, if the one that it moves to has the largest number of links.
    /// - EXDEV if new files of `directory` inherit a project ID and the moved file has a different
    ///   one, or if `directory` is of another volume.
    /// - ENOSPC, and those of [every change](crate#errors).
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        directory: &Self,
        new_name: impl AsRef<OsStr>,
        mode: RenameMode,
    ) -> Result<()> {
        let (context, from) = self.op_context()?;
        let to = self.of_this_volume(directory)?;
        let from = EntryName { directory: from, name: name.as_ref().as_bytes() };
        let to = EntryName { directory: to, name: new_name.as_ref().as_bytes() };
        context.rename(from, to, mode)
    }

    /// Changes mode, owner, times, flags, project or extent size hints. If the file has an access
    /// control list, a new mode changes the list too. [Buffered bytes](crate::File#buffered-bytes)
    /// of the file are written first. A file that gets another owner loses its capabilities first,
    /// in a separate change.
    ///
    /// # Errors
    ///
    /// - EPERM for an immutable or append-only file, unless only flags, project and hints change;
    ///   if the caller does not own the file, or lacks the [capability](crate::Capabilities) for
    ///   it.
    /// - EINVAL for a hint or a flag that the file cannot have.
    /// - ENOSPC if the access control list changes with the mode and needs blocks; EFBIG if the
    ///   attributes have the largest number of extents.
    /// - The errors of writing buffered bytes, and of [every change](crate#errors).
    pub fn set_attributes(&self, changes: &SetAttributes) -> Result<()> {
        let (context, entry) = self.op_context()?;
        context.set_attributes(entry, changes)
    }

    /// Sets the times of last access and last modification to now. The caller must own the file or
    /// have write access to it.
    ///
    /// # Errors
    ///
    /// EACCES; EPERM for an immutable file; the errors of writing [buffered
    /// bytes](crate::File#buffered-bytes), and of [every change](crate#errors).
    #[doc(alias = "UTIME_NOW")]
    pub fn touch(&self) -> Result<()> {
        let (context, entry) = self.op_context()?;
        context.set_times_to_now(entry)
    }

    /// Sets or removes an access control list. Setting an access list also sets the permission
    /// bits. An access list that permission bits express completely is not stored. Removing a list
    /// that does not exist is no error.
    ///
    /// # Errors
    ///
    /// - EACCES for a default list of anything but a directory; EOPNOTSUPP for a symbolic link.
    /// - E2BIG for more than 5461 entries.
    /// - EPERM for an immutable or append-only file, and if the caller does not own it.
    /// - ENOSPC; EFBIG if the attributes have the largest number of extents.
    /// - The errors of [every change](crate#errors).
    #[doc(alias = "xfs_set_acl")]
    pub fn set_acl(&self, kind: AclKind, list: Option<&Acl>) -> Result<()> {
        let (context, entry) = self.op_context()?;
        context.set_acl(entry, kind, list)?;
        context.mount.note(attribute_count(list));
        Ok(())
    }

    /// Sets the time of the last access. Unlike [`set_attributes`](Self::set_attributes), this call
    /// does not change the time of the last change, and immutable files allow it. While the volume
    /// is frozen, the call does nothing.
    ///
    /// # Errors
    ///
    /// EACCES if the caller may not read the file; the errors of [every change](crate#errors).
    #[doc(alias = "touch_atime")]
    pub fn note_access(&self, time: Timestamp) -> Result<()> {
        let (mount, entry) = self.writable()?;
        let context = mount.try_write_guard().map(|guard| OpContext::new(guard, self.caller()));
        context.map_or(Ok(()), |context| context.note_access(entry, time))
    }

    /// Sets the times of last modification and last change, for a cache in front of the volume. The
    /// cache changes the contents by [`File::write_back_at`](crate::File::write_back_at) before or
    /// after this call. Root may call this function for an immutable file too.
    ///
    /// # Errors
    ///
    /// EACCES if the caller may not write the file, EPERM if the file is immutable and the caller
    /// is not root; the errors of writing [buffered bytes](crate::File#buffered-bytes), and of
    /// [every change](crate#errors).
    pub fn note_modified(&self, modified: Timestamp, changed: Timestamp) -> Result<()> {
        let (context, entry) = self.op_context()?;
        context.note_modified(entry, modified, changed)
    }

    /// Sets an extended attribute by its Linux name. An access control list,
    /// `system.posix_acl_access` or `system.posix_acl_default`, is given in the format of Linux,
    /// and set as [`set_acl`](Self::set_acl) does, whatever `mode` is.
    ///
    /// # Errors
    ///
    /// - EEXIST if `mode` requires a new attribute, ENODATA if it requires an existing one.
    /// - EOPNOTSUPP for a name in no namespace of XFS, and for a list of another version.
    /// - EINVAL for a name that is empty or has a NUL, and for a malformed list.
    /// - ERANGE for a name of more than 255 bytes, its namespace included, E2BIG for a value of
    ///   more than 64 KiB.
    /// - EPERM for an immutable or append-only file; for `user.` of anything but a file or
    ///   directory, or of a sticky directory that the caller does not own; for `trusted.` and
    ///   `security.` without the [capability](crate::Capabilities) for it.
    /// - EACCES for `user.` if the caller may not write the file.
    /// - ENOSPC; EFBIG if the attributes have the largest number of extents.
    /// - For a list those of [`set_acl`](Self::set_acl); the errors of [every
    ///   change](crate#errors).
    pub fn set_attribute(
        &self,
        name: impl AsRef<OsStr>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let (context, entry) = self.op_context()?;
        let full = name.as_ref().as_bytes();
        // A volume can hold longer names, which no system call can ask for. They can be removed.
        if full.len() > MAX_LINUX_NAME_BYTES {
            return Err(PosixError::OutOfRange.into());
        }
        if let Some(kind) = AclKind::of_linux_name(full) {
            let list = Acl::from_linux_value(value)?;
            context.set_acl(entry, kind, list.as_ref())?;
            context.mount.note(attribute_count(list.as_ref()));
            return Ok(());
        }
        let (namespace, name) = split_linux_name(full).ok_or(PosixError::NotSupported)?;
        context.set_attribute(entry, &NewAttribute { namespace, name, value }, mode)?;
        context.mount.note(Activity::AttributeSet);
        Ok(())
    }

    /// Removes an extended attribute, given by its Linux name. Removing an access control list that
    /// does not exist is no error.
    ///
    /// # Errors
    ///
    /// ENODATA; EOPNOTSUPP, EINVAL, ERANGE, EPERM and EACCES as
    /// [`set_attribute`](Self::set_attribute); the errors of [every change](crate#errors).
    pub fn remove_attribute(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (context, entry) = self.op_context()?;
        let full = name.as_ref().as_bytes();
        if let Some(kind) = AclKind::of_linux_name(full) {
            context.set_acl(entry, kind, None)?;
            context.mount.note(Activity::AttributeRemoved);
            return Ok(());
        }
        let split = split_linux_name(full);
        let (namespace, name) = split.ok_or(PosixError::NotSupported)?;
        context.remove_attribute(entry, namespace, name)?;
        context.mount.note(Activity::AttributeRemoved);
        Ok(())
    }

    /// Removes the capabilities of the file, and if `set_ids` is true also its set-ID bits, as
    /// Linux does before a write by another user. Capabilities and set-ID bits let a program run
    /// with rights that its caller lacks. Append-only files lose them too. Returns whether the file
    /// had any of them.
    ///
    /// # Errors
    ///
    /// EACCES if the caller may not write the file; EPERM if it is immutable; the errors of [every
    /// change](crate#errors).
    #[doc(alias = "file_remove_privs")]
    pub fn drop_privileges(&self, set_ids: bool) -> Result<bool> {
        self.check(Access::WRITE)?;
        let (context, entry) = self.op_context()?;
        context.shed_privileges(entry, set_ids)
    }

    /// Makes all earlier changes of this inode durable before the call returns. For a file, this
    /// includes its contents.
    ///
    /// # Errors
    ///
    /// - EROFS on a volume that is open for reading.
    /// - The error of an earlier [lost](crate::File#buffered-bytes) write to this file. It is
    ///   returned once. This call has then made nothing durable, and the volume stays usable.
    /// - The error of the log; the volume is shut down then.
    #[doc(alias = "fsync")]
    pub fn sync(&self) -> Result<()> {
        let (mount, entry) = self.writable()?;
        mount.sync(entry)
    }

    /// Makes the contents durable before the call returns, with the metadata that is needed to read
    /// them: the extents and the size. The times may not be durable. After a file was overwritten
    /// without being extended, this call only flushes the device, and writes nothing to the log.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sync`](Self::sync).
    #[doc(alias = "fdatasync")]
    pub fn sync_data(&self) -> Result<()> {
        let (mount, entry) = self.writable()?;
        mount.sync_contents(entry)
    }

    /// Returns the cached inode of `other`. EXDEV if `other` belongs to a different volume.
    fn of_this_volume<'a>(&self, other: &'a Self) -> Result<&'a xfs_vfs::CachedInode> {
        let (mine, _) = self.writable()?;
        let (others, entry) = other.writable()?;
        if !std::ptr::eq(mine, others) {
            return Err(PosixError::CrossDevice.into());
        }
        Ok(entry)
    }
}

/// Returns the activity that the statistics count when an access control list is set (`Some`) or
/// removed (`None`).
fn attribute_count(list: Option<&Acl>) -> Activity {
    if list.is_some() { Activity::AttributeSet } else { Activity::AttributeRemoved }
}
