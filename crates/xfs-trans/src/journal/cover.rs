//! The superblock's numbers, an idle log, and the end.
//!
//! The numbers are not logged with each change: they are written when the log is covered or ended.
//! Covering lets an idle log say that nothing in it has to be replayed; a thread can be started that
//! looks now and then whether that is due. The library starts none: a log is covered when its volume
//! is closed.

use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{BlockKind, DiskAddr};
use xfs_sync::{Condvar, Mutex, Volume};
use zerocopy::FromBytes;

use super::Journal;

/// Tells the thread to end.
#[derive(Default)]
struct Stop {
    asked: Mutex<bool, Volume>,
    changed: Condvar<Volume>,
}

/// The thread that covers an idle log.
pub(super) struct Coverer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Coverer {
    fn start(journal: Weak<Journal>, every: Duration) -> Self {
        let stop = Arc::<Stop>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.within(every) {
                let Some(journal) = journal.upgrade() else { return };
                // An error has shut the volume down; whoever uses it next is told.
                let _ = journal.cover_if_idle();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Stop {
    /// Waits, and returns whether the thread has to end.
    fn within(&self, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        if !*asked {
            self.changed.wait_for(&mut asked, time);
        }
        *asked
    }
}

impl Drop for Coverer {
    fn drop(&mut self) {
        *self.stop.asked.lock() = true;
        self.stop.changed.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may have been the last to use the volume.
        if thread.thread().id() != thread::current().id() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "covering the log has panicked");
        }
    }
}

impl Journal {
    /// Has a thread cover the log whenever it is found idle, until the volume is closed.
    pub fn cover_when_idle(self: &Arc<Self>, every: Duration) {
        *self.coverer.lock() = Some(Coverer::start(Arc::downgrade(self), every));
    }

    /// Has an idle log say that nothing in it has to be replayed. Returns whether there was anything
    /// to do.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn cover_if_idle(self: &Arc<Self>) -> Result<bool> {
        if self.is_shut_down() || !self.log.needs_cover() {
            return Ok(false);
        }
        self.log.cover_with(|| self.log_superblock())?;
        Ok(true)
    }

    /// Writes everything in place, the superblock's numbers too, and ends the log cleanly.
    ///
    /// # Errors
    ///
    /// What stopped the log. It has to be recovered then.
    ///
    /// # Panics
    ///
    /// If somebody still uses the volume.
    pub fn unmount(self: Arc<Self>) -> Result<()> {
        let coverer = self.coverer.lock().take();
        drop(coverer);
        self.log.quiesce()?;
        self.log_superblock()?;
        let journal = Arc::into_inner(self);
        let Some(Self { log, .. }) = journal else { unreachable!("a volume unmounted in use") };
        log.unmount()
    }

    /// Logs the superblock with the present numbers.
    fn log_superblock(self: &Arc<Self>) -> Result<()> {
        let counts = self.counts_for_disk()?;
        let mut tx = self.begin(TransactionKind::Superblock, 0)?;
        let length_bytes = self.geometry().sector_size;
        let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
        tx.change(&buffer, 0..size_of::<SuperblockDisk>(), |bytes| {
            if let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(bytes) {
                disk.inode_count = counts.inodes.into();
                disk.free_inodes = counts.free_inodes.into();
                disk.free_blocks = counts.free_blocks.into();
                // Nothing in the log will need a feature any more.
                disk.log_incompat = 0.into();
            }
        });
        tx.commit()?;
        Ok(())
    }
}
