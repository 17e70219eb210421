//! A device that records every request that changes it, in order.
//!
//! Owns: the order. A request is applied and recorded in one step, so the requests of several
//! threads have one sequential order. Does **not** own: which requests survive a crash
//! ([`PowerCuts`](crate::PowerCuts)).
//!
//! The underlying device is never written: all writes stay in memory.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::cow::CowDevice;
use crate::delegate_device;

/// A request that changes a device, or makes changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A write.
    Write {
        /// Offset of the first byte written.
        offset: u64,
        /// The bytes written.
        bytes: Arc<[u8]>,
        /// Whether the write was durable when it returned.
        durability: Durability,
    },
    /// A discard.
    Discard {
        /// Offset of the first byte discarded.
        offset: u64,
        /// Number of bytes discarded.
        length: u64,
    },
    /// A flush. Every earlier request is durable after it.
    Flush,
    /// A flush of one part of a split device ([`RecordingDevice::split`]): every earlier request
    /// that changes bytes of this range is durable after it.
    FlushPart(Range<u64>),
}

impl Request {
    /// Applies the request to `device`.
    pub(crate) fn apply(&self, device: &CowDevice) -> io::Result<()> {
        match self {
            Self::Write { offset, bytes, durability } => {
                device.write_at(bytes, *offset, *durability)
            }
            Self::Discard { offset, length } => device.discard(*offset, *length),
            Self::Flush | Self::FlushPart(_) => device.flush(),
        }
    }

    /// Returns whether the request changes only bytes in `range`.
    pub(crate) fn lies_in(&self, range: &Range<u64>) -> bool {
        let (start, length) = match self {
            Self::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Self::Discard { offset, length } => (*offset, *length),
            Self::Flush | Self::FlushPart(_) => return false,
        };
        range.start <= start && start + length <= range.end
    }
}

/// An in-memory device that starts as a copy of another one and records its requests.
pub struct RecordingDevice {
    start: CowDevice,
    live: CowDevice,
    requests: Mutex<Vec<Request>>,
}

/// The recorded requests of a device, and its state before them.
pub struct Recording {
    start: CowDevice,
    requests: Vec<Request>,
}

impl RecordingDevice {
    /// Creates a device with the contents of `base`, which is only read.
    #[must_use]
    pub fn new(base: SharedDevice) -> Self {
        Self::of(CowDevice::new(base))
    }

    /// Creates a recording device that starts with the contents of `start`.
    #[must_use]
    pub fn of(start: CowDevice) -> Self {
        Self { live: start.fork(), start, requests: Mutex::default() }
    }

    /// Returns the number of requests recorded so far. If a program makes a promise now (for
    /// example, acknowledges a write), the promise must hold after a crash at this or any later
    /// [`point`](crate::Cut::point).
    #[must_use]
    pub fn position(&self) -> usize {
        self.lock().len()
    }

    /// Returns a copy of the recording so far.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording { start: self.start.fork(), requests: self.lock().clone() }
    }

    /// Records a flush of one part of a split device.
    pub(crate) fn flush_part(&self, part: Range<u64>) -> io::Result<()> {
        self.record(Request::FlushPart(part))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, request: Request) -> io::Result<()> {
        let mut requests = self.lock();
        request.apply(&self.live)?;
        requests.push(request);
        Ok(())
    }

    /// Returns the whole sectors that a write changes, with their contents after the write.
    fn whole_sectors(&self, offset: u64, bytes: &[u8]) -> io::Result<(u64, Vec<u8>)> {
        let sector = u64::from(self.live.sector_size());
        let start = offset / sector * sector;
        let end = (offset + bytes.len() as u64).next_multiple_of(sector).min(self.length_bytes());
        let mut whole = vec![0; end.saturating_sub(start) as usize];
        self.live.read_at(&mut whole, start)?;
        let within = (offset - start) as usize;
        let target = whole.get_mut(within..within + bytes.len());
        target.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        Ok((start, whole))
    }
}

impl Recording {
    /// Returns the successful requests, in order.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the device as it was after the first `count` requests.
    ///
    /// # Panics
    ///
    /// Panics if the underlying device cannot be read.
    #[must_use]
    pub fn replay(&self, count: usize) -> CowDevice {
        let device = self.start.fork();
        for request in self.requests.iter().take(count) {
            request.apply(&device).expect("a request that succeeded succeeds again");
        }
        device
    }
}

impl BlockDevice for RecordingDevice {
    delegate_device!(live: length_bytes, sector_size, read_at);

    fn is_read_only(&self) -> bool {
        false
    }

    /// Writes and records whole sectors. A medium writes whole sectors. A write of a part of a
    /// sector therefore also records the sector's other bytes, as earlier writes left them.
    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        let mut requests = self.lock();
        let (offset, whole) = self.whole_sectors(offset, bytes)?;
        let request = Request::Write { offset, bytes: whole.into(), durability };
        request.apply(&self.live)?;
        requests.push(request);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.record(Request::Flush)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.record(Request::Discard { offset, length })
    }
}

#[cfg(test)]
mod tests;
