//! A device that panics when a program writes to it.

use std::io;

use xfs_device::{BlockDevice, Durability};

use crate::delegate_device;

/// A device that reads from another one, and panics when it is written, flushed or discarded.
/// `is_read_only` returns `false`. So a program under test does not avoid writes because the device
/// is read-only: if it writes, the test fails.
pub struct NeverWritten<D> {
    inner: D,
}

impl<D> NeverWritten<D> {
    /// Creates a device that reads from `inner`.
    #[must_use]
    pub const fn new(inner: D) -> Self {
        Self { inner }
    }
}

impl<D: BlockDevice> BlockDevice for NeverWritten<D> {
    delegate_device!(inner: length_bytes, sector_size, read_at);

    fn is_read_only(&self) -> bool {
        false
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _: Durability) -> io::Result<()> {
        unreachable!(
            "{} bytes are written at {offset} of a device that nothing may write",
            bytes.len()
        );
    }

    fn flush(&self) -> io::Result<()> {
        unreachable!("a device that nothing may write is flushed");
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        unreachable!("{length} bytes are discarded at {offset} of a device that nothing may write");
    }
}
