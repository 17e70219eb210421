//! What holds inodes on behalf of somebody outside: watches, and keepers.
//!
//! A mark is a use of its inode. That of a watch ends when nobody can come to the inode any more; that of a
//! keeper does not. A filesystem that is taken down releases them when it has evicted
//! what nobody holds, by walks over what is still referenced: watches first, then keepers, so that
//! whoever keeps rules with an inode has it as long as somebody may be told of it.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_format::InodeNumber;
use xfs_sync::{Mutex, Object, SetOnce};

use super::{Filesystem, Which, evict_all};
use crate::table::{Entry, Inode};
use crate::watch::{Queue, Scope, WatchEvent, WatchEvents};

/// What holds an inode.
#[derive(Clone)]
pub(crate) enum Mark {
    /// Somebody who is told what happens to it.
    Watch { queue: Arc<Queue>, events: WatchEvents, scope: Scope },
    /// Somebody who wants it in memory.
    Keeper,
}

impl Mark {
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self, Self::Watch { .. })
    }

    /// Tells who watches that the inode is gone.
    pub(crate) fn end_with(&self, inode: InodeNumber) {
        let Self::Watch { queue, events, .. } = self else { return };
        if events.contains(WatchEvents::DELETED_SELF) {
            let event = WatchEvents::DELETED_SELF;
            queue.push(&WatchEvent { event, inode, name: None, cookie: 0 });
        }
        queue.close();
    }
}

/// The marks of an inode: nothing until the first one.
#[derive(Default)]
pub(crate) struct Marks(SetOnce<Box<Mutex<Vec<Mark>, Object>>, Object>);

impl Marks {
    /// The marks now.
    pub(crate) fn all(&self) -> Vec<Mark> {
        self.0.value().map_or_else(Vec::new, |marks| marks.lock().clone())
    }

    fn take(&self, is_wanted: impl Fn(&Mark) -> bool) -> Vec<Mark> {
        let Some(marks) = self.0.value() else { return Vec::new() };
        marks.lock().extract_if(.., |mark| is_wanted(mark)).collect()
    }
}

impl<I: Inode> Entry<I> {
    /// Adds a mark, which takes a use of the inode. The caller uses it.
    pub(crate) fn mark(&self, mark: Mark) {
        if mark.is_watch() {
            self.share_as_mark();
        } else {
            self.share();
        }
        self.marks().0.value_or_init(Box::default).lock().push(mark);
    }

    /// Takes out those marks for which `is_wanted`. The caller gives up a use for each.
    pub(crate) fn take_marks(&self, is_wanted: impl Fn(&Mark) -> bool) -> Vec<Mark> {
        let taken = self.marks().take(is_wanted);
        taken.iter().filter(|mark| mark.is_watch()).for_each(|_| self.unmark());
        taken
    }
}

/// Releases all marks of one kind, by a walk over what is in use.
fn release_marks<F: Filesystem>(filesystem: &F, is_wanted: impl Fn(&Mark) -> bool) {
    let _ = filesystem.iter_inodes(Which::Referenced, |entry| {
        for mark in entry.take_marks(&is_wanted) {
            if let Mark::Watch { queue, .. } = mark {
                queue.close();
            }
            filesystem.release(Arc::clone(entry));
        }
        ControlFlow::Continue(())
    });
}

/// Takes down the inodes of a filesystem that is not active any more: what nobody holds, what
/// watches hold, what keepers hold. Nothing is left then but what has a user of another kind.
#[doc(alias = "generic_shutdown_super")]
pub(crate) fn take_down(filesystem: &impl Filesystem) {
    evict_all(filesystem);
    release_watches(filesystem);
    release_keepers(filesystem);
}

#[doc(alias = "fsnotify_sb_delete")]
pub(super) fn release_watches(filesystem: &impl Filesystem) {
    release_marks(filesystem, Mark::is_watch);
}

#[doc(alias = "security_sb_delete")]
pub(super) fn release_keepers(filesystem: &impl Filesystem) {
    release_marks(filesystem, |mark| matches!(mark, Mark::Keeper));
}
