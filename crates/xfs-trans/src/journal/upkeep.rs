//! Periodic work on a log: a thread forces the log, and covers it when it is idle.
//!
//! Owns: the thread and its intervals. Does **not** own forcing (`xfs-log`) or covering
//! ([`cover`](super::cover)).
//!
//! The thread holds no reference to the journal while it waits. So dropping the last other
//! reference drops the journal, which ends the thread.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xfs_buffer::Result;
use xfs_sync::{Condvar, Mutex, Volume};

use super::Journal;

/// The intervals at which the upkeep thread forces and covers the log.
#[doc(alias = "xfssyncd_centisecs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    durable_within: Duration,
    cover_every: Duration,
}

impl Upkeep {
    /// The least length of an interval.
    pub const SHORTEST: Duration = Duration::from_millis(1);
    /// The greatest length of an interval.
    pub const LONGEST: Duration = Duration::from_secs(3600);

    /// Creates the intervals. Committed changes are durable within `durable_within`. Every
    /// `cover_every`, an idle log is covered, and for any other log all items are pushed to their
    /// home locations on disk. Both intervals are limited to [`SHORTEST`](Self::SHORTEST) and
    /// [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub fn new(durable_within: Duration, cover_every: Duration) -> Self {
        let [durable_within, cover_every] =
            [durable_within, cover_every].map(|time| time.clamp(Self::SHORTEST, Self::LONGEST));
        Self { durable_within, cover_every }
    }

    /// Returns the longest time from a commit until its changes are durable.
    #[must_use]
    pub fn durable_within(&self) -> Duration {
        self.durable_within
    }

    /// Returns the interval between two forces. The interval is shorter than `durable_within`,
    /// because a force takes time too.
    fn force_every(&self) -> Duration {
        self.durable_within * 4 / 5
    }
}

/// The default intervals, as in the kernel: committed changes are durable within 5 seconds, and
/// every 30 seconds the log is covered if it is idle.
impl Default for Upkeep {
    fn default() -> Self {
        Self::new(Duration::from_secs(5), Duration::from_secs(30))
    }
}

/// A signal for the upkeep thread to end.
#[derive(Default)]
struct StopSignal {
    asked: Mutex<bool, Volume>,
    changed: Condvar<Volume>,
}

impl StopSignal {
    /// Waits for the signal, but at most for `time`. Returns whether the signal was given.
    fn within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut asked = self.asked.lock();
        while !*asked {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.changed.wait_for(&mut asked, left);
        }
        *asked
    }
}

/// The running upkeep thread. Dropping it ends the thread.
#[doc(alias = "xfs_log_worker")]
pub(super) struct UpkeepThread {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl UpkeepThread {
    fn start(journal: Weak<Journal>, upkeep: Upkeep) -> io::Result<Self> {
        let stop = Arc::<StopSignal>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("log upkeep".to_owned());
        let thread = thread.spawn(move || run_upkeep(&journal, upkeep, &stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

fn run_upkeep(journal: &Weak<Journal>, upkeep: Upkeep, stop: &StopSignal) {
    let (force_every, cover_every) = (upkeep.force_every(), upkeep.cover_every);
    let mut covering = Instant::now() + cover_every;
    while !stop.within(force_every.min(cover_every)) {
        let Some(journal) = journal.upgrade() else { return };
        let kept = if Instant::now() < covering {
            journal.force_all()
        } else {
            covering = Instant::now() + cover_every;
            journal.cover_or_write_back()
        };
        // An error has shut the volume down. The next operation on it reports the error.
        if kept.is_err() {
            return;
        }
    }
}

impl Drop for UpkeepThread {
    fn drop(&mut self) {
        *self.stop.asked.lock() = true;
        self.stop.changed.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may have dropped the last reference to the journal. It then ends on its
        // own.
        if thread.thread().id() != thread::current().id() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the upkeep thread of the log panicked");
        }
    }
}

impl Journal {
    /// Starts a thread that forces and covers the log periodically, until the volume is closed or
    /// [`stop_upkeep`](Self::stop_upkeep) is called. A thread that runs already is replaced.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system that could not start the thread. Nothing has
    /// changed then.
    pub fn start_upkeep(self: &Arc<Self>, upkeep: Upkeep) -> io::Result<()> {
        let upkeep_thread = UpkeepThread::start(Arc::downgrade(self), upkeep)?;
        let replaced = self.upkeep_thread.lock().replace(upkeep_thread);
        drop(replaced);
        Ok(())
    }

    /// Ends the upkeep thread and waits until it has ended.
    pub fn stop_upkeep(&self) {
        let upkeep_thread = self.upkeep_thread.lock().take();
        drop(upkeep_thread);
    }

    /// Covers the log if it is idle. If not, forces the log and pushes all items of the AIL once,
    /// so that the log can become idle.
    fn cover_or_write_back(self: &Arc<Self>) -> Result<()> {
        if !self.cover_if_idle()? {
            self.log.write_back()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
