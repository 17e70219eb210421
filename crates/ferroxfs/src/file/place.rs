//! Where bytes of a file lie, lent to who takes them from there.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use xfs_device::BlockDevice;
use xfs_inode::Inode;

use super::File;
use crate::Result;

/// Bytes of a file as they lie on the device, one behind the other. While it is lent nobody writes to
/// the file, and its blocks do not become another's.
pub struct Place<'a> {
    device: &'a dyn BlockDevice,
    offset: u64,
    length: usize,
}

thread_local! {
    /// How many places this thread has lent just now, one inside the other.
    static LENT: Cell<u32> = const { Cell::new(0) };
}

/// Counts a place that is lent, until it is dropped.
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

/// Whether this thread holds the locks of a place that it has lent.
pub(super) fn is_lending() -> bool {
    LENT.get() > 0
}

impl File {
    /// Lends the place where the bytes lie that [`read_at`](Self::read_at) would read, and returns what `take`
    /// makes of it. Who writes to the file, or changes where it lies, waits until then. `None`, and nothing is
    /// called, unless they lie in one extent: a read makes zeros of holes, and puts pieces together.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub fn lend_at<T>(
        &self,
        offset: u64,
        length: usize,
        take: impl FnOnce(Place<'_>) -> T,
    ) -> Result<Option<T>> {
        self.check_readable()?;
        self.check_alignment(offset, length)?;
        let cache = self.node.cache();
        let lend = |inode: &Inode| {
            let place = inode.device_range(cache, offset, length)?;
            Ok(place.map(|place| {
                let length = (place.end - place.start) as usize;
                let _lending = Lending::begin();
                take(Place::new(&**cache.device(), place.start, length))
            }))
        };
        match self.node.writable() {
            Ok((parts, entry)) => parts.contents(entry).read_with(offset, length, lend),
            Err(_) => lend(&self.node.inode()),
        }
    }
}

impl<'a> Place<'a> {
    fn new(device: &'a dyn BlockDevice, offset: u64, length: usize) -> Self {
        Self { device, offset, length }
    }

    /// How many bytes it is: fewer than were asked for at the end of the file.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Puts the bytes into a pipe, by reference; they have to leave it before the place is given back.
    /// Returns how many were put: not all of them where the pipe is full or the device cannot do it.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn splice_into(&self, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        self.device.splice_at(self.offset, self.length, pipe)
    }
}
