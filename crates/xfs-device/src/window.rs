//! A device that is a byte range of another device, such as a partition.

use std::io;
use std::os::fd::BorrowedFd;

use crate::device::{BlockDevice, Durability, SharedDevice, check_read, check_write};

/// A byte range of another device.
///
/// Invariant: the range lies inside the other device. So the sum of its start and an offset inside
/// the range cannot overflow.
pub struct WindowDevice {
    device: SharedDevice,
    start: u64,
    length_bytes: u64,
}

impl WindowDevice {
    /// Creates a window of `length_bytes` bytes from byte `start` on. The window is cut off at the
    /// end of the device, so that the present part of a truncated image can be read.
    #[must_use]
    pub fn new(device: SharedDevice, start: u64, length_bytes: u64) -> Self {
        let whole = device.length_bytes();
        let start = start.min(whole);
        Self { device, start, length_bytes: length_bytes.min(whole - start) }
    }

    /// Returns where the window starts on the underlying device, in bytes.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }
}

impl BlockDevice for WindowDevice {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn holds_file_contents(&self) -> bool {
        self.device.holds_file_contents()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        self.device.read_at(buffer, self.start + offset)
    }

    fn append_at(&self, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        check_read(self, offset, length)?;
        self.device.append_at(bytes, length, self.start + offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        self.device.write_at(bytes, self.start + offset, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn check_length(&self) -> io::Result<()> {
        self.device.check_length()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        self.device.discard(self.start + offset, length)
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        self.device.write_zeros(self.start + offset, length)
    }

    fn splice_at(&self, offset: u64, length: usize, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        check_read(self, offset, length)?;
        self.device.splice_at(self.start + offset, length, pipe)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        let offset = offset.min(self.length_bytes);
        self.device.prefetch(self.start + offset, length.min(self.length_bytes - offset));
    }

    fn invalidate(&self, offset: u64, length: u64) {
        let offset = offset.min(self.length_bytes);
        self.device.invalidate(self.start + offset, length.min(self.length_bytes - offset));
    }
}

#[cfg(test)]
mod tests;
