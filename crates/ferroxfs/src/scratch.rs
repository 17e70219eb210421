//! A small volume in memory, for programs that need a temporary tree of files and no XFS image.
//!
//! Owns: the tree of names of a [`ScratchVolume`], and the contents of its files. Does **not** own
//! the inodes, or the walks over them: `xfs-icache` has both. A scratch volume gives `xfs-icache` a
//! list of inodes to walk over.
//!
//! Nothing is written to a device. There are no owners, modes, times or attributes, and all changes
//! of names take one lock. A program that needs those, or parallel changes, makes an XFS volume in
//! memory.
//!
//! # Invariants
//!
//! - **I1** A name holds a reference to its inode. So an inode is freed once its last name is
//!   removed and its last handle is dropped.
//! - **I2** Names change under `changing`. A directory that has lost its name gets no entries.
//!
//! Lock order: `changing`, then one directory, then the state of one inode.

mod tree;

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_icache::{
    CacheCounts, CacheRef, CachedInode, InodeWalk, SmallContents, SmallInode, SmallKind, StoredRef,
    WalkFilter, count_inodes,
};
use xfs_vfs::NewKind;

use crate::Result;
use tree::{ScratchName, Tree};

/// A small volume in memory, without backing store. The volume is freed with the last handle on it.
///
/// ```
/// use ferroxfs::NewKind;
/// use ferroxfs::scratch::ScratchVolume;
///
/// let volume = ScratchVolume::new(1 << 20);
/// let folder = volume.root().create("folder", &NewKind::Directory)?;
/// let file = folder.create("file", &NewKind::Regular)?;
/// file.write_at(b"for a while", 0)?;
/// folder.rename("file", &volume.root(), "elsewhere")?;
/// let found = volume.root().lookup("elsewhere")?;
/// let mut bytes = [0; 3];
/// assert_eq!(found.read_at(&mut bytes, 0)?, 3);
/// assert_eq!(&bytes, b"for");
/// assert_eq!(volume.cache_counts().total(), 3);
/// # Ok::<(), ferroxfs::Error>(())
/// ```
pub struct ScratchVolume {
    tree: Arc<Tree>,
}

/// A handle on an inode of a [`ScratchVolume`].
pub struct ScratchNode {
    tree: Arc<Tree>,
    /// The inode. `Some` until the handle is dropped.
    entry: Option<StoredRef<SmallKind>>,
}

/// An entry of a directory of a [`ScratchVolume`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScratchEntry {
    /// The name of the entry.
    pub name: OsString,
    /// The inode number of the entry.
    pub number: InodeNumber,
    /// The type of the file to which the entry leads.
    pub file_type: FileType,
}

impl ScratchVolume {
    /// Returns an empty volume that may use about `most_bytes` bytes of memory. The usage counts
    /// the length of each file, holes included, and the memory of each inode and name.
    #[must_use]
    pub fn new(most_bytes: u64) -> Self {
        Self { tree: Arc::new(Tree::new(most_bytes)) }
    }

    /// Returns the root directory.
    #[must_use]
    pub fn root(&self) -> ScratchNode {
        ScratchNode::new(&self.tree, self.tree.root().share())
    }

    /// Calls `f` with each inode, until `f` stops the walk. No lock is held: `f` may use this
    /// volume too. Every inode is referenced, because names are references.
    #[doc(alias = "super_iter_inodes")]
    pub fn iter_inodes(
        &self,
        filter: WalkFilter,
        mut f: impl FnMut(&ScratchNode) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.tree
            .inodes
            .iter_inodes(filter, |entry| f(&ScratchNode::new(&self.tree, entry.clone().store())))
    }

    /// Returns counts of the inodes, by visiting each.
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        count_inodes(&self.tree.inodes)
    }

    /// Returns the number of bytes of memory that the volume counts as used.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.tree.inodes.room.used_bytes()
    }
}

impl ScratchNode {
    /// Makes a handle that owns a reference to an inode of `tree`.
    fn new(tree: &Arc<Tree>, entry: StoredRef<SmallKind>) -> Self {
        Self { tree: Arc::clone(tree), entry: Some(entry) }
    }

    fn held(&self) -> &StoredRef<SmallKind> {
        self.entry.as_ref().expect("a node is held until it is dropped")
    }

    fn entry(&self) -> &Arc<CachedInode<SmallKind>> {
        self.held().inode()
    }

    fn inode(&self) -> &SmallInode {
        self.entry().live()
    }

