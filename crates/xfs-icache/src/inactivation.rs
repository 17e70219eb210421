//! Inodes that wait to be freed: they have neither a name nor a user.
//!
//! Each slot has a queue of its own. The operation that dooms an inode frees it itself, as a rule; a
//! thread frees what users leave who cannot wait for it, such as a handle that is dropped. It sleeps
//! while there is nothing, and only who finds it asleep writes what the volume shares.

use std::sync::Arc;

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Condvar, Mutex, Ordering, Slot, Slots, Volume};

use crate::cached_inode::CachedInode;
use crate::kind::InodeKind;

/// A queue longer than this is shortened by whoever begins to change something.
const THROTTLE: usize = 256;
/// Inodes that one of them frees at most: who gives up many at once leaves them to the thread, and no operation
/// waits for all of that. An operation dooms fewer than this, so that a queue gets shorter all the same.
const MOST_AT_ONCE: usize = 16;

/// What waits in one slot.
struct Queue<K: InodeKind> {
    inside: Mutex<Inside<K>, Slot>,
    /// `underway` has fallen to 0.
    done: Condvar<Slot>,
}

struct Inside<K: InodeKind> {
    waiting: Vec<Arc<CachedInode<K>>>,
    /// Inodes that somebody is freeing just now.
    underway: usize,
}

/// What waits to be freed.
pub(crate) struct InactivationQueue<K: InodeKind> {
    queues: Slots<Queue<K>>,
    /// Whether the thread has looked at the queues, or will, before it sleeps: then nobody wakes it.
    asleep: AtomicBool<Volume>,
    closed: Mutex<bool, Volume>,
    wake: Condvar<Volume>,
    /// Why an inode could not be freed: the first time that this happened.
    failure: Mutex<Option<Error>, Volume>,
}

impl<K: InodeKind> InactivationQueue<K> {
    pub(crate) fn new() -> Self {
        let inside = || Mutex::new(Inside { waiting: Vec::new(), underway: 0 });
        Self {
            queues: Slots::new(|| Queue { inside: inside(), done: Condvar::new() }),
            asleep: AtomicBool::new(false),
            closed: Mutex::new(false),
            wake: Condvar::new(),
            failure: Mutex::new(None),
        }
    }

    /// Adds an inode to the queue of the calling thread.
    pub(crate) fn push(&self, entry: Arc<CachedInode<K>>) {
        self.queues.mine().inside.lock().waiting.push(entry);
    }

    /// Wakes the thread that frees inodes, if it sleeps. What was pushed before is seen by it: it looks
    /// at all queues after it has said that it sleeps.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::Acquire) {
            let _closed = self.closed.lock();
            self.wake.notify_all();
        }
    }

    /// Frees some inodes of the calling thread's queue, if that is long.
    pub(crate) fn shorten_mine(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        let queue = self.queues.mine();
        let is_long = || queue.inside.lock().waiting.len() > THROTTLE;
        for _ in 0..MOST_AT_ONCE {
            if !is_long() || !self.free_of(queue, &free) {
                return;
            }
        }
    }

    /// Frees one inode of the calling thread's queue; `false` if none waits there.
    pub(crate) fn free_mine(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) -> bool {
        self.free_of(self.queues.mine(), free)
    }

    /// Frees everything that waits.
    pub(crate) fn free_all(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        for queue in self.queues.iter() {
            while self.free_of(queue, &free) {}
        }
    }

    /// As [`free_all`](Self::free_all), and waits for what others are freeing.
    pub(crate) fn drain(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        self.free_all(free);
        for queue in self.queues.iter() {
            let mut inside = queue.inside.lock();
            while inside.underway > 0 {
                queue.done.wait(&mut inside);
            }
        }
    }

    fn free_of(&self, queue: &Queue<K>, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) -> bool {
        let entry = {
            let mut inside = queue.inside.lock();
            let Some(entry) = inside.waiting.pop() else { return false };
            inside.underway += 1;
            entry
        };
        let freed = free(&entry);
        if let Err(error) = freed {
            self.failure.lock().get_or_insert(error);
        }
        let mut inside = queue.inside.lock();
        inside.underway -= 1;
        if inside.underway == 0 {
            queue.done.notify_all();
        }
        true
    }

    /// Why an inode could not be freed, if there was one.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// Frees what is pushed, until it is closed: the work of the thread.
    pub(crate) fn serve(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        let mut closed = self.closed.lock();
        while !*closed {
            self.asleep.store(true, Ordering::SeqCst);
            if self.is_empty() {
                self.wake.wait(&mut closed);
            }
            self.asleep.store(false, Ordering::SeqCst);
            drop(closed);
            self.free_all(&free);
            closed = self.closed.lock();
        }
    }

    fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.inside.lock().waiting.is_empty())
    }

    /// Lets [`serve`](Self::serve) return.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_all();
    }
}
