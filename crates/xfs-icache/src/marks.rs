//! What holds inodes on behalf of somebody outside: watches, and keepers.
//!
//! A mark is a use of its inode. That of a watch ends when nobody can come to the inode any more; that of a
//! keeper does not. A filesystem that is taken down releases them when it has evicted
//! what nobody holds, by walks over what is still referenced: watches first, then keepers, so that
//! whoever keeps rules with an inode has it as long as somebody may be told of it.

use xfs_format::InodeNumber;
use xfs_sync::{Mutex, Object, SetOnce};

use crate::kind::InodeWatch;

/// What holds an inode.
#[derive(Clone)]
pub enum Mark<W> {
    /// Somebody who is told what happens to it.
    Watch(W),
    /// Somebody who wants it in memory.
    Keeper,
}

impl<W> Mark<W> {
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self, Self::Watch(_))
    }
}

impl<W: InodeWatch> Mark<W> {
    /// Tells who watches that the inode is gone.
    pub(crate) fn end_with(&self, inode: InodeNumber) {
        if let Self::Watch(watch) = self {
            watch.inode_gone(inode);
        }
    }
}

/// The marks of an inode: nothing until the first one.
pub struct Marks<W>(SetOnce<Box<Mutex<Vec<Mark<W>>, Object>>, Object>);

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

    /// The marks now.
    pub fn all(&self) -> Vec<Mark<W>> {
        self.0.value().map_or_else(Vec::new, |marks| marks.lock().clone())
    }

    pub(crate) fn take(&self, is_wanted: impl Fn(&Mark<W>) -> bool) -> Vec<Mark<W>> {
        let Some(marks) = self.0.value() else { return Vec::new() };
        marks.lock().extract_if(.., |mark| is_wanted(mark)).collect()
    }
}
