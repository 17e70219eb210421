//! The trait [`BlockDevice`].

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A device that several parts of the program share.
pub type SharedDevice = Arc<dyn BlockDevice>;

/// The durability of a write when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The write need not be durable before the next flush.
    Cached,
    /// The written bytes are on stable storage ("FUA"). Earlier writes need not be.
    Durable,
}

/// A device of bytes. Any number of threads may read and write it at any offset.
///
/// # Contract
///
/// - A read that succeeds fills the whole buffer. A read past the end fails with
///   [`io::ErrorKind::UnexpectedEof`], and the contents of the buffer must not be used.
/// - Reads and writes of disjoint ranges may run concurrently. The caller orders overlapping ones.
/// - After a failed flush the device may have lost any write since the flush before it. Callers
///   shut the volume down instead of trying again.
pub trait BlockDevice: Send + Sync {
    /// Returns the length of the device in bytes. The length does not change while the device is
    /// open.
    fn length_bytes(&self) -> u64;

    /// Returns the unit in which a write is atomic, in bytes: a power of two, at least 512.
    fn sector_size(&self) -> u32;

    /// Returns whether the device refuses [`write_at`](Self::write_at).
    fn is_read_only(&self) -> bool;

    /// Fills `buffer` from byte `offset` on.
    ///
    /// # Errors
    ///
    /// The error of the host; [`io::ErrorKind::UnexpectedEof`] past the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at byte `offset`.
    ///
    /// # Errors
    ///
    /// The error of the host; [`io::ErrorKind::PermissionDenied`] on a read-only device;
    /// [`io::ErrorKind::UnexpectedEof`] past the end: a device does not grow.
    fn write_at(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()>;

    /// Makes every write durable that returned before this call.
    ///
    /// # Errors
    ///
    /// The error of the host.
    fn flush(&self) -> io::Result<()>;

    /// Fails if the device became shorter than it was when it was opened. Cheap: callers use it
    /// when there is nothing to flush.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`], and the error of the host.
    fn check_length(&self) -> io::Result<()> {
        Ok(())
    }

    /// Discards a range whose bytes are no longer needed. Later reads of it are undefined.
    ///
    /// # Errors
    ///
    /// The error of the host. A device that cannot discard does nothing and succeeds.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Writes zeros over a range. The space stays allocated where the device supports that.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        write_zeros_plainly(self, offset, length)
    }

    /// Announces that this range will be read soon. This is a hint: the call never fails and may do
    /// nothing.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// Splices bytes from `offset` on into a pipe. The pipe refers to the host's cached pages and
    /// has no copy, so the bytes change with the device until they have left the pipe. This does
    /// not wait for room in the pipe. Returns the number of bytes in the pipe: fewer than `length`
    /// if the pipe is full, and 0 if this device does not support it.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at). Some bytes may be in the pipe by then.
    fn splice_at(&self, _offset: u64, _length: usize, _pipe: BorrowedFd<'_>) -> io::Result<usize> {
        Ok(0)
    }

    /// Announces that another program may have written this range, so that the next read comes from
    /// the device and not from a cache of the host. This is a hint: the call never fails and may do
    /// nothing.
    fn invalidate(&self, _offset: u64, _length: u64) {}
}

/// The number of zeros that one write writes.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// Writes zeros as ordinary bytes, for devices without a better way.
pub(crate) fn write_zeros_plainly<D: BlockDevice + ?Sized>(
    device: &D,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    let past_end = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let end = offset.checked_add(length).ok_or_else(past_end)?;
    let chunk = usize::try_from(length).map_or(ZERO_CHUNK_BYTES, |all| all.min(ZERO_CHUNK_BYTES));
    let zeros = vec![0; chunk];
    let mut at = offset;
    while at < end {
        let count = usize::try_from(end - at).map_or(chunk, |left| left.min(chunk));
        let piece = zeros.get(..count).unwrap_or(&zeros);
        device.write_at(at, piece, Durability::Cached)?;
        at += count as u64;
    }
    Ok(())
}

/// Checks that a read lies inside the device.
pub(crate) fn check_read(device: &dyn BlockDevice, offset: u64, length: usize) -> io::Result<()> {
    let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
    if end.is_some_and(|end| end <= device.length_bytes()) {
        return Ok(());
    }
    let message = format!(
        "{length} bytes at {offset} are past the end of the device, which has {} bytes",
        device.length_bytes()
    );
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
}

/// Checks that a write is allowed and lies inside the device, which does not grow.
pub(crate) fn check_write(device: &dyn BlockDevice, offset: u64, length: usize) -> io::Result<()> {
    if device.is_read_only() {
        let message = "the device is open read-only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    check_read(device, offset, length)
}
