//! Being told what happens to an inode, or to a tree.
//!
//! Owns: the events and who gets them. A watch is a mark of its inode (`xfs_icache::Mark`)
//! and keeps it in memory, until nobody else can come to it. While a volume has no watch, an operation pays one look at a word that
//! nobody writes.
//!
//! An event is told when its operation has been committed, so it need not be durable yet. Events of
//! one watch are in the order in which they were told; those of operations at the same time in any.
//!
//! Who watches a subtree is told of what happens to everything that lies in it when the event is told:
//! the way goes upwards from the inode, by its parent pointers. Where one of the directories above is damaged, it
//! ends there.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bitflags::bitflags;
use xfs_buffer::PosixError;
use xfs_dir::Parents;
use xfs_format::superblock::Unsupported;
use xfs_format::{IncompatFeatures, InodeNumber};
use xfs_icache::{InodeWatch, Mark};
use xfs_sync::{AtomicU64, Condvar, Mutex, Object, Ordering, Volume, WaitTimeout};

use crate::Result;
use crate::credentials::Capabilities;
use crate::kind::CachedInode;
use crate::node::Node;
use crate::permission::Access;
use crate::writing::Parts;

/// Events that wait for who watches; what comes beyond is one [`WatchEvents::OVERFLOW`], and no second one
/// before that is taken.
const MOST_WAITING: usize = 16_384;

bitflags! {
    /// What happens to an inode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct WatchEvents: u16 {
        /// A name was made in this directory.
        #[doc(alias = "IN_CREATE")]
        const CREATE = 1;
        /// The contents of this file were changed.
        #[doc(alias = "IN_MODIFY")]
        const MODIFY = 1 << 1;
        /// A name was removed from this directory.
        #[doc(alias = "IN_DELETE")]
        const DELETE = 1 << 2;
        /// A name of this directory was moved away.
        #[doc(alias = "IN_MOVED_FROM")]
        const MOVED_FROM = 1 << 3;
        /// A name was moved to this directory.
        #[doc(alias = "IN_MOVED_TO")]
        const MOVED_TO = 1 << 4;
        /// Mode, owner, times, flags, attributes or links of this inode were changed.
        #[doc(alias = "IN_ATTRIB")]
        const ATTRIB = 1 << 5;
        /// This inode was moved.
        #[doc(alias = "IN_MOVE_SELF")]
        const MOVED_SELF = 1 << 6;
        /// This inode is gone: its last name, and its last user but for those who watch it. Nothing comes behind
        /// that, and it is told once.
        #[doc(alias = "IN_DELETE_SELF")]
        const DELETED_SELF = 1 << 8;
        /// Events were lost. Everybody is told.
        #[doc(alias = "IN_Q_OVERFLOW")]
        const OVERFLOW = 1 << 7;
    }
}

/// What a watch is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One inode.
    Inode,
    /// A directory, and all that lies below it.
    Subtree,
}

/// Something that has happened: told when the operation is committed, so it need not be durable yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// What: one of them.
    pub event: WatchEvents,
    /// To which inode; 0 with [`WatchEvents::OVERFLOW`].
    pub inode: InodeNumber,
    /// Which name in it, of a directory.
    pub name: Option<OsString>,
    /// The same in the two events of one move, and in no others; else 0.
    pub cookie: u64,
}

/// Events on their way to who watches.
#[derive(Default)]
pub(crate) struct Queue {
    inside: Mutex<Inside, Object>,
    changed: Condvar<Object>,
}

#[derive(Default)]
struct Inside {
    waiting: VecDeque<WatchEvent>,
    /// Whether one of them says that others were lost.
    overflown: bool,
    closed: bool,
}

impl Inside {
    fn pop(&mut self) -> Option<WatchEvent> {
        let event = self.waiting.pop_front()?;
        if event.event == WatchEvents::OVERFLOW {
            self.overflown = false;
        }
        Some(event)
    }
}

impl Queue {
    pub(crate) fn push(&self, event: &WatchEvent) {
        let mut inside = self.inside.lock();
        if inside.waiting.len() < MOST_WAITING {
            inside.waiting.push_back(event.clone());
        } else if !inside.overflown {
            let (event, inode) = (WatchEvents::OVERFLOW, InodeNumber(0));
            inside.waiting.push_back(WatchEvent { event, inode, name: None, cookie: 0 });
            inside.overflown = true;
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inside.lock().closed
    }

    /// Nothing comes any more.
    pub(crate) fn close(&self) {
        self.inside.lock().closed = true;
        self.changed.notify_all();
    }
}

/// A watch as its inode holds it.
#[derive(Clone)]
pub(crate) struct QueueWatch {
    queue: Arc<Queue>,
    events: WatchEvents,
    scope: Scope,
}

impl InodeWatch for QueueWatch {
    fn inode_gone(&self, inode: InodeNumber) {
        if self.events.contains(WatchEvents::DELETED_SELF) {
            let event = WatchEvents::DELETED_SELF;
            self.queue.push(&WatchEvent { event, inode, name: None, cookie: 0 });
        }
        self.queue.close();
    }

