//! Two devices that are recorded as one: so their requests have one order, and a cut leaves a state of both.
//!
//! Owns: the one device that holds both, one behind the other, and the windows through which each is used.
//! Does **not** own the recording, or what a flush of one of them means for a cut
//! ([`PowerCuts`](crate::PowerCuts)): it is recorded as one of that part alone.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, SharedDevice, WindowDevice};

use crate::cow::check_inside;
use crate::recording::RecordingDevice;

/// What two devices hold, one behind the other, for reading: where a recording of both starts.
pub struct JoinedDevice {
    parts: [SharedDevice; 2],
}

impl JoinedDevice {
    /// Both of them, the second where the first ends.
    #[must_use]
    pub fn new(first: SharedDevice, second: SharedDevice) -> Self {
        Self { parts: [first, second] }
    }
}

impl BlockDevice for JoinedDevice {
    fn length_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.length_bytes()).sum()
    }

    fn sector_size(&self) -> u32 {
        self.parts.iter().map(|part| part.sector_size()).max().unwrap_or(512)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_inside(self, offset, buffer.len() as u64)?;
        let [first, second] = &self.parts;
        let boundary = first.length_bytes();
        let before = boundary.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (left, right) = buffer.split_at_mut(before);
        if !left.is_empty() {
            first.read_at(offset, left)?;
        }
        if right.is_empty() {
            return Ok(());
        }
        second.read_at(offset + before as u64 - boundary, right)
    }

    fn write_at(&self, _: u64, _: &[u8], _: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// One of two devices that are recorded as one.
struct Part {
    whole: Arc<RecordingDevice>,
    window: WindowDevice,
    range: Range<u64>,
}

impl RecordingDevice {
    /// This device as two: what lies before a byte, and the rest. A flush of the one makes nothing of the other
    /// durable.
    #[must_use]
    pub fn split(self: &Arc<Self>, boundary: u64) -> [SharedDevice; 2] {
        [0..boundary, boundary..self.length_bytes()].map(|range| {
            let whole = Arc::clone(self);
            let length = range.end.saturating_sub(range.start);
            let window = WindowDevice::new(whole.clone(), range.start, length);
            Arc::new(Part { whole, window, range }) as SharedDevice
        })
    }
}

impl BlockDevice for Part {
    fn length_bytes(&self) -> u64 {
        self.window.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.window.sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.window.is_read_only()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.window.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.window.write_at(offset, bytes, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.whole.flush_part(self.range.clone())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.window.discard(offset, length)
    }
}

#[cfg(test)]
mod tests;
