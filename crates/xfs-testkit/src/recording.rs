//! A device that remembers every request that changes it, in order.
//!
//! Owns: the order. A request is carried out and written down as one, so that the recording has
//! requests of several threads in an order in which they could have come one by one. Does **not**
//! own: which of them survive a crash ([`PowerCuts`](crate::PowerCuts)).
//!
//! The device that lies below is never written: what is written stays in memory.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::cow::CowDevice;

/// A request that changes a device, or makes changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Bytes written, and what the write promised when it returned.
    Write {
        /// The first byte.
        offset: u64,
        /// What was written.
        bytes: Arc<[u8]>,
        /// Whether it was durable by itself.
        durability: Durability,
    },
    /// A range given back.
    Discard {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Everything before it made durable.
    Flush,
    /// Everything before it in these bytes made durable: they are a device of their own
    /// ([`RecordingDevice::split`]).
    FlushPart(Range<u64>),
}

impl Request {
    /// Carries it out.
    pub(crate) fn apply(&self, device: &CowDevice) -> io::Result<()> {
        match self {
            Self::Write { offset, bytes, durability } => {
                device.write_at(*offset, bytes, *durability)
            }
            Self::Discard { offset, length } => device.discard(*offset, *length),
            Self::Flush | Self::FlushPart(_) => device.flush(),
        }
    }

    /// Whether it changes bytes of this range alone.
    pub(crate) fn lies_in(&self, range: &Range<u64>) -> bool {
        let (start, length) = match self {
            Self::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Self::Discard { offset, length } => (*offset, *length),
            Self::Flush | Self::FlushPart(_) => return false,
        };
        range.start <= start && start + length <= range.end
    }
}

/// A device in memory that starts as a copy of another and records what happens to it.
pub struct RecordingDevice {
    start: CowDevice,
    live: CowDevice,
    requests: Mutex<Vec<Request>>,
}

/// What has happened to a device.
pub struct Recording {
    start: CowDevice,
    requests: Vec<Request>,
}

impl RecordingDevice {
    /// A device that holds what `base` holds; `base` itself is only read.
    #[must_use]
    pub fn new(base: SharedDevice) -> Self {
        Self::of(CowDevice::new(base))
    }

    /// A device that goes on with what this one holds.
    #[must_use]
    pub fn of(start: CowDevice) -> Self {
        Self { live: start.fork(), start, requests: Mutex::default() }
    }

    /// How many requests have been recorded. What a program promised at this position has to hold
    /// after a crash at this or any later [`point`](crate::Cut::point).
    #[must_use]
    pub fn position(&self) -> usize {
        self.lock().len()
    }

    /// Everything that has happened so far.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording { start: self.start.fork(), requests: self.lock().clone() }
    }

    /// Makes a part durable that is a device of its own.
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

    /// The whole sectors that a write changes, as they are after it.
    fn whole_sectors(&self, offset: u64, bytes: &[u8]) -> io::Result<(u64, Vec<u8>)> {
        let sector = u64::from(self.live.sector_size());
        let start = offset / sector * sector;
        let end = (offset + bytes.len() as u64).next_multiple_of(sector).min(self.length_bytes());
        let mut whole = vec![0; end.saturating_sub(start) as usize];
        self.live.read_at(start, &mut whole)?;
        let within = (offset - start) as usize;
        let place = whole.get_mut(within..within + bytes.len());
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        Ok((start, whole))
    }
}

impl Recording {
    /// The requests, in order. Those that failed are not among them.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The device as it was when the first `count` requests had been made.
    ///
    /// # Panics
    ///
    /// If the device below cannot be read.
    #[must_use]
    pub fn replay(&self, count: usize) -> CowDevice {
        let device = self.start.fork();
        for request in self.requests.iter().take(count) {
            request.apply(&device).expect("what worked once works again");
        }
        device
    }
}

impl BlockDevice for RecordingDevice {
    fn length_bytes(&self) -> u64 {
        self.live.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.live.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.live.read_at(offset, buffer)
    }

    /// A medium writes whole sectors: who writes a part of one writes the rest of it again as it is,
    /// with what earlier writes have put there. So it is recorded as that.
    fn write_at(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()> {
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
