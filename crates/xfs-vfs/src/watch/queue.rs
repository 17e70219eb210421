//! The events of watches, and the queues in which the events wait until a program takes them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Arc;

use bitflags::bitflags;
use xfs_format::InodeNumber;
use xfs_icache::InodeWatch;
use xfs_sync::{AtomicU64, Condvar, Mutex, Object, Ordering, Volume};

/// The most events that wait in the queue of a watch. Later events are lost; one waiting
/// [`WatchEvents::OVERFLOW`] stands for all of them, until the program takes it.
pub const MAX_WAITING_EVENTS: usize = 16_384;

bitflags! {
    /// Kinds of events of an inode.
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
        /// A name was moved out of this directory.
        #[doc(alias = "IN_MOVED_FROM")]
        const MOVED_FROM = 1 << 3;
        /// A name was moved into this directory.
        #[doc(alias = "IN_MOVED_TO")]
        const MOVED_TO = 1 << 4;
        /// Mode, owner, times, flags, attributes or links of this inode were changed.
        #[doc(alias = "IN_ATTRIB")]
        const ATTRIB = 1 << 5;
        /// A name of this inode was changed or moved to another directory.
        #[doc(alias = "IN_MOVE_SELF")]
        const MOVED_SELF = 1 << 6;
        /// This inode is gone: it has lost its last name and its last reference, except those of
        /// watches. This is the last event of a watch.
        #[doc(alias = "IN_DELETE_SELF")]
        const DELETED_SELF = 1 << 8;
        /// Events were lost. Every watch gets this event, even if it was not begun with this flag.
        #[doc(alias = "IN_Q_OVERFLOW")]
        const OVERFLOW = 1 << 7;
    }
}

/// The inodes whose events a watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// One inode.
    Inode,
    /// A directory, and all inodes below it.
    Subtree,
}

/// An event of an inode. The event is sent after the operation that caused it was committed. This
/// operation need not be durable yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchEvent {
    /// The kind of the event: exactly one flag.
    pub event: WatchEvents,
    /// The number of the inode; 0 with [`WatchEvents::OVERFLOW`].
    pub inode: InodeNumber,
    /// The name in the directory, if the event is about a name.
    pub name: Option<OsString>,
    /// The same value in the two events of one move, and in no other event. 0 for an event that is
    /// no part of a move.
    pub cookie: u64,
}

/// The events of one watch that wait for a program.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) inside: Mutex<Inside, Object>,
    pub(crate) changed: Condvar<Object>,
}

#[derive(Default)]
pub(crate) struct Inside {
    waiting: VecDeque<WatchEvent>,
    /// Whether one of the waiting events is `WatchEvents::OVERFLOW`.
    overflown: bool,
    pub(crate) closed: bool,
}

impl Inside {
    pub(crate) fn pop(&mut self) -> Option<WatchEvent> {
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
        if inside.waiting.len() < MAX_WAITING_EVENTS {
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

    /// Ends the queue: no further event is added. Events that wait in it can still be taken.
    pub(crate) fn close(&self) {
        self.inside.lock().closed = true;
        self.changed.notify_all();
    }
}

/// The part of a watch that is stored in its inode: the queue, the wanted events, and the scope.
#[derive(Clone)]
pub struct QueueWatch {
    pub(crate) queue: Arc<Queue>,
    pub(crate) events: WatchEvents,
    pub(crate) scope: Scope,
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

/// The number of watches of a volume, and the last cookie that was given to a move.
#[derive(Default)]
pub struct Watches {
    all: AtomicU64<Volume>,
    pub(crate) subtrees: AtomicU64<Volume>,
    pub(crate) last_cookie: AtomicU64<Volume>,
}

impl Watches {
    pub(crate) fn count(&self, scope: Scope, delta: u64) {
        self.all.fetch_add(delta, Ordering::AcqRel);
        if scope == Scope::Subtree {
            self.subtrees.fetch_add(delta, Ordering::AcqRel);
        }
    }

    /// Returns whether the volume has no watches.
    pub fn is_empty(&self) -> bool {
        self.all.load(Ordering::Acquire) == 0
    }
}
