//! Watches, which report events of an inode or of a tree to a program.
//!
//! Owns: the events, and which watches get them. A watch is a mark of its inode
//! (`xfs_icache::Mark`). The mark keeps the inode cached until the inode has no name and no other
//! reference. On a volume without watches, each operation only reads one word, which no thread
//! writes.
//!
//! An event is sent after the operation that caused it was committed. This operation need not be
//! durable yet. Events of one watch come in the order in which they were sent. The order of
//! concurrent operations is undefined.
//!
//! A watch of a subtree gets the events of all inodes that are in it when the event is sent. The
//! search for such watches goes upwards from the inode, by its parent pointers. It ends at a
//! damaged directory.

mod queue;

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use xfs_dir::Parents;
use xfs_format::InodeNumber;
use xfs_icache::{Mark, TakenMarks};
use xfs_sync::{Ordering, WaitTimeout};

use crate::kind::CachedInode;
use crate::mount::Mount;
use crate::name::EntryName;
use queue::Queue;
pub use queue::{MAX_WAITING_EVENTS, QueueWatch, Scope, WatchEvent, WatchEvents, Watches};

/// A watch on an inode, which ends when it is dropped. The watch keeps its inode cached, but does
/// not keep the file from being freed. The watch also ends when the volume is closed, or when the
/// file has lost its last name and its last other reference and is freed.
pub struct Watch {
    queue: Arc<Queue>,
    mount: Weak<Mount>,
    entry: Arc<CachedInode>,
    scope: Scope,
}

impl Watch {
    /// Returns the next event, or `None` if no event waits.
    #[must_use]
    pub fn try_next(&self) -> Option<WatchEvent> {
        self.queue.inside.lock().pop()
    }

    /// Returns the next event, and waits for it at most `timeout`. Returns `None` if no event came
    /// in that time, the volume was closed, or the inode is gone.
    #[must_use]
    pub fn next_within(&self, timeout: Duration) -> Option<WatchEvent> {
        let mut inside = self.queue.inside.lock();
        loop {
            if let Some(event) = inside.pop() {
                return Some(event);
            }
            let waited = !inside.closed
                && self.queue.changed.wait_for(&mut inside, timeout) == WaitTimeout::Notified;
            if !waited {
                return inside.pop();
            }
        }
    }

    /// Returns whether the volume was closed, or the inode is gone. If so, no further event comes,
    /// but waiting events can still be taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

/// Begins a watch on an inode. The caller holds a reference to the inode.
pub fn begin_watch(
    mount: Weak<Mount>,
    entry: &Arc<CachedInode>,
    events: WatchEvents,
    scope: Scope,
) -> Watch {
    let queue = Arc::new(Queue::default());
    entry.mark(Mark::Watch(QueueWatch { queue: Arc::clone(&queue), events, scope }));
    if let Some(mount) = mount.upgrade() {
        mount.watches.count(scope, 1);
    }
    Watch { queue, mount, entry: Arc::clone(entry), scope }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(mount) = self.mount.upgrade() else { return };
        let is_mine = |mark: &Mark<QueueWatch>| matches!(mark, Mark::Watch(watch) if Arc::ptr_eq(&watch.queue, &self.queue));
        mount.watches.count(self.scope, u64::MAX);
        drop(TakenMarks::take(&mount.inode_cache, &self.entry, is_mine));
    }
}

impl Mount {
    /// Sends an event of an inode to its watches.
    pub fn notify(&self, entry: &CachedInode, event: WatchEvents) {
        if !self.watches.is_empty() {
            self.tell(entry, event, None, 0);
        }
    }

    /// Sends an event about a name in a directory to the watches of the directory.
    pub(crate) fn notify_name(&self, directory: &CachedInode, event: WatchEvents, name: &[u8]) {
        if !self.watches.is_empty() {
            self.tell(directory, event, Some(name), 0);
        }
    }

    /// Sends the events of a move to the watches of both directories and of the moved inode.
    pub(crate) fn notify_move(&self, child: &CachedInode, from: EntryName<'_>, to: EntryName<'_>) {
        if self.watches.is_empty() {
            return;
        }
        let cookie = self.watches.last_cookie.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(from.directory, WatchEvents::MOVED_FROM, Some(from.name), cookie);
        self.tell(to.directory, WatchEvents::MOVED_TO, Some(to.name), cookie);
        self.tell(child, WatchEvents::MOVED_SELF, None, 0);
    }

    fn tell(&self, entry: &CachedInode, event: WatchEvents, name: Option<&[u8]>, cookie: u64) {
        let name = name.map(|name| OsString::from_vec(name.to_vec()));
        let event = WatchEvent { event, inode: entry.number(), name, cookie };
        tell_marks(entry, &event, |_| true);
        if self.watches.subtrees.load(Ordering::Acquire) > 0 {
            self.tell_above(entry, &event);
        }
    }

    /// Sends an event to the subtree watches on all directories above `entry`.
    fn tell_above(&self, entry: &CachedInode, event: &WatchEvent) {
        let mut seen = HashSet::from([entry.number()]);
        let mut open = self.directories_of(entry);
        while let Some(number) = open.pop() {
            if !seen.insert(number) {
                continue;
            }
            let Ok(directory) = self.take(number) else { continue };
            tell_marks(&directory, event, |scope| scope == Scope::Subtree);
            open.extend(self.directories_of(&directory));
        }
    }

    /// Returns the directories that have names of this inode. If a parent pointer or `..` cannot be
    /// read, the directory that it names is left out.
    fn directories_of(&self, entry: &CachedInode) -> Vec<InodeNumber> {
        if entry.is_directory() {
            return entry
                .find(&self.journal, b"..")
                .map_or_else(|_| Vec::new(), |(up, _)| vec![up]);
        }
        let _latch = entry.live().log_item().latch().shared();
        let inode = entry.live().inode();
        Parents::new(self.journal.cache(), &inode).flatten().map(|link| link.inode).collect()
    }
}

fn tell_marks(entry: &CachedInode, event: &WatchEvent, is_meant: impl Fn(Scope) -> bool) {
    for mark in entry.marks().all() {
        if let Mark::Watch(watch) = mark
            && is_meant(watch.scope)
            && watch.events.contains(event.event)
        {
            watch.queue.push(event);
        }
    }
}
