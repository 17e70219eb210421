//! Changing what a volume holds, by inode.
//!
//! Owns: what an operation on a [`Node`] is called, and what is counted of it. Does **not** own: what it does
//! (`writing`), or what is atomic and durable of it and fails every change, which the [crate](crate#changes) says.

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

/// The longest name of an attribute on Linux, its namespace included.
#[doc(alias = "XATTR_NAME_MAX")]
const MAX_LINUX_NAME_BYTES: usize = 255;

impl Node {
    /// Makes a file in this directory. It inherits access control lists from it; where these do not fit into the
    /// inode, a crash may leave the file without some of them.
    ///
    /// # Errors
    ///
    /// - EEXIST, also for `.` and `..`.
    /// - ENOENT for an empty name or target, and if this directory has been removed.
    /// - ENOTDIR if it is none.
    /// - ENAMETOOLONG for a name of more than 255 bytes, or a target of more than 1023.
    /// - EINVAL for a name with a slash or NUL, a target with NUL, a device number that does not fit.
    /// - EACCES for who may not search and write this directory.
    /// - EPERM if it is immutable; for a symbolic link if it takes none (`NOSYMLINKS`); for a device other than 0:0
    ///   without [`Capabilities::MKNOD`](crate::Capabilities::MKNOD).
    /// - EMLINK for a directory if this one has as many links as there can be.
    /// - ENOSPC, and those of [every change](crate#errors).
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
    /// [linked](Self::link) it is gone with its last handle, and after a crash. It inherits as by
    /// [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// ENOTDIR; ENOENT if this directory has been removed; EACCES for who may not search and write it; EPERM if it is
    /// immutable; ENOSPC; those of [every change](crate#errors).
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
    /// - EEXIST, ENOTDIR, ENAMETOOLONG and EINVAL as [`create`](Self::create).
    /// - ENOENT for an empty name, if this directory has been removed, and for a file that was removed (one
    ///   [made without a name](Self::create_unnamed) gets its first one).
    /// - EACCES for who may not search and write this directory.
    /// - EPERM for a directory; if the file is immutable or append-only, or this directory immutable; for who is
    ///   refused further names ([`protect_hard_links`](crate::Credentials::protect_hard_links)).
    /// - EMLINK if the file has as many names as there can be.
    /// - EXDEV where this directory keeps to another project, or `file` is of another volume.
    /// - ENOSPC, and those of [every change](crate#errors).
    pub fn link(&self, file: &Self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, directory) = self.acting()?;
        let entry = self.of_this_volume(file)?;
        parts.link(entry, directory, name.as_ref().as_bytes())?;
        parts.note(Activity::NameAdded);
        Ok(())
    }

    /// Removes a name of anything but a directory. The file is freed when it has no other name and
    /// no handle: after a crash, when the volume is recovered.
    ///
    /// # Errors
    ///
    /// - ENOENT, also if this directory has been removed.
    /// - EISDIR for a directory, `.` and `..`; ENOTDIR if this is none.
    /// - ENAMETOOLONG for a name of more than 255 bytes.
    /// - EACCES for who may not search and write this directory.
    /// - EPERM if it or the file is immutable or append-only, or it is sticky and neither belongs to who asks.
    /// - Those of [every change](crate#errors).
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
    /// ENOTDIR for anything else; ENOTEMPTY, also for `..`; EINVAL for `.`; ENOENT, ENAMETOOLONG, EACCES, EPERM and
    /// all others as [`remove_file`](Self::remove_file).
    #[doc(alias = "rmdir")]
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (parts, directory) = self.acting()?;
        parts.remove(directory, name.as_ref().as_bytes(), Removal::Directory)?;
        parts.note(Activity::NameRemoved);
        Ok(())
    }

    /// Moves a name of this directory to `directory`, which may be the same. Whoever looks finds one of the two names,
    /// and always something under one that is replaced.
    ///
    /// # Errors
    ///
    /// - ENOENT for `name`, for an empty one, for `new_name` with [`RenameMode::Exchange`], and if a directory has
    ///   been removed.
    /// - EEXIST with [`RenameMode::NoReplace`], and where a directory to be replaced is not empty.
    /// - ENOTEMPTY where what would be replaced is this directory, or lies above it.
    /// - EISDIR for a file in the place of a directory; ENOTDIR for the reverse, and if `self` or `directory` is none.
    /// - EBUSY for `.` and `..`; ENAMETOOLONG for a name of more than 255 bytes.
    /// - EINVAL for a name with a slash or NUL, and for a directory that would come to lie below itself.
    /// - EACCES for who may not search and write both directories, or not write a directory that goes to another one.
    /// - EPERM as [`remove_file`](Self::remove_file), for what moves and for what is replaced; if `directory` is
    ///   immutable.
    /// - EMLINK for a directory, if the one that it goes to has as many links as there can be.
    /// - EXDEV where `directory` keeps to another project, or is of another volume.
    /// - ENOSPC, and those of [every change](crate#errors).
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

    /// Changes mode, owner, times, flags or hints, and the access control list with the mode. What
    /// [waits in memory](crate::File#what-waits-in-memory) of the file is written first, and the capabilities of a
    /// file that somebody gives away go first, as a change of its own.
    ///
    /// # Errors
    ///
    /// - EPERM for an immutable or append-only file, unless flags, project and hints alone change; for who does not own
    ///   the file, or lacks the [capability](crate::Capabilities) for it.
    /// - EINVAL for a hint or a flag that it cannot have.
    /// - ENOSPC where a list that follows the mode takes blocks; EFBIG where the attributes have as many extents as the
    ///   inode counts.
    /// - What the write of what waits meets, and those of [every change](crate#errors).
    pub fn change(&self, changes: &Changes) -> Result<()> {
        let (parts, entry) = self.acting()?;
        parts.change(entry, changes)
    }

    /// Sets the times of last access and last change to now, as the owner may, and who may write.
    ///
    /// # Errors
    ///
    /// EACCES; EPERM for an immutable file; what the write of what [waits in memory](crate::File#what-waits-in-memory)
    /// meets; those of [every change](crate#errors).
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
    /// - EACCES for a default list of what is no directory; EOPNOTSUPP for a symbolic link.
    /// - E2BIG for more than 5461 entries.
    /// - EPERM for an immutable or append-only file, and for who does not own it.
    /// - ENOSPC; EFBIG where the attributes have as many extents as the inode counts.
    /// - Those of [every change](crate#errors).
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
    /// EACCES for who may not read the file; those of [every change](crate#errors).
    #[doc(alias = "touch_atime")]
    pub fn note_access(&self, time: Timestamp) -> Result<()> {
        let (parts, entry) = self.writable()?;
        let acting = parts.try_writer().map(|writer| Acting::writing(writer, self.who()));
        acting.map_or(Ok(()), |acting| acting.note_access(entry, time))
    }

    /// Sets the times of the last change of the contents and of anything: for a cache that has
    /// changed the contents by [`File::write_back_at`](crate::File::write_back_at), now or before long. For root it
    /// is possible for an immutable file.
    ///
    /// # Errors
    ///
    /// EACCES for who may not write the file, EPERM if it is immutable for him; what the write of what
    /// [waits in memory](crate::File#what-waits-in-memory) meets; those of [every change](crate#errors).
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
    /// - EEXIST and ENODATA by `mode`.
    /// - EOPNOTSUPP for a name in no namespace of XFS, and for a list of another version.
    /// - EINVAL for a name that is empty or has a NUL, and for a value that is no list.
    /// - ERANGE for a name of more than 255 bytes, its namespace included, E2BIG for a value of more than 64 KiB.
    /// - EPERM for an immutable or append-only file; for `user.` of what is neither file nor directory, or of a
    ///   sticky directory of somebody else; for `trusted.` and `security.` without the
    ///   [capability](crate::Capabilities) for it.
    /// - EACCES for `user.` of what one may not write.
    /// - ENOSPC; EFBIG where the attributes have as many extents as the inode counts.
    /// - Of a list those of [`set_acl`](Self::set_acl); those of [every change](crate#errors).
    pub fn set_attribute(
        &self,
        name: impl AsRef<OsStr>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let (parts, entry) = self.acting()?;
        let full = name.as_ref().as_bytes();
        // Of longer ones, which a volume can hold, no call of Linux can ask. They can be removed.
        if full.len() > MAX_LINUX_NAME_BYTES {
            return Err(PosixError::OutOfRange.into());
        }
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

    /// Removes an extended attribute by its Linux name. Where that means an access control list, there need not be
    /// one.
    ///
    /// # Errors
    ///
    /// ENODATA; EOPNOTSUPP, EINVAL, ERANGE, EPERM and EACCES as [`set_attribute`](Self::set_attribute); those of
    /// [every change](crate#errors).
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
    /// EACCES for who may not write the file; EPERM if it is immutable; those of [every change](crate#errors).
    #[doc(alias = "file_remove_privs")]
    pub fn drop_privileges(&self, set_ids: bool) -> Result<bool> {
        self.check(Access::WRITE)?;
        let (parts, entry) = self.acting()?;
        parts.shed_privileges(entry, set_ids)
    }

    /// Returns when everything that was done to this inode, and before that, is durable: of a file its contents too.
    ///
    /// # Errors
    ///
    /// - EROFS on a volume that is open for reading.
    /// - The error of a write to this file that was [lost](crate::File#what-waits-in-memory), once: this call has made
    ///   nothing durable then, and the volume goes on.
    /// - What stopped the log; the volume is shut down then.
    #[doc(alias = "fsync")]
    pub fn sync(&self) -> Result<()> {
        let (parts, entry) = self.writable()?;
        parts.sync(entry)
    }

    /// Returns when the contents are durable, and what is needed to read them: where they lie, and the size. Times
    /// may not be, and so a file that is written over without getting larger costs a flush of the device, and
    /// nothing is written to the log.
    ///
    /// # Errors
    ///
    /// As [`sync`](Self::sync).
    #[doc(alias = "fdatasync")]
    pub fn sync_data(&self) -> Result<()> {
        let (parts, entry) = self.writable()?;
        parts.sync_contents(entry)
    }

    /// The entry of another node, if it is of this volume.
    fn of_this_volume<'a>(&self, other: &'a Self) -> Result<&'a crate::kind::CachedInode> {
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
