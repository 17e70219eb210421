//! Extent loans: a caller reads the bytes of a file from the device itself, while the file cannot
//! change.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use xfs_device::BlockDevice;
use xfs_inode::Inode;

use super::File;
use crate::Result;

/// Bytes of a file that are contiguous on the device, as a range of the device. While the loan
/// exists, the file cannot be written, and its blocks are not given to another file.
pub struct ExtentLoan<'a> {
    device: &'a dyn BlockDevice,
    offset: u64,
    length: usize,
}

thread_local! {
    /// Number of loans that this thread has given and that have not ended. It is above 1 if loans
    /// are nested.
    static LENT: Cell<u32> = const { Cell::new(0) };
}

/// Counts one loan in `LENT`, from `begin` until this value is dropped.
struct Lending;

impl Lending {
    fn begin() -> Self {
        LENT.set(LENT.get() + 1);
        Self
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        LENT.set(LENT.get() - 1);
    }
}

/// Returns whether this thread has given a loan and so holds the locks of a file.
pub(super) fn is_lending() -> bool {
    LENT.get() > 0
}

impl File {
    /// Calls `take` with the device range of the bytes that [`read_at`](Self::read_at) would read,
    /// and returns its result. Writes to the file and changes of its extents wait until `take`
    /// returns. `None`: the bytes are not in one extent, and `take` was not called. `read_at` can
    /// return such bytes, because it zeroes holes and joins extents.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_at`](Self::read_at).
    pub fn lend_at<T>(
        &self,
        offset: u64,
        length: usize,
        take: impl FnOnce(ExtentLoan<'_>) -> T,
    ) -> Result<Option<T>> {
        self.check_readable()?;
        self.check_alignment(offset, length)?;
        let cache = self.node.cache();
        let lend = |inode: &Inode| {
            let place = inode.device_range(cache, offset, length)?;
            Ok(place.map(|place| {
                let length = (place.end - place.start) as usize;
                let _lending = Lending::begin();
                take(ExtentLoan::new(&**cache.device(), place.start, length))
            }))
        };
        match self.node.writable() {
            Ok((mount, entry)) => mount.contents(entry).read_with(offset, length, lend),
            Err(_) => lend(&self.node.view()),
        }
    }
}

impl<'a> ExtentLoan<'a> {
    fn new(device: &'a dyn BlockDevice, offset: u64, length: usize) -> Self {
        Self { device, offset, length }
    }

    /// Returns the length of the loan in bytes. At the end of the file it is less than was
    /// requested.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Puts the bytes into a pipe, by reference. The bytes must leave the pipe before the loan
    /// ends. Returns how many bytes were put: fewer than all if the pipe is full or the device does
    /// not support it.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn splice_into(&self, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        self.device.splice_at(self.offset, self.length, pipe)
    }
}