    /// Returns the inode number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.entry().number()
    }

    /// Returns the type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.entry().file_type()
    }

    /// Returns the number of names that the inode has.
    #[must_use]
    pub fn nlink(&self) -> u32 {
        self.inode().nlink()
    }

    /// Makes a file, a directory, a link or a special file in this directory.
    ///
    /// # Errors
    ///
    /// - EEXIST, also for `.` and `..`.
    /// - ENOTDIR.
    /// - ENOENT for an empty name, and if this directory was removed.
    /// - ENAMETOOLONG for a name of more than 255 bytes.
    /// - EINVAL for a name with a slash or NUL, and for a target that is not of 1 to 1023 bytes.
    /// - ENOSPC.
    pub fn create(&self, name: impl AsRef<OsStr>, kind: &NewKind<'_>) -> Result<Self> {
        let entry = self.tree.create(self.entry(), name.as_ref().as_bytes(), kind)?;
        Ok(Self::new(&self.tree, entry.store()))
    }

    /// Returns the inode that `name` means in this directory; links are not followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR.
    pub fn lookup(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        let entry = Tree::look_up(self.entry(), name.as_ref().as_bytes())?;
        Ok(Self::new(&self.tree, entry))
    }

    /// Gives `file` a name in this directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`create`](Self::create). Also returns EPERM for a directory, EXDEV
    /// for a file of another volume, ENOENT for a file that has lost its last name.
    pub fn link(&self, file: &Self, name: impl AsRef<OsStr>) -> Result<()> {
        self.check_same(file)?;
        self.tree.link(self.entry(), name.as_ref().as_bytes(), file.held())
    }

    /// Removes a name of a file, or of an empty directory.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, ENOTEMPTY.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.tree.remove(self.entry(), name.as_ref().as_bytes())
    }

    /// Moves a name of this directory to `directory`, which may be the same. An existing target is
    /// replaced.
    ///
    /// # Errors
    ///
    /// - ENOENT, also for an empty name and if `directory` was removed.
    /// - EISDIR, ENOTDIR, ENOTEMPTY for a target that cannot be replaced.
    /// - EINVAL for an invalid new name, and for a directory that would become its own descendant.
    /// - ENAMETOOLONG.
    /// - EXDEV for a directory of another volume.
    /// - ENOSPC.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        directory: &Self,
        new_name: impl AsRef<OsStr>,
    ) -> Result<()> {
        self.check_same(directory)?;
        let from = ScratchName { directory: self.entry(), name: name.as_ref().as_bytes() };
        let (directory, name) = (directory.entry(), new_name.as_ref().as_bytes());
        self.tree.rename(from, ScratchName { directory, name })
    }

    /// Returns the current entries of this directory, by name.
    ///
    /// # Errors
    ///
    /// ENOTDIR.
    pub fn entries(&self) -> Result<Vec<ScratchEntry>> {
        let SmallContents::Directory(names) = &self.inode().contents else {
            return Err(PosixError::NotDirectory.into());
        };
        let names = names.lock();
        let entries = names.iter().map(|(name, entry)| ScratchEntry {
            name: OsString::from_vec(name.to_vec()),
            number: entry.inode().number(),
            file_type: entry.inode().file_type(),
        });
        Ok(entries.collect())
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// EINVAL if this is no link.
    pub fn read_link(&self) -> Result<OsString> {
        match &self.inode().contents {
            SmallContents::Symlink(target) => Ok(OsString::from_vec(target.to_vec())),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Returns the length of a regular file.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for any other non-regular file.
    pub fn length_bytes(&self) -> Result<u64> {
        Ok(self.bytes()?.read().len() as u64)
    }

    /// Reads from byte `offset` on. Returns how many bytes were read, fewer than requested only at
    /// the end of the file.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for any other non-regular file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.bytes()?.read();
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (from, _) = rest.split_at(count);
        buffer.split_at_mut(count).0.copy_from_slice(from);
        Ok(count)
    }

    /// Writes all of `bytes` from byte `offset` on. The range between the end of the file and
    /// `offset` reads as zeros.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for any other non-regular file; EFBIG past the largest
    /// length; ENOSPC. Nothing is written then.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut contents = self.bytes()?.write();
        let end = offset.checked_add(bytes.len() as u64).ok_or(PosixError::FileTooLarge)?;
        // A write of no bytes does not extend the file, not even up to `offset`.
        if bytes.is_empty() {
            return Ok(());
        }
        if end > contents.len() as u64 {
            self.resize(&mut contents, end)?;
        }
        // The contents are in memory, so the offset fits.
        let target = contents.get_mut(offset as usize..end as usize);
        target.expect("the file reaches to the end of the write").copy_from_slice(bytes);
        Ok(())
    }

    /// Sets the length of a regular file. Added bytes read as zeros.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_at`](Self::write_at).
    pub fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.resize(&mut self.bytes()?.write(), length_bytes)
    }

    fn bytes(&self) -> Result<&xfs_sync::RwLock<Vec<u8>, xfs_sync::Object>> {
        match &self.inode().contents {
            SmallContents::File(bytes) => Ok(bytes),
            SmallContents::Directory(_) => Err(PosixError::IsDirectory.into()),
            SmallContents::Symlink(_) | SmallContents::Special(_) => {
                Err(PosixError::InvalidArgument.into())
            }
        }
    }

    fn resize(&self, contents: &mut Vec<u8>, length_bytes: u64) -> Result<()> {
        let (room, now) = (&self.tree.inodes.room, contents.len() as u64);
        let length = usize::try_from(length_bytes).map_err(|_| PosixError::FileTooLarge)?;
        match length_bytes.checked_sub(now) {
            Some(more) => {
                room.take(more)?;
                if contents.try_reserve(length - contents.len()).is_err() {
                    room.give_back(more);
                    return Err(PosixError::NoSpace.into());
                }
                contents.resize(length, 0);
            }
            None => {
                contents.truncate(length);
                contents.shrink_to_fit();
                room.give_back(now - length_bytes);
            }
        }
        Ok(())
    }

    fn check_same(&self, other: &Self) -> Result<()> {
        match Arc::ptr_eq(&self.tree, &other.tree) {
            true => Ok(()),
            false => Err(PosixError::CrossDevice.into()),
        }
    }
}

impl Clone for ScratchNode {
    fn clone(&self) -> Self {
        Self::new(&self.tree, self.held().share())
    }
}

impl Drop for ScratchNode {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            drop(CacheRef::restore(&self.tree.inodes, entry));
        }
    }
}

#[cfg(test)]
mod tests;
