//! Limits how many workers wait at the device at a time.
//!
//! The kernel wakes waiting workers in turn. With more workers than processors, each request wakes
//! a thread that has slept for long, and a worker that has just answered often takes the request
//! for which another was woken. So the other workers wait here until a worker at the device waits
//! for the volume's device instead.

use xfs_sync::{Condvar, Mutex, Volume};

/// Holds the workers that may not wait at the device.
pub(super) struct WorkerGate {
    places: Mutex<usize, Volume>,
    left: Condvar<Volume>,
}

/// The right to wait at the device. Dropping the pass returns the right.
pub(super) struct GatePass<'a>(&'a WorkerGate);

impl WorkerGate {
    /// Creates a gate that admits `places` workers.
    pub(super) fn new(places: usize) -> Self {
        Self { places: Mutex::new(places), left: Condvar::new() }
    }

    /// Waits for a pass.
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
