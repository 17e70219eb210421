//! Marks: references to inodes that watches and keepers hold.
//!
//! A mark holds a reference to its inode. The mark of a watch is removed when nothing else can
//! reach the inode; the mark of a keeper is not. A filesystem that is taken down evicts
//! unreferenced inodes, and then releases marks by walks over referenced inodes: watches first,
//! then keepers. So a keeper still has the inode when a watcher gets an event of it.

use xfs_format::InodeNumber;
use xfs_sync::{Mutex, Object, SetOnce};

use crate::kind::InodeWatch;

/// The holder of a reference to an inode: a watch with its state, or a keeper.
#[derive(Clone)]
pub enum Mark<W> {
    /// A watch, which gets the events of the inode.
    Watch(W),
    /// A keeper, which only keeps the inode cached.
    Keeper,
}

impl<W> Mark<W> {
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self, Self::Watch(_))
    }
}

impl<W: InodeWatch> Mark<W> {
    /// Ends a watch, because the inode is gone. Does nothing for a keeper.
    pub(crate) fn end_with(&self, inode: InodeNumber) {
        if let Self::Watch(watch) = self {
            watch.inode_gone(inode);
        }
    }
}

/// The marks of an inode. The list is allocated with the first mark.
pub struct Marks<W>(SetOnce<Box<MarkList<W>>, Object>);

type MarkList<W> = Mutex<Vec<Mark<W>>, Object>;

impl<W> Default for Marks<W> {
    fn default() -> Self {
        Self(SetOnce::new())
    }
}

impl<W: Clone> Marks<W> {
    /// Adds a mark. The caller has taken the reference that the mark holds.
    pub(crate) fn add(&self, mark: Mark<W>) {
        self.0.value_or_init(Box::default).lock().push(mark);
    }

    /// Returns copies of the current marks.
    pub fn all(&self) -> Vec<Mark<W>> {
        self.0.value().map_or_else(Vec::new, |marks| marks.lock().clone())
    }

    pub(crate) fn take(&self, is_wanted: impl Fn(&Mark<W>) -> bool) -> Vec<Mark<W>> {
        let Some(marks) = self.0.value() else { return Vec::new() };
        marks.lock().extract_if(.., |mark| is_wanted(mark)).collect()
    }
}
