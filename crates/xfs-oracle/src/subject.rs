//! Subjects: implementations of a filesystem that perform operations.

mod kernel;

use rustix::io::Errno;

use crate::digest::{SECTOR_BYTES, SparseDigest};
use crate::model::{Operation, Outcome};

pub use kernel::Kernel;

/// A filesystem, such as the kernel's, that performs operations.
pub trait Subject {
    /// Performs an operation and returns its result.
    ///
    /// # Errors
    ///
    /// The errno of the operation. It must be the errno that the kernel's XFS returns.
    fn perform(&mut self, operation: &Operation) -> Result<Outcome, Errno>;
}

/// Whether a seek looks for data or for a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekKind {
    /// Looks for data: SEEK_DATA.
    Data,
    /// Looks for a hole: SEEK_HOLE.
    Hole,
}

/// Reads the data of a file from `offset` to `size`, and skips its holes. `seek` returns the offset
/// that it found, or `None` for ENXIO. `read` takes an offset and a length and returns all
/// requested bytes.
///
/// # Errors
///
/// ENXIO if `offset` is past the end of the file. EIO if a seek returns an offset before the
/// requested one.
pub fn scan(
    offset: u64,
    size: u64,
    mut seek: impl FnMut(SeekKind, u64) -> Result<Option<u64>, Errno>,
    mut read: impl FnMut(u64, u64) -> Result<Vec<u8>, Errno>,
) -> Result<Outcome, Errno> {
    const AT_ONCE: u64 = 2048 * SECTOR_BYTES as u64;
    let found = seek(SeekKind::Data, offset)?;
    if offset >= size {
        return Err(found.map_or(Errno::NXIO, |_| Errno::IO));
    }
    let (mut digest, mut next) = (SparseDigest::default(), found);
    // If a file ends within a block, data may seem to start at its end.
    while let Some(start) = next.filter(|start| *start < size) {
        let end = seek(SeekKind::Hole, start)?.ok_or(Errno::IO)?.min(size);
        if start < offset || end <= start {
            return Err(Errno::IO);
        }
        let mut at = start;
        while at < end {
            let length = AT_ONCE.min(end - at);
            digest.update(at, &read(at, length)?);
            at += length;
        }
        next = seek(SeekKind::Data, end)?;
        if next.is_some_and(|next| next < end) {
            return Err(Errno::IO);
        }
    }
    Ok(Outcome::Scanned(digest))
}
