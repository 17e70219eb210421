//! The trait.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A device that several parts of the program use.
pub type SharedDevice = Arc<dyn BlockDevice>;

/// What a write promises when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing until the next flush.
    Cached,
    /// These bytes are on stable storage ("FUA"); nothing is said of earlier writes.
    Durable,
}

/// A device of bytes, read and written at any offset, from any thread at once.
///
/// # Contract
///
/// - A read that succeeds filled the whole buffer. Past the end it fails with
///   [`io::ErrorKind::UnexpectedEof`] and the buffer's contents are not to be used.
/// - Reads and writes of disjoint ranges may run side by side; overlapping ones are the caller's
///   to order.
/// - After a flush that failed the device may have lost any write since the flush before it:
///   callers shut the volume down instead of trying again.
pub trait BlockDevice: Send + Sync {
    /// Length in bytes. It does not change while the device is open.
    fn length_bytes(&self) -> u64;

    /// The unit in which a write is atomic, in bytes: a power of two, at least 512.
    fn sector_size(&self) -> u32;

    /// Whether [`write_at`](Self::write_at) is refused.
    fn is_read_only(&self) -> bool;

    /// Fills `buffer` from byte `offset` on.
    ///
    /// # Errors
    ///
    /// What the host says; [`io::ErrorKind::UnexpectedEof`] past the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at byte `offset`.
    ///
    /// # Errors
    ///
    /// What the host says; [`io::ErrorKind::PermissionDenied`] on a read-only device;
    /// [`io::ErrorKind::UnexpectedEof`] past the end: a device does not grow.
    fn write_at(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()>;

    /// Makes every write that returned before this call durable.
    ///
    /// # Errors
    ///
    /// What the host says.
    fn flush(&self) -> io::Result<()>;

    /// Fails if bytes that were there when the device was opened are gone, because it became shorter. Costs
    /// next to nothing: it is asked where there is nothing to flush.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`], and what the host says.
    fn check_length(&self) -> io::Result<()> {
        Ok(())
    }

    /// Says that the bytes of this range are not needed any more; what they read as afterwards is
    /// not defined.
    ///
    /// # Errors
    ///
    /// What the host says; a device that cannot discard does nothing and succeeds.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Writes zeros over this range, without giving the space up where that can be had.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        write_zeros_plainly(self, offset, length)
    }

    /// Says that this range will be read soon. A hint: it never fails and may do nothing.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// Puts bytes from `offset` on into a pipe, as references to what the host holds of them and not as a copy:
    /// until they have left the pipe they change with the device. Does not wait for room in the pipe. Returns
    /// how many were put: fewer than `length` where the pipe is full, none where this device cannot do it.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at). Some may be in the pipe by then.
    fn splice_at(&self, _offset: u64, _length: usize, _pipe: BorrowedFd<'_>) -> io::Result<usize> {
        Ok(0)
    }

    /// Says that somebody else may have written this range, so that the next read shall ask the
    /// device and not a cache of the host. A hint: it never fails and may do nothing.
    fn invalidate(&self, _offset: u64, _length: u64) {}
}

/// Zeros that are written at once.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// Writes zeros as any other bytes, for devices that know nothing better.
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

/// Checks that a write is allowed and lies inside the device: devices do not grow.
pub(crate) fn check_write(device: &dyn BlockDevice, offset: u64, length: usize) -> io::Result<()> {
    if device.is_read_only() {
        let message = "the device is open for reading only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    check_read(device, offset, length)
}
