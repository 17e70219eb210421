//! The types of which a filesystem makes its cached inodes.

use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_inode::LiveInode;

/// The properties of an inode that the cache needs.
pub trait Inode: Send + Sync + 'static {
    /// Returns its number.
    fn number(&self) -> InodeNumber;

    /// Returns its type, which never changes.
    fn file_type(&self) -> FileType;

    /// Returns whether it has a name left. The cache asks when the last reference goes, and then
    /// nothing changes the inode.
    fn has_name(&self) -> bool;
}

/// A watch on an inode, as far as the inode cache needs it: the cache ends watches.
pub trait InodeWatch: Clone + Send + Sync {
    /// Reports that the inode is gone, and ends the watch.
    fn inode_gone(&self, inode: InodeNumber);

    /// Ends the watch because the filesystem is taken down.
    fn close(&self);
}

/// The types of which a filesystem makes its cached inodes.
pub trait InodeKind: Sized + 'static {
    /// An inode.
    type Inode: Inode;

    /// State of the contents of a regular file. The cached inode makes it on first use.
    type Contents: Default + Send + Sync;

    /// A watch on an inode.
    type Watch: InodeWatch;
}

impl Inode for LiveInode {
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
