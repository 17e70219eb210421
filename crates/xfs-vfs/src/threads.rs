//! The background threads of a mount, and the steps that close a volume, in order.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use xfs_buffer::Result;
use xfs_icache::take_down;
use xfs_log::Shutdown;
use xfs_sync::yield_now;
use xfs_trans::Journal;

use crate::contents::Remaining;
use crate::kind::InodeCache;
use crate::mount::Mount;
use crate::options::MountOptions;
use crate::zones;

/// A mounted volume and its background threads.
pub struct MountThreads {
    mount: Arc<Mount>,
    workers: Vec<JoinHandle<()>>,
}

impl MountThreads {
    /// Starts the threads that free inodes and write buffered bytes. If the clock of the mount is
    /// fixed, no thread is started.
    ///
    /// # Errors
    ///
    /// Returns the error of the system if it cannot start a thread. Threads that have already
    /// started are ended again, and nothing was written.
    pub fn start(
        journal: Arc<Journal>,
        inode_cache: InodeCache,
        options: MountOptions,
    ) -> io::Result<Self> {
        let mount = Arc::new(Mount::new(journal, inode_cache, options));
        zones::serve_collector(&mount);
        let mut threads = Self { mount, workers: Vec::new() };
        // Two runs must give the same bytes, whatever their speed: no thread works in parallel with
        // operations.
        if options.clock.is_fixed() {
            return Ok(threads);
        }
        threads.start_worker("free inodes", |mount| mount.inode_cache.serve())?;
        threads.start_worker("write back", |mount| {
            let mut left = Remaining::Nothing;
            while mount.flusher.wait(left > Remaining::Nothing) {
                left = mount.flush_pass(left);
            }
        })?;
        Ok(threads)
    }

    fn start_worker(&mut self, name: &str, work: fn(&Mount)) -> io::Result<()> {
        let mount = Arc::clone(&self.mount);
        let worker = thread::Builder::new().name(name.to_owned()).spawn(move || work(&mount))?;
        self.workers.push(worker);
        Ok(())
    }

    /// Returns the mount.
    #[inline]
    #[must_use]
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Returns a weak reference to the mount. The weak reference does not keep the volume from
    /// being closed.
    #[must_use]
    pub fn weak_mount(&self) -> Weak<Mount> {
        Arc::downgrade(&self.mount)
    }

    /// Stops the threads and waits until all of them have ended. Panics if a stopped thread has
    /// panicked, unless the calling thread is panicking already. The work of a thread that has
    /// panicked is missing, so the volume must not be closed as a clean one.
    fn stop(&mut self) {
        self.mount.journal.stop_upkeep();
        self.mount.inode_cache.close();
        self.mount.flusher.close();
        let ended = self.workers.drain(..).map(JoinHandle::join);
        let panicked = ended.filter(Result::is_err).count();
        assert!(panicked == 0 || thread::panicking(), "a thread of the mount has panicked");
    }

    /// Frees the inodes that wait to be freed, writes everything to its home location on disk, and
    /// marks the log clean. The caller must be the last user of the volume. If the freeing of any
    /// inode has failed since the volume was opened, returns an error and leaves the log dirty:
    /// only a recovery looks for inodes without a name. Lost bytes of a file are reported after the
    /// log is clean, because no recovery brings them back.
    ///
    /// A frozen volume is thawed first.
    pub fn close(mut self) -> Result<()> {
        if self.mount.freezer.is_frozen() {
            self.mount.thaw()?;
        }
        self.stop();
        // Handles have given back their reservations, except one whose end has failed.
        self.mount.for_each_unflushed(|entry| self.mount.contents(entry).give_back());
        self.mount.inode_cache.deactivate();
        self.mount.refs.clear(&self.mount.inode_cache);
        self.mount.inode_cache.drain();
        take_down(&self.mount.inode_cache);
        self.mount.inode_cache.release_locks();
        let shared = Arc::clone(&self.mount);
        drop(self);
        let mount = take_alone(shared);
        mount.inode_cache.drain();
        let unfreed = mount.inode_cache.take_failure();
        let lost = mount.flusher.take_failure();
        let journal = Arc::clone(&mount.journal);
        let given_up = journal.ledger().map_or(Ok(()), |quota| quota.give_up_damaged(&journal));
        let discarded = xfs_alloc::discard_remaining(&journal);
        drop(mount);
        let ended = match unfreed {
            None => journal.unmount(),
            Some(error) => journal.shut_down(Shutdown::Flush).and(Err(error)),
        };
        lost.and(ended).and(discarded).and(given_up)
    }
}

impl Drop for MountThreads {
    fn drop(&mut self) {
        if self.mount.freezer.is_frozen() {
            // The threads of the mount may wait for the thaw, and nothing may be written any more.
            // The error would be that of a flush, which is not requested.
            let _ = self.mount.journal.shut_down(Shutdown::Now);
        }
        self.stop();
    }
}

/// Waits until `shared` is the only reference to its value, and returns the value. Only a watch
/// that is being dropped holds another reference: from the upgrade of its weak reference to the end
/// of its drop. Between the two it does no I/O and takes no lock that is held over a wait: an inode
/// that must be freed is only queued. So this loop ends soon.
fn take_alone<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(alone) => return alone,
            Err(still_shared) => shared = still_shared,
        }
        yield_now();
    }
}

#[cfg(test)]
mod tests;