    fn close(&self) {
        self.queue.close();
    }
}

/// How many watches a volume has.
#[derive(Default)]
pub(crate) struct Watches {
    all: AtomicU64<Volume>,
    subtrees: AtomicU64<Volume>,
    last_cookie: AtomicU64<Volume>,
}

/// A watch: dropped, it ends. It keeps its inode in memory, but neither the volume from being closed nor the
/// blocks of a file that has lost its last name and its last user: then it ends too.
pub struct Watch {
    queue: Arc<Queue>,
    parts: Weak<Parts>,
    entry: Arc<CachedInode>,
    scope: Scope,
}

impl Watch {
    /// The next event, if one has happened.
    #[must_use]
    pub fn try_next(&self) -> Option<WatchEvent> {
        self.queue.inside.lock().pop()
    }

    /// The next event; waits for one for at most this long, or until the volume is closed or the inode gone.
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

    /// Whether the volume was closed, or the inode is gone: what waits is all that comes.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(parts) = self.parts.upgrade() else { return };
        let is_mine = |mark: &Mark<QueueWatch>| matches!(mark, Mark::Watch(watch) if Arc::ptr_eq(&watch.queue, &self.queue));
        parts.watches.count(self.scope, u64::MAX);
        for _ in self.entry.take_marks(is_mine) {
            parts.release(Arc::clone(&self.entry));
        }
    }
}

impl Watches {
    fn count(&self, scope: Scope, delta: u64) {
        self.all.fetch_add(delta, Ordering::AcqRel);
        if scope == Scope::Subtree {
            self.subtrees.fetch_add(delta, Ordering::AcqRel);
        }
    }

    fn is_empty(&self) -> bool {
        self.all.load(Ordering::Acquire) == 0
    }
}

impl Node {
    /// Watches this inode, or with [`Scope::Subtree`] all that lies below this directory too.
    ///
    /// # Errors
    ///
    /// EACCES for what may not be read, EPERM for a subtree without [`Capabilities::SYS_ADMIN`];
    /// EROFS on a volume that is open for reading; ENOTDIR for a subtree that is none; EOPNOTSUPP for a
    /// subtree of a volume without parent pointers, where a file does not know where it lies.
    #[doc(alias = "inotify_add_watch")]
    #[doc(alias = "fanotify_mark")]
    pub fn watch(&self, events: WatchEvents, scope: Scope) -> Result<Watch> {
        let (parts, entry) = self.writable()?;
        match scope {
            Scope::Inode => self.check(Access::READ)?,
            Scope::Subtree => self.who().require(Capabilities::SYS_ADMIN)?,
        }
        if scope == Scope::Subtree {
            if !parts.geometry().has_incompat(IncompatFeatures::PARENT) {
                return Err(Unsupported::NoParentPointers.into());
            }
            if !entry.is_directory() {
                return Err(PosixError::NotDirectory.into());
            }
        }
        let queue = Arc::new(Queue::default());
        entry.mark(Mark::Watch(QueueWatch { queue: Arc::clone(&queue), events, scope }));
        parts.watches.count(scope, 1);
        let parts = self.share().weak_parts();
        Ok(Watch { queue, parts, entry: Arc::clone(entry), scope })
    }

    /// Keeps this inode in memory until the volume is closed.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn keep_in_memory(&self) -> Result<()> {
        let (_, entry) = self.writable()?;
        entry.mark(Mark::Keeper);
        Ok(())
    }
}

impl Parts {
    /// Tells who watches what has happened to an inode.
    pub(crate) fn notify(&self, entry: &CachedInode, event: WatchEvents) {
        if !self.watches.is_empty() {
            self.tell(entry, event, None, 0);
        }
    }

    /// The same, of a name in a directory.
    pub(crate) fn notify_name(&self, directory: &CachedInode, event: WatchEvents, name: &[u8]) {
        if !self.watches.is_empty() {
            self.tell(directory, event, Some(name), 0);
        }
    }

    /// The same, of a move.
    pub(crate) fn notify_move(
        &self,
        child: &CachedInode,
        from: (&CachedInode, &[u8]),
        to: (&CachedInode, &[u8]),
    ) {
        if self.watches.is_empty() {
            return;
        }
        let cookie = self.watches.last_cookie.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(from.0, WatchEvents::MOVED_FROM, Some(from.1), cookie);
        self.tell(to.0, WatchEvents::MOVED_TO, Some(to.1), cookie);
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

    /// Tells those who watch a directory that `entry` lies below.
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
            self.release(directory);
        }
    }

    /// The directories that have a name of this inode, as far as they can be found.
    fn directories_of(&self, entry: &CachedInode) -> Vec<InodeNumber> {
        if entry.is_directory() {
            return entry
                .find(&self.journal, b"..")
                .map_or_else(|_| Vec::new(), |(up, _)| vec![up]);
        }
        let _latch = entry.live().record().latch().shared();
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

#[cfg(test)]
mod tests;
