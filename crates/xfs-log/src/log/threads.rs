//! The log's threads: some write checkpoints, one has items written in place.
//!
//! They end with the log that started them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use xfs_sync::{Condvar, Mutex, Ordering, Volume};

use super::{BACKOFF, Inner};

/// Wakes the thread that has items written in place.
#[derive(Default)]
pub(super) struct Kick {
    asked: Mutex<bool, Volume>,
    changed: Condvar<Volume>,
}

impl Kick {
    pub(super) fn kick(&self) {
        let mut asked = self.asked.lock();
        *asked = true;
        self.changed.notify_one();
    }

    /// Waits for a kick, or no longer than [`BACKOFF`] if there is work left.
    fn wait(&self, work_left: bool) {
        let mut asked = self.asked.lock();
        if work_left && !*asked {
            self.changed.wait_for(&mut asked, BACKOFF);
        }
        while !work_left && !*asked {
            self.changed.wait(&mut asked);
        }
        *asked = false;
    }
}

/// Handles of the running threads.
pub(super) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts `pushers` threads that write checkpoints and, if there are any, the one of the AIL.
    pub(super) fn start(inner: &Arc<Inner>, pushers: usize) -> Self {
        let mut handles = Vec::new();
        for _ in 0..pushers {
            let inner = Arc::clone(inner);
            handles.push(thread::spawn(move || write_checkpoints(&inner)));
        }
        if pushers > 0 {
            let inner = Arc::clone(inner);
            handles.push(thread::spawn(move || write_in_place(&inner)));
        }
        Self(handles)
    }

    /// Waits for all of them. A panic in one is passed on, unless there is one already.
    pub(super) fn join(&mut self) {
        for handle in self.0.drain(..) {
            let ended = handle.join();
            assert!(ended.is_ok() || thread::panicking(), "a thread of the log has panicked");
        }
    }
}

fn write_checkpoints(inner: &Inner) {
    while let Some(sequence) = inner.cil.await_request(&inner.closing) {
        // An error has shut the log down, which ends this loop.
        let _ = inner.push(sequence);
    }
}

fn write_in_place(inner: &Inner) {
    let mut work_left = false;
    loop {
        inner.kick.wait(work_left);
        if inner.closing.load(Ordering::Acquire) || inner.health.is_down() {
            return;
        }
        let Some(target) = inner.ail.target() else {
            work_left = false;
            continue;
        };
        let report = inner.push_items(target);
        if report.pinned > 0 || inner.space.is_short() {
            inner.cil.request_push(inner.cil.current());
        }
        work_left = true;
    }
}
