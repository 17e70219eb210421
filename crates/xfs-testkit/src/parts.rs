//! Two devices that are recorded as one, so that their requests have one order and a power cut
//! leaves a state of both.
//!
//! Owns: the joined device, which holds one device after the other, and the windows through which
//! each of the two is used. Does **not** own the recording, or the effect of a flush on a power cut
//! ([`PowerCuts`](crate::PowerCuts)). A flush of one device is recorded as a flush of its part
//! only.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfs_device::{BlockDevice, SharedDevice, WindowDevice};

use crate::cow::check_inside;
use crate::delegate_device;
use crate::recording::RecordingDevice;

/// A read-only device made of two devices: the bytes of the first device, followed by those of the
/// second. It is the base of a recording of both devices.
pub struct JoinedDevice {
    parts: [SharedDevice; 2],
}

impl JoinedDevice {
    /// Joins two devices; the second starts where the first ends.
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

    xfs_device::read_only_device!();

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_inside(self, offset, buffer.len() as u64)?;
        let [first, second] = &self.parts;
        let boundary = first.length_bytes();
        let before = boundary.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (left, right) = buffer.split_at_mut(before);
        if !left.is_empty() {
            first.read_at(left, offset)?;
        }
        if right.is_empty() {
            return Ok(());
        }
        second.read_at(right, offset + before as u64 - boundary)
    }
}

/// One of the two devices that are recorded as one: a range of the bytes of the recorded device.
struct DevicePart {
    whole: Arc<RecordingDevice>,
    window: WindowDevice,
    range: Range<u64>,
}

impl RecordingDevice {
    /// Returns this device as two devices, split at byte `boundary`. A flush of one of them makes
    /// nothing in the other durable.
    #[must_use]
    pub fn split(self: &Arc<Self>, boundary: u64) -> [SharedDevice; 2] {
        [0..boundary, boundary..self.length_bytes()].map(|range| {
            let whole = Arc::clone(self);
            let length = range.end.saturating_sub(range.start);
            let window = WindowDevice::new(whole.clone(), range.start, length);
            Arc::new(DevicePart { whole, window, range }) as SharedDevice
        })
    }
}

impl BlockDevice for DevicePart {
    delegate_device!(window: length_bytes, sector_size, is_read_only, read_at, write_at, discard);

    fn flush(&self) -> io::Result<()> {
        self.whole.flush_part(self.range.clone())
    }
}

#[cfg(test)]
mod tests;
