//! The trait [`BlockDevice`], which every device implements.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A device that several parts of the program share.
pub type SharedDevice = Arc<dyn BlockDevice>;

/// Whether a write is durable when it returns.
///
/// Not `#[non_exhaustive]`: every device must obey each case, so a new case must break the build of
/// each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The write need not be durable before the next flush.
    Cached,
    /// The written bytes are on stable storage when the write returns ("FUA"). Earlier writes may
    /// still be in a cache.
    Durable,
}

/// A device of bytes. Any number of threads may read and write it at any offset.
///
/// # Contract
///
/// - A read that succeeds fills the whole buffer. A read past the end fails with
///   [`io::ErrorKind::UnexpectedEof`], and the contents of the buffer must not be used.
/// - Reads and writes of disjoint ranges may run concurrently. The caller must order overlapping
///   requests.
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

    /// Returns whether the device holds the contents of files. A metadata image does not: contents
    /// read as zeros there, and must not be shown to a user.
    fn holds_file_contents(&self) -> bool {
        true
    }

    /// Fills `buffer` from byte `offset` on.
    ///
    /// # Errors
    ///
    /// The error of the host; [`io::ErrorKind::UnexpectedEof`] past the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Appends `length` bytes to `bytes`, from byte `offset` of the device on. Callers use this for
    /// memory that is new: a device with an implementation of its own does not fill the memory with
    /// zeros before it reads. After an error `bytes` is as it was before.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at).
    fn append_at(&self, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        let start = bytes.len();
        bytes.resize(start + length, 0);
        let (_, new) = bytes.split_at_mut(start);
        self.read_at(new, offset).inspect_err(|_| bytes.truncate(start))
    }

    /// Writes all of `bytes` at byte `offset`.
    ///
    /// # Errors
    ///
    /// The error of the host; [`io::ErrorKind::PermissionDenied`] on a read-only device;
    /// [`io::ErrorKind::UnexpectedEof`] past the end: a device does not grow.
    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()>;

    /// Makes every write durable that returned before this call.
    ///
    /// # Errors
    ///
    /// The error of the host.
    fn flush(&self) -> io::Result<()>;

    /// Returns an error if the device has become shorter since it was opened. Callers use this
    /// cheap check where they would flush but have nothing to flush.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if the device is shorter, and the error of the host.
    fn check_length(&self) -> io::Result<()> {
        Ok(())
    }

    /// Discards a range whose bytes are no longer needed. Later reads of the range return undefined
    /// bytes.
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

    /// Announces that the range will be read soon. This is a hint: it never fails, and a device may
    /// ignore it.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// Splices bytes from `offset` on into a pipe, without waiting for room in the pipe. The pipe
    /// refers to the host's cached pages and has no copy, so its bytes change with the device until
    /// they are read from the pipe. Returns the number of bytes put into the pipe: fewer than
    /// `length` if the pipe is full, and 0 if this device does not support splicing.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at). Some bytes may be in the pipe by then.
    fn splice_at(&self, _offset: u64, _length: usize, _pipe: BorrowedFd<'_>) -> io::Result<usize> {
        Ok(0)
    }

    /// Announces that another program may have written to the range. The next read of it then comes
    /// from the device and not from a cache of the host. This is a hint: it never fails, and a
    /// device may ignore it.
    fn invalidate(&self, _offset: u64, _length: u64) {}
}

/// The largest number of zeros, in bytes, that one request writes.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// Writes zeros as ordinary bytes, for devices that have no special request for zeros.
///
/// # Errors
///
/// The errors of [`BlockDevice::write_at`].
pub fn write_zeros_plainly<D: BlockDevice + ?Sized>(
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
        device.write_at(piece, at, Durability::Cached)?;
        at += count as u64;
    }
    Ok(())
}

/// Returns an error if a read does not lie inside the device.
///
/// # Errors
///
/// [`io::ErrorKind::UnexpectedEof`] with the range and the length of the device.
pub fn check_read(device: &dyn BlockDevice, offset: u64, length: usize) -> io::Result<()> {
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

/// Returns an error if a write is not allowed or does not lie inside the device. A device does not
/// grow.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] on a read-only device, and the error of [`check_read`].
pub fn check_write(device: &dyn BlockDevice, offset: u64, length: usize) -> io::Result<()> {
    if device.is_read_only() {
        let message = "the device is open read-only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    check_read(device, offset, length)
}

/// Defines the methods of a device that nothing writes to: `is_read_only`, `write_at`, `flush` and
/// `discard`. Writes and discards fail with [`io::ErrorKind::PermissionDenied`].
#[macro_export]
macro_rules! read_only_device {
    () => {
        fn is_read_only(&self) -> bool {
            true
        }

        fn write_at(&self, _: &[u8], _: u64, _: $crate::Durability) -> ::std::io::Result<()> {
            Err(::std::io::ErrorKind::PermissionDenied.into())
        }

        fn flush(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        fn discard(&self, _: u64, _: u64) -> ::std::io::Result<()> {
            Err(::std::io::ErrorKind::PermissionDenied.into())
        }
    };
}
