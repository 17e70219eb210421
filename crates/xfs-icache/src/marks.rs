//! Watches and keepers: references that code outside of the filesystem holds.
//!
//! A mark holds a reference to its inode. The mark of a watch ends when nothing else can reach the
//! inode any more; that of a keeper does not. A filesystem that is taken down evicts unreferenced
//! inodes, and then releases marks by walks over referenced inodes: watches first, then keepers. So
//! code that keeps rules with an inode has the inode as long as a watcher may be told of it.

use xfs_format::InodeNumber;
use xfs_sync::{Mutex, Object, SetOnce};

use crate::kind::InodeWatch;

/// A holder of an inode.
#[derive(Clone)]
pub enum Mark<W> {
    /// A watch, which is told what happens to the inode.
    Watch(W),
    /// A holder that wants the inode to stay cached.
    Keeper,
}

impl<W> Mark<W> {
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self, Self::Watch(_))
    }
}

impl<W: InodeWatch> Mark<W> {
    /// Tells a watch that the inode is gone.
    pub(crate) fn end_with(&self, inode: InodeNumber) {
        if let Self::Watch(watch) = self {
            watch.inode_gone(inode);
        }
    }
}

/// The marks of an inode. It allocates nothing before the first one.
pub struct Marks<W>(SetOnce<Box<MarkList<W>>, Object>);

type MarkList<W> = Mutex<Vec<Mark<W>>, Object>;

impl<W> Default for Marks<W> {
    fn default() -> Self {
        Self(SetOnce::new())
    }
}

impl<W: Clone> Marks<W> {
    /// Adds a mark. The caller has taken the reference that belongs to it.
    pub(crate) fn add(&self, mark: Mark<W>) {
        self.0.value_or_init(Box::default).lock().push(mark);
    }

    /// Returns the current marks.
    pub fn all(&self) -> Vec<Mark<W>> {
        self.0.value().map_or_else(Vec::new, |marks| marks.lock().clone())
    }

    pub(crate) fn take(&self, is_wanted: impl Fn(&Mark<W>) -> bool) -> Vec<Mark<W>> {
        let Some(marks) = self.0.value() else { return Vec::new() };
        marks.lock().extract_if(.., |mark| is_wanted(mark)).collect()
    }
}
