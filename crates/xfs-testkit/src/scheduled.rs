//! A device that holds its requests until a test releases them, in any order.
//!
//! Owns: holding the calling threads, and the choice of the request that proceeds next. Does
//! **not** own time: a slow request is one that the test holds while it releases others. Nothing
//! sleeps, and nothing depends on the speed of the machine.
//!
//! A run is reproducible for a seed if the test calls [`Scheduler::wait_for`] before each choice,
//! with the number of requests that must arrive. The choice depends on the requests and not on
//! their order of arrival.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::delegate_device;
use crate::failing::RequestKind;
use crate::prng::Prng;

/// Longest time for which a test waits for requests. After that, the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request whose thread is held. A flush has offset 0 and length 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRequest {
    /// The kind of request.
    pub kind: RequestKind,
    /// Offset on the device of the first byte of the request.
    pub offset: u64,
    /// Length of the request in bytes.
    pub length: u64,
}

/// A device over another one that asks a [`Scheduler`] before each request.
pub struct ScheduledDevice {
    inner: SharedDevice,
    gate: Arc<RequestGate>,
}

/// Decides which request proceeds next. Dropping the scheduler releases all requests.
pub struct Scheduler {
    gate: Arc<RequestGate>,
    prng: Prng,
}

struct RequestGate {
    /// Kinds of requests that are held. Requests of other kinds proceed at once.
    held: Vec<RequestKind>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    tickets: u64,
    waiting: Vec<(HeldRequest, u64)>,
    /// The ticket (the number) of the released request, until the request is done.
    released: Option<u64>,
}

impl ScheduledDevice {
    /// Creates a device over `inner` that holds requests of these kinds, and its scheduler.
    #[must_use]
    pub fn new(inner: SharedDevice, held: &[RequestKind], seed: u64) -> (Self, Scheduler) {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let gate = Arc::new(RequestGate { held: held.to_vec(), state, changed });
        let scheduler = Scheduler { gate: Arc::clone(&gate), prng: Prng::new(seed) };
        (Self { inner, gate }, scheduler)
    }
}

impl Scheduler {
    /// Waits until at least `count` requests are held.
    ///
    /// # Panics
    ///
    /// Panics if fewer requests have arrived after a minute.
    pub fn wait_for(&self, count: usize) {
        let too_few = |state: &mut State| state.waiting.len() < count;
        let state = self.gate.changed.wait_timeout_while(self.gate.lock(), PATIENCE, too_few);
        let held = state.unwrap_or_else(PoisonError::into_inner).0.waiting.len();
        assert!(held >= count, "only {held} of {count} requests arrived");
    }

    /// Returns the held requests, ordered by kind, offset and length.
    #[must_use]
    pub fn waiting(&self) -> Vec<HeldRequest> {
        self.gate.lock().sorted().into_iter().map(|(waiting, _)| waiting).collect()
    }

    /// Releases one held request, chosen by the seed, and returns it when it is done. Returns
    /// `None` if no request is held.
    pub fn release_any(&mut self) -> Option<HeldRequest> {
        let waiting = self.gate.lock().sorted();
        let chosen = self.prng.choose(&waiting).copied();
        chosen.map(|(waiting, ticket)| self.gate.release(waiting, ticket))
    }

    /// Releases the first held request that `chooses` accepts, in the order of `waiting`. Returns
    /// the request when it is done, or `None` if `chooses` accepts no request.
    pub fn release_first(&mut self, chooses: impl Fn(&HeldRequest) -> bool) -> Option<HeldRequest> {
        let waiting = self.gate.lock().sorted();
        let chosen = waiting.into_iter().find(|(waiting, _)| chooses(waiting));
        chosen.map(|(waiting, ticket)| self.gate.release(waiting, ticket))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.gate.lock().open = true;
        self.gate.changed.notify_all();
    }
}

impl State {
    fn sorted(&self) -> Vec<(HeldRequest, u64)> {
        let mut sorted = self.waiting.clone();
        sorted.sort_by_key(|(waiting, ticket)| {
            (waiting.kind as u8, waiting.offset, waiting.length, *ticket)
        });
        sorted
    }
}

impl RequestGate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `blocks` returns `true`. Calls `blocks` with the state now, and again after each
    /// change of the state.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        blocks: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed.wait_while(state, blocks).unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases a held request, and waits until the device has performed it.
    fn release(&self, waiting: HeldRequest, ticket: u64) -> HeldRequest {
        let mut state = self.lock();
        state.released = Some(ticket);
        self.changed.notify_all();
        drop(self.wait(state, |state| state.released == Some(ticket)));
        waiting
    }

    /// Holds the calling thread until the scheduler releases the request, then makes the request.
    fn pass<T>(&self, waiting: HeldRequest, request: impl FnOnce() -> T) -> T {
        if !self.held.contains(&waiting.kind) {
            return request();
        }
        let mut state = self.lock();
        let ticket = state.tickets;
        state.tickets += 1;
        state.waiting.push((waiting, ticket));
        self.changed.notify_all();
        let mut state = self.wait(state, |state| !state.open && state.released != Some(ticket));
        state.waiting.retain(|(_, other)| *other != ticket);
        drop(state);
        let outcome = request();
        let mut state = self.lock();
        if state.released == Some(ticket) {
            state.released = None;
        }
        self.changed.notify_all();
        outcome
    }
}

impl BlockDevice for ScheduledDevice {
    delegate_device!(inner: length_bytes, sector_size, is_read_only);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let length = buffer.len() as u64;
        let waiting = HeldRequest { kind: RequestKind::Read, offset, length };
        self.gate.pass(waiting, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        let waiting = HeldRequest { kind: RequestKind::Write, offset, length: bytes.len() as u64 };
        self.gate.pass(waiting, || self.inner.write_at(bytes, offset, durability))
    }

    fn flush(&self) -> io::Result<()> {
        let waiting = HeldRequest { kind: RequestKind::Flush, offset: 0, length: 0 };
        self.gate.pass(waiting, || self.inner.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let waiting = HeldRequest { kind: RequestKind::Discard, offset, length };
        self.gate.pass(waiting, || self.inner.discard(offset, length))
    }
}

#[cfg(test)]
mod tests;
