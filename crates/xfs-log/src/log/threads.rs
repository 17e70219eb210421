//! The log's threads: some write checkpoints, and one pushes the AIL, so that items are written to
//! their home locations on disk.
//!
//! The threads end with the log that started them.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use xfs_sync::{Condvar, Mutex, Ordering, Volume};

use super::{BACKOFF, LogInner};

/// Wakes the thread that pushes the AIL, so that items are written to their home locations on disk.
#[derive(Default)]
pub(super) struct AilWakeup {
    asked: Mutex<bool, Volume>,
    changed: Condvar<Volume>,
}

impl AilWakeup {
    pub(super) fn notify(&self) {
        let mut asked = self.asked.lock();
        *asked = true;
        self.changed.notify_one();
    }

    /// Waits for a notification. If `work_left` is `true`, the wait ends after [`BACKOFF`] even
    /// without a notification.
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

/// A function that starts a thread. Its arguments are the thread's name and the function that the
/// thread runs.
type Spawn = dyn Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// Starts a thread of the operating system that does `work`.
pub(super) fn spawn(name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(work)
}

/// Handles of the log's running threads.
#[derive(Default)]
pub(super) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts the thread that pushes the AIL, and up to `pushers` threads that write checkpoints.
    /// The operating system may refuse to start a thread if a process or a user has too many
    /// threads. Then the log runs with fewer threads. If the log cannot have threads of both kinds,
    /// it runs without threads, and the callers of the log do the work. A log that goes [by
    /// count](super::LogConfig::by_count) has at most one thread, which makes no decisions.
    pub(super) fn start(inner: &Arc<LogInner>, pushers: usize, spawn: &Spawn) -> Self {
        let mut threads = Self::default();
        if let Some(paced) = &inner.paced {
            let name = "xfs-log-write".to_owned();
            if pushers > 0 && threads.add(inner, name, LogInner::run_writer, spawn) {
                paced.set_writer();
            }
            return threads;
        }
        if pushers == 0 || !threads.add(inner, "xfs-log-ail".to_owned(), write_in_place, spawn) {
            return threads;
        }
        for number in 0..pushers {
            if !threads.add(inner, format!("xfs-log-push-{number}"), write_checkpoints, spawn) {
                break;
            }
        }
        if threads.0.len() == 1 {
            inner.stop();
            threads.join();
            inner.closing.store(false, Ordering::Release);
            return threads;
        }
        inner.space.leave_tail_pushes_to_threads();
        inner.has_threads.store(true, Ordering::Release);
        threads
    }

    /// Starts one more thread, which runs `work`. Returns `false` if the operating system refuses.
    fn add(
        &mut self,
        inner: &Arc<LogInner>,
        name: String,
        work: fn(&LogInner),
        spawn: &Spawn,
    ) -> bool {
        let inner = Arc::clone(inner);
        let started = spawn(name, Box::new(move || work(&inner)));
        let is_started = started.is_ok();
        self.0.extend(started);
        is_started
    }

    /// Waits until all threads have ended. Panics if one of them has panicked, unless the calling
    /// thread is panicking already.
    pub(super) fn join(&mut self) {
        let panicked = self.0.drain(..).map(JoinHandle::join).filter(Result::is_err).count();
        assert!(panicked == 0 || thread::panicking(), "a thread of the log has panicked");
    }
}

fn write_checkpoints(inner: &LogInner) {
    while let Some(sequence) = inner.cil.await_request(&inner.closing) {
        // An error has shut the log down, which ends this loop.
        let _ = inner.push(sequence);
    }
}

fn write_in_place(inner: &LogInner) {
    let mut work_left = false;
    loop {
        inner.ail_wakeup.wait(work_left);
        if inner.closing.load(Ordering::Acquire) || inner.health.is_down() {
            return;
        }
        let Some(target) = inner.ail.target() else {
            work_left = false;
            continue;
        };
        let report = inner.push_items(target);
        if report.pinned > 0 || inner.space.has_waiters() {
            inner.cil.request_push(inner.cil.current());
        }
        work_left = true;
    }
}
