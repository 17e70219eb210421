//! The queue of inodes that wait to be freed on disk, because they have neither a name nor a
//! reference.
//!
//! Each processor slot has a queue. The operation that removes the last name and the last reference
//! usually frees the inode itself. A background thread frees inodes for callers that cannot wait,
//! such as a handle that is dropped. The thread sleeps while the queues are empty. Only a caller
//! that finds the thread asleep writes memory that the whole volume shares.

use std::sync::Arc;

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Condvar, Mutex, Ordering, Slot, Slots, Volume};

use crate::cached_inode::CachedInode;
use crate::kind::InodeKind;

/// The number of queued inodes above which each new operation first frees some of them.
const THROTTLE: usize = 256;
/// The most inodes that one operation frees. A caller that releases many inodes at once leaves them
/// to the background thread, so that no later operation waits for all of them. One operation adds
/// fewer inodes than this number to the queue, so the queue shrinks.
const MOST_AT_ONCE: usize = 16;

/// The queue of one processor slot.
struct InactivationSlot<K: InodeKind> {
    inside: Mutex<SlotQueue<K>, Slot>,
    /// Notified when `underway` falls to 0: no thread is freeing an inode of this queue any more.
    done: Condvar<Slot>,
}

struct SlotQueue<K: InodeKind> {
    waiting: Vec<Arc<CachedInode<K>>>,
    /// Number of inodes that threads are freeing now.
    underway: usize,
}

/// The inodes that wait to be freed.
pub(crate) struct InactivationQueue<K: InodeKind> {
    queues: Slots<InactivationSlot<K>>,
    /// Set while the background thread sleeps. While this flag is clear, the thread will look at
    /// all queues again before it sleeps, and need not be woken.
    asleep: AtomicBool<Volume>,
    closed: Mutex<bool, Volume>,
    wake: Condvar<Volume>,
    /// The first error of an inode that could not be freed.
    failure: Mutex<Option<Error>, Volume>,
}

impl<K: InodeKind> InactivationQueue<K> {
    pub(crate) fn new() -> Self {
        let inside = || Mutex::new(SlotQueue { waiting: Vec::new(), underway: 0 });
        Self {
            queues: Slots::new(|| InactivationSlot { inside: inside(), done: Condvar::new() }),
            asleep: AtomicBool::new(false),
            closed: Mutex::new(false),
            wake: Condvar::new(),
            failure: Mutex::new(None),
        }
    }

    /// Adds an inode to the queue of the calling thread's processor slot.
    pub(crate) fn push(&self, entry: Arc<CachedInode<K>>) {
        self.queues.mine().inside.lock().waiting.push(entry);
    }

    /// Wakes the background thread, if it sleeps. The thread looks at all queues after it has set
    /// `asleep`, so it sees every inode that was pushed before.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::Acquire) {
            let _closed = self.closed.lock();
            self.wake.notify_all();
        }
    }

    /// Frees some inodes of the calling thread's queue, if the queue is long.
    pub(crate) fn shorten_mine(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        let queue = self.queues.mine();
        let is_long = || queue.inside.lock().waiting.len() > THROTTLE;
        for _ in 0..MOST_AT_ONCE {
            if !is_long() || !self.free_of(queue, &free) {
                return;
            }
        }
    }

    /// Frees one inode of the calling thread's queue. Returns `false` if the queue is empty.
    pub(crate) fn free_mine(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) -> bool {
        self.free_of(self.queues.mine(), free)
    }

    /// Frees the inodes of all queues on disk.
    pub(crate) fn free_all(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        for queue in self.queues.iter() {
            while self.free_of(queue, &free) {}
        }
    }

    /// Frees the inodes of all queues as [`free_all`](Self::free_all) does, and waits until other
    /// threads have freed the inodes that they took from the queues.
    pub(crate) fn drain(&self, free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>) {
        self.free_all(free);
        for queue in self.queues.iter() {
            let mut inside = queue.inside.lock();
            while inside.underway > 0 {
                queue.done.wait(&mut inside);
            }
        }
    }

    fn free_of(
        &self,
        queue: &InactivationSlot<K>,
        free: impl Fn(&Arc<CachedInode<K>>) -> Result<()>,
    ) -> bool {
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

    /// Returns the first error of an inode that could not be freed, and forgets this error. Returns
    /// `None` if there was no error since the last call.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// The body of the background thread: frees queued inodes until the queue is closed.
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

    /// Makes [`serve`](Self::serve) return.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_all();
    }

    /// Returns whether the background thread sleeps, or looks at the queues for a last time before
    /// it sleeps.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }
}
