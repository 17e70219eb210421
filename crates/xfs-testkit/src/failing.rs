//! A device that fails on purpose.
//!
//! Owns: which request fails, and the state after a failure. Each failure goes as far as the
//! contract of [`BlockDevice`] allows. A failed read leaves random bytes in the buffer. A failed
//! write may have taken effect or not. A failed flush may lose any of the writes that it should
//! have covered, and later reads see that loss.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::cow::check_inside;
use crate::delegate_device;
use crate::prng::Prng;

/// The kind of a request to a device.
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
    /// Only the request with the number `nth` fails.
    Once,
    /// The request with the number `nth` and every later one of its kind fail.
    Forever,
}

/// A rule that decides which requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of request to which the rule applies. Only requests of this kind are counted, and
    /// only these fail.
    pub kind: RequestKind,
    /// The number of the first request that fails. Counting starts at 1 when the fault is set.
    pub nth: u64,
    /// Whether later requests fail too.
    pub persistence: Persistence,
}

/// A device over another one. A fault makes some of its requests fail with `EIO`.
///
/// All randomness comes from a seed: the same requests in the same order fail in the same way.
pub struct FailingDevice {
    inner: SharedDevice,
    state: Mutex<State>,
}

struct State {
    prng: Prng,
    fault: Option<Fault>,
    /// Number of requests of the fault's kind since the fault was set.
    count: u64,
    failures: u64,
    unflushed: Vec<UnflushedWrite>,
}

/// A write that no flush has covered yet, with the bytes that it replaced.
struct UnflushedWrite {
    offset: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    durability: Durability,
}

impl State {
    /// Counts a request if it is of the fault's kind. Returns whether the fault makes the request
    /// fail.
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
    /// Creates a device over `inner` that has no fault yet. `seed` decides the effects of failures.
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

    /// Replaces the fault. `None` removes it.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.count = 0;
    }

    /// Returns the number of requests that have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.lock().failures
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the underlying device. Keeps the replaced bytes, so that a failed flush can undo
    /// the write.
    fn write(&self, state: &mut State, write: UnflushedWrite) -> io::Result<()> {
        self.inner.write_at(&write.after, write.offset, write.durability)?;
        state.unflushed.push(write);
        Ok(())
    }

    /// Undoes some of the writes since the last flush, as a failed flush may. Keeps the durable
    /// writes and a random quarter of the others.
    fn lose(&self, state: &mut State) -> io::Result<()> {
        let writes = std::mem::take(&mut state.unflushed);
        for write in writes.iter().rev() {
            self.inner.write_at(&write.before, write.offset, Durability::Cached)?;
        }
        for write in writes {
            let survives = write.durability == Durability::Durable;
            if survives || state.prng.within(0..4) == 0 {
                self.inner.write_at(&write.after, write.offset, write.durability)?;
            }
        }
        // The outcome is final: no later flush restores a lost write or undoes a surviving one.
        self.inner.flush()
    }

    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        check_inside(&*self.inner, offset, length as u64)?;
        let mut bytes = vec![0; length];
        self.inner.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

fn failure() -> io::Error {
    Errno::IO.into()
}

impl BlockDevice for FailingDevice {
    delegate_device!(inner: length_bytes, sector_size, is_read_only);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.lock();
        if state.fails(RequestKind::Read) {
            buffer.fill_with(|| state.prng.number() as u8);
            return Err(failure());
        }
        drop(state);
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        let mut state = self.lock();
        let before = self.read_vec(offset, bytes.len())?;
        let mut write = UnflushedWrite { offset, before, after: bytes.to_vec(), durability };
        if !state.fails(RequestKind::Write) {
            return self.write(&mut state, write);
        }
        if state.prng.within(0..2) == 0 {
            // The write took effect although it reports an error. The caller must not rely on it,
            // so it is not durable.
            write.durability = Durability::Cached;
            self.write(&mut state, write)?;
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
        // The contents of a discarded range are undefined. A failed flush may therefore restore its
        // old contents, or writes that were made to it since.
        self.inner.discard(offset, length)
    }
}

#[cfg(test)]
mod tests;
