//! A device that remembers the first request that failed.
//!
//! Owns: the error of that request. Does **not** own: the device below, or what a failure means.
//!
//! This device is needed because a replay of the log reports an error in words, which do not say
//! whether the device failed. A volume that shuts down after a failed write also reports only the
//! shutdown.

use std::io;

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_sync::{Mutex, Volume};

use crate::error::RepairError;

/// A device over another one, which remembers the first failed request. A request outside of the
/// device does not count as a failure of the device, because a damaged pointer causes it.
pub(super) struct WatchedDevice {
    inner: SharedDevice,
    /// The offset of the first failed request, and its error.
    failure: Mutex<Option<(u64, io::Error)>, Volume>,
}

impl WatchedDevice {
    /// Creates a device over `inner`. No request has failed yet.
    pub(super) const fn new(inner: SharedDevice) -> Self {
        Self { inner, failure: Mutex::new(None) }
    }

    /// Returns the error of a repair for the first failed request, if one has failed. Forgets this
    /// request.
    pub(super) fn take_failure(&self) -> Option<RepairError> {
        let (offset, error) = self.failure.lock().take()?;
        Some(super::device_failure(offset, error))
    }

    /// Returns `done`, the result of a request of `length` bytes at `offset`. Remembers an error if
    /// it is the first one.
    fn note(&self, offset: u64, length: u64, done: io::Result<()>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let end = offset.checked_add(length);
        if end.is_some_and(|end| end <= self.inner.length_bytes()) {
            let copy = match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            self.failure.lock().get_or_insert((offset, copy));
        }
        Err(error)
    }
}

impl BlockDevice for WatchedDevice {
    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn holds_file_contents(&self) -> bool {
        self.inner.holds_file_contents()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let done = self.inner.read_at(buffer, offset);
        self.note(offset, buffer.len() as u64, done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        let done = self.inner.write_at(bytes, offset, durability);
        self.note(offset, bytes.len() as u64, done)
    }

    fn flush(&self) -> io::Result<()> {
        self.note(0, 0, self.inner.flush())
    }

    fn check_length(&self) -> io::Result<()> {
        self.note(0, 0, self.inner.check_length())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.note(offset, length, self.inner.discard(offset, length))
    }
}
