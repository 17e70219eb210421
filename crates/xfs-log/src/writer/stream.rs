//! The unwritten part of a checkpoint, cut where a record ends.
//!
//! Owns: the point of the cut. Does **not** own the record, or copying the bytes before the cut.
//!
//! The cut is computed from lengths alone, before anything is copied. So a thread can close a
//! record, leave the next one to other threads, and then fill the closed record without a lock.

use crate::unit::piece_fits;
use crate::vector::first_region;
use xfs_format::log_record::OPERATION_BYTES;

/// The vectors of a checkpoint that are not written yet.
#[derive(Clone)]
pub(super) struct VectorStream<'a, I> {
    /// The unwritten rest of the current vector.
    rest: &'a [u8],
    vectors: I,
}

/// The result of a cut: the part of a stream that fills a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamCut<'a> {
    /// Number of bytes that go into the record, headers of operations included.
    pub(super) bytes: usize,
    /// The rest of a region that was cut. The next record has to begin with it.
    pub(super) left: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> VectorStream<'a, I> {
    pub(super) const fn new(vectors: I) -> Self {
        Self { rest: &[], vectors }
    }

    /// Returns the rest of the current vector, or the next vector. Returns `None` at the end of the
    /// stream.
    pub(super) fn rest(&mut self) -> Option<&'a [u8]> {
        while self.rest.is_empty() {
            self.rest = self.vectors.next()?;
        }
        Some(self.rest)
    }

    /// Skips `bytes` bytes of the current vector.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).expect("a vector ends after its regions");
    }

    /// Skips as many bytes of the stream as fit into `room` bytes of a record. Returns where the
    /// stream was cut, or `None` if the whole stream fits.
    pub(super) fn cut(&mut self, room: usize) -> Option<StreamCut<'a>> {
        let mut bytes = 0;
        while let Some(vector) = self.rest() {
            if vector.len() <= room - bytes {
                bytes += vector.len();
                self.skip(vector.len());
                continue;
            }
            let (region, length) = first_region(vector).expect("the rest of a vector has regions");
            if length <= room - bytes {
                bytes += length;
                self.skip(length);
                continue;
            }
            if !piece_fits(region.len(), room - bytes) {
                return Some(StreamCut { bytes, left: &[] });
            }
            self.skip(length);
            let piece = room - bytes - OPERATION_BYTES as usize;
            let left = region.get(piece..).expect("a region that does not fit has a rest");
            return Some(StreamCut { bytes: room, left });
        }
        None
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
