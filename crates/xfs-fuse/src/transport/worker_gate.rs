//! Limits how many workers wait at the device at a time.
//!
//! The kernel wakes waiting workers in turn. With more workers than processors, each request wakes
//! a thread that has slept for long. Then a worker that has just answered often takes the request
//! for which the other thread was woken. So only some workers have a pass, which lets them wait at
//! `/dev/fuse`. The others wait at the gate for a pass. A worker gives up its pass before it
//! handles a request that may wait for the volume's device.

use xfs_sync::{Condvar, Mutex, Volume};

/// The gate for workers without a pass: they wait here, so that only some workers wait at
/// `/dev/fuse` at a time.
pub(super) struct WorkerGate {
    places: Mutex<usize, Volume>,
    left: Condvar<Volume>,
}

/// The right of a worker to wait at `/dev/fuse`. Dropping the pass returns the right.
pub(super) struct GatePass<'a>(&'a WorkerGate);

impl WorkerGate {
    /// Creates a gate that lets `places` workers wait at `/dev/fuse` at a time.
    pub(super) fn new(places: usize) -> Self {
        Self { places: Mutex::new(places), left: Condvar::new() }
    }

    /// Waits until one more worker may wait at `/dev/fuse`, and returns the pass that gives this
    /// right.
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
