//! A gate that many threads pass concurrently and that one thread can close.
//!
//! Owns: the count of threads inside, and waiting on both sides. Does **not** own the work done
//! while the gate is closed. The caller ensures that only one thread closes the gate at a time.
//!
//! Entering writes the calling thread's slot and reads a flag. The flag is written only when the
//! gate is closed or opened, so entering does not disturb unrelated threads. Closing reads every
//! slot.
//!
//! # Invariants
//!
//! - **I1** An entering thread increments its count and then reads the flag. The closing thread
//!   sets the flag and then reads the counts. All four accesses are in one total order (`SeqCst`),
//!   so at least one of the two threads sees the other. The closing thread has therefore waited for
//!   every thread that is inside.
//! - **I2** A guard decrements the slot that its entry incremented, on whatever thread it is
//!   dropped.
//! - **I3** A leaving thread decrements its count and then reads the flag. If the flag is set, the
//!   leaving thread takes the lock `door` to wake the closing thread. The closing thread reads the
//!   counts under that lock, so no wakeup is lost.
//!
//! A thread that is inside must not enter again. The gate may be closing in between: the second
//! entry would wait for the closing thread, which waits for the first entry to end.

use core::fmt;

use crate::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, Slots, Volume};

/// A gate that many threads pass concurrently and that one thread can close.
#[doc(alias = "percpu_rw_semaphore")]
pub struct Gate {
    inside: Slots<AtomicU64<Slot>>,
    closed: AtomicBool<Volume>,
    door: Mutex<(), Volume>,
    moved: Condvar<Volume>,
}

/// Proof that a thread is inside a [`Gate`]. Dropping the guard leaves the gate.
#[must_use = "dropping the guard leaves the gate"]
pub struct GateGuard<'gate> {
    gate: &'gate Gate,
    /// The count of threads to which entering the gate added one. Dropping the guard subtracts one
    /// from it (I2).
    count: &'gate AtomicU64<Slot>,
}

impl Gate {
    /// Creates an open gate, with slots for the processors of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inside: Slots::new(AtomicU64::default),
            closed: AtomicBool::new(false),
            door: Mutex::new(()),
            moved: Condvar::new(),
        }
    }

    /// Waits until the gate is open and enters it.
    #[inline]
    pub fn enter(&self) -> GateGuard<'_> {
        loop {
            if let Some(inside) = self.try_enter() {
                return inside;
            }
            self.await_open();
        }
    }

    /// Enters the gate if it is open. Returns `None` if the gate is closed or being closed.
    #[inline]
    #[must_use]
    pub fn try_enter(&self) -> Option<GateGuard<'_>> {
        let count = self.inside.mine();
        // The count changes before the flag is read (I1).
        count.fetch_add(1, Ordering::SeqCst);
        let inside = GateGuard { gate: self, count };
        (!self.is_closed()).then_some(inside)
    }

    /// Returns whether the gate is closed, or is being closed while threads are still inside.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes the gate and waits until no thread is inside.
    pub fn close(&self) {
        let mut door = self.door.lock();
        self.closed.store(true, Ordering::SeqCst);
        // A slot that was seen empty needs no second look: a thread that enters it now sees the
        // flag and leaves again (I1).
        for count in self.inside.iter() {
            while count.load(Ordering::SeqCst) != 0 {
                self.moved.wait(&mut door);
            }
        }
    }

    /// Opens the gate for all threads that wait to enter.
    pub fn open(&self) {
        let _door = self.door.lock();
        self.closed.store(false, Ordering::SeqCst);
        self.moved.notify_all();
    }

    #[cold]
    fn await_open(&self) {
        let mut door = self.door.lock();
        while self.is_closed() {
            self.moved.wait(&mut door);
        }
    }

    /// Wakes the closing thread. Takes the lock under which the closing thread reads the counts
    /// (I3), so that the wakeup is not lost.
    #[cold]
    fn wake_closer(&self) {
        let _door = self.door.lock();
        self.moved.notify_all();
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Drop for GateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if self.gate.is_closed() {
            self.gate.wake_closer();
        }
    }
}

#[cfg(test)]
mod tests;
