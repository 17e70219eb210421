//! What a checkpoint has yet to write, cut where a record ends.
//!
//! Owns: where the cut is. Does **not** own the record, or who copies what lies before the cut.
//!
//! The cut is found by lengths alone and before anything is copied, so that a record can be closed, and
//! the next one begun, by who then fills it without a lock.

use crate::unit::piece_fits;
use crate::vector::first_region;
use xfs_format::log_record::OPERATION_BYTES;

/// The rest of a checkpoint's vectors.
#[derive(Clone)]
pub(super) struct VectorStream<'a, I> {
    /// Of the vector that has been begun.
    rest: &'a [u8],
    vectors: I,
}

/// What of a stream goes into a record that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamCut<'a> {
    /// Bytes of the record, headers of operations included.
    pub(super) bytes: usize,
    /// What the next record has to begin with: the rest of a region, if one was cut.
    pub(super) left: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> VectorStream<'a, I> {
    pub(super) const fn new(vectors: I) -> Self {
        Self { rest: &[], vectors }
    }

    /// What is left of the vector that comes next. `None` at the end.
    pub(super) fn rest(&mut self) -> Option<&'a [u8]> {
        while self.rest.is_empty() {
            self.rest = self.vectors.next()?;
        }
        Some(self.rest)
    }

    /// Goes on by so many bytes of that.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Goes on behind what fits so much room. `None` if that is everything.
    pub(super) fn cut(&mut self, room: usize) -> Option<StreamCut<'a>> {
        let mut bytes = 0;
        while let Some(vector) = self.rest() {
            if vector.len() <= room - bytes {
                bytes += vector.len();
                self.skip(vector.len());
                continue;
            }
            let (region, length) = first_region(vector)?;
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
            return Some(StreamCut { bytes: room, left: region.get(piece..).unwrap_or_default() });
        }
        None
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
