//! A device that fails on purpose.
//!
//! Owns: which request fails, and what a failure leaves behind. The contract of
//! [`BlockDevice`] allows it all: a read that failed left rubbish in the buffer, a write that
//! failed is there or not, and a flush that failed has lost any of the writes that it should have
//! covered, also as later reads see it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::cow::check_inside;
use crate::prng::Prng;

/// What is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A read.
    Read,
    /// A write, durable or not.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// One request fails.
    Once,
    /// Every request of the kind fails from then on.
    Forever,
}

/// Which requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind that is counted and that fails.
    pub kind: RequestKind,
    /// The first request that fails, counted from 1 from when the fault was set.
    pub nth: u64,
    /// How many fail.
    pub persistence: Persistence,
}

/// A device over another one, some of whose requests fail with `EIO`.
///
/// All chance comes from a seed: the same requests in the same order meet the same failures.
pub struct FailingDevice {
    inner: SharedDevice,
    state: Mutex<State>,
}

struct State {
    prng: Prng,
    fault: Option<Fault>,
    /// Requests of the fault's kind since it was set.
    count: u64,
    failures: u64,
    unflushed: Vec<Change>,
}

/// A change that the next flush makes durable.
struct Change {
    offset: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    durability: Durability,
}

impl State {
    /// Whether the request that is being made fails.
    fn fails(&mut self, kind: RequestKind) -> bool {
        let Some(fault) = self.fault.filter(|fault| fault.kind == kind) else { return false };
        self.count += 1;
        let fails = match fault.persistence {
            Persistence::Once => self.count == fault.nth,
            Persistence::Forever => self.count >= fault.nth,
        };
        self.failures += u64::from(fails);
        fails
    }
}

impl FailingDevice {
    /// A device over `inner` that does not fail yet.
    #[must_use]
    pub fn new(inner: SharedDevice, seed: u64) -> Self {
        let state = State {
            prng: Prng::new(seed),
            fault: None,
            count: 0,
            failures: 0,
            unflushed: Vec::new(),
        };
        Self { inner, state: Mutex::new(state) }
    }

    /// Sets the fault, in the place of any other, or takes it away.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.count = 0;
    }

    /// How many requests have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.lock().failures
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a change and remembers how to undo it.
    fn change(&self, state: &mut State, change: Change) -> io::Result<()> {
        self.inner.write_at(change.offset, &change.after, change.durability)?;
        state.unflushed.push(change);
        Ok(())
    }

    /// Takes back the changes since the last flush, all but the durable ones and a few others.
    fn lose(&self, state: &mut State) -> io::Result<()> {
        let changes = std::mem::take(&mut state.unflushed);
        for change in changes.iter().rev() {
            self.inner.write_at(change.offset, &change.before, Durability::Cached)?;
        }
        for change in changes {
            let survives = change.durability == Durability::Durable;
            if survives || state.prng.within(0..4) == 0 {
                self.inner.write_at(change.offset, &change.after, change.durability)?;
            }
        }
        // What is lost is lost for good: no later flush brings it back, and none undoes the rest.
        self.inner.flush()
    }

    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        check_inside(&*self.inner, offset, length as u64)?;
        let mut bytes = vec![0; length];
        self.inner.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }
}

fn failure() -> io::Error {
    Errno::IO.into()
}

impl BlockDevice for FailingDevice {
    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.lock();
        if state.fails(RequestKind::Read) {
            buffer.fill_with(|| state.prng.number() as u8);
            return Err(failure());
        }
        drop(state);
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let mut state = self.lock();
        let before = self.read_vec(offset, bytes.len())?;
        let mut change = Change { offset, before, after: bytes.to_vec(), durability };
        if !state.fails(RequestKind::Write) {
            return self.change(&mut state, change);
        }
        if state.prng.within(0..2) == 0 {
            // It got through, but nobody was told, so nobody may count on its being durable.
            change.durability = Durability::Cached;
            self.change(&mut state, change)?;
        }
        Err(failure())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.fails(RequestKind::Flush) {
            self.lose(&mut state)?;
            return Err(failure());
        }
        self.inner.flush()?;
        state.unflushed.clear();
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        if state.fails(RequestKind::Discard) {
            return Err(failure());
        }
        // What the range holds is not defined any more, so a flush that fails may bring back what it
        // held, and what was written to it since.
        self.inner.discard(offset, length)
    }
}

#[cfg(test)]
mod tests;
