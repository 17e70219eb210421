//! How many workers wait at the device at a time.
//!
//! The kernel wakes them in turn. With more of them than processors each request finds another thread, which
//! has slept for long, and one that has just answered often takes the request that another was woken for.
//! So the others stand aside until one of those at the device goes to wait for the volume's.

use xfs_sync::{Condvar, Mutex, Volume};

/// Where those stand who have no place.
pub(super) struct WorkerGate {
    places: Mutex<usize, Volume>,
    left: Condvar<Volume>,
}

/// A place at the device, until it is dropped.
pub(super) struct GatePass<'a>(&'a WorkerGate);

impl WorkerGate {
    /// One that lets so many in.
    pub(super) fn new(places: usize) -> Self {
        Self { places: Mutex::new(places), left: Condvar::new() }
    }

    /// Waits for a place.
    pub(super) fn enter(&self) -> GatePass<'_> {
        let mut places = self.places.lock();
        while *places == 0 {
            self.left.wait(&mut places);
        }
        *places -= 1;
        GatePass(self)
    }
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        *self.0.places.lock() += 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests;
