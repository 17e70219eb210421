//! A gate that everybody passes at once, and that one may close.
//!
//! Owns: who is inside, and waiting on both sides. Does **not** own what is done while it is closed, nor who
//! may close it: the caller sees that it is one at a time.
//!
//! Who enters writes his own slot and reads a flag that is written when the gate is closed or opened, so
//! passing it costs unrelated threads nothing; closing looks at every slot.
//!
//! # Invariants
//!
//! - **I1** Who enters counts himself and then looks at the flag; who closes sets the flag and then looks
//!   at the counts. All four are in one order (`SeqCst`): so at least one of the two sees the other, and
//!   nobody is inside whom the closer has not waited for.
//! - **I2** Who leaves does it in the slot through which he entered, from whatever thread.
//! - **I3** Who leaves takes himself out and then looks at the flag. If it is set he takes the lock of the
//!   door to wake the closer, who looks at the counts under that lock: no wakeup is lost.
//!
//! A thread that is inside must not enter again: the gate may have been closed in between, and the closer
//! waits for that thread.

use core::fmt;

use crate::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, Slots, Volume};

/// A gate that everybody passes at once, and that one may close.
#[doc(alias = "percpu_rw_semaphore")]
pub struct Gate {
    inside: Slots<AtomicU64<Slot>>,
    closed: AtomicBool<Volume>,
    door: Mutex<(), Volume>,
    moved: Condvar<Volume>,
}

/// Somebody is inside as long as this is there.
#[must_use = "who drops it is outside again"]
pub struct GateGuard<'gate> {
    gate: &'gate Gate,
    count: &'gate AtomicU64<Slot>,
}

impl Gate {
    /// An open gate, with slots for the processors of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inside: Slots::new(AtomicU64::default),
            closed: AtomicBool::new(false),
            door: Mutex::new(()),
            moved: Condvar::new(),
        }
    }

    /// Goes in, once the gate is open.
    #[inline]
    pub fn enter(&self) -> GateGuard<'_> {
        loop {
            if let Some(inside) = self.try_enter() {
                return inside;
            }
            self.await_open();
        }
    }

    /// Goes in if the gate is open.
    #[inline]
    #[must_use]
    pub fn try_enter(&self) -> Option<GateGuard<'_>> {
        let count = self.inside.mine();
        count.fetch_add(1, Ordering::SeqCst);
        let inside = GateGuard { gate: self, count };
        (!self.is_closed()).then_some(inside)
    }

    /// Whether it is closed, or being closed.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes the gate, and waits until nobody is inside.
    pub fn close(&self) {
        let mut door = self.door.lock();
        self.closed.store(true, Ordering::SeqCst);
        // A slot that was empty once stays so: who enters there now turns back.
        for count in self.inside.iter() {
            while count.load(Ordering::SeqCst) != 0 {
                self.moved.wait(&mut door);
            }
        }
    }

    /// Opens the gate.
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
