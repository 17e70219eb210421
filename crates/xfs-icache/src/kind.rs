//! The traits with which a filesystem chooses the types of its cached inodes.

use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_inode::LiveInode;

/// The properties of an inode that the cache needs.
pub trait CacheableInode: Send + Sync + 'static {
    /// Returns the inode number.
    fn number(&self) -> InodeNumber;

    /// Returns the type of the file, which never changes.
    fn file_type(&self) -> FileType;

    /// Returns whether the inode has a name left. The cache calls this when the last reference is
    /// released. At that time no thread changes the inode.
    fn has_name(&self) -> bool;
}

/// A watch on an inode. The inode cache uses a watch only to end it.
pub trait InodeWatch: Clone + Send + Sync {
    /// Reports to the watcher that the inode is gone, and ends the watch.
    fn inode_gone(&self, inode: InodeNumber);

    /// Ends the watch because the filesystem is taken down.
    fn close(&self);
}

/// The types of the inodes, contents and watches of a filesystem.
pub trait InodeKind: Sized + 'static {
    /// The in-core inode that a cached inode holds.
    type Inode: CacheableInode;

    /// The state of a regular file's contents. The cached inode makes it on first use.
    type Contents: Default + Send + Sync;

    /// A watch on an inode.
    type Watch: InodeWatch;
}

impl CacheableInode for LiveInode {
    fn number(&self) -> InodeNumber {
        self.number()
    }

    fn file_type(&self) -> FileType {
        self.inode().file_type()
    }

    fn has_name(&self) -> bool {
        self.inode().core().nlink > 0
    }
}
