//! Log vectors: the bytes of an item as a checkpoint will write them.
//!
//! Owns: the regions of one item in one piece of memory, and how they are filled. Does **not** own
//! operation headers: what they say depends on the record that they come to lie in.
//!
//! ```text
//!  | length | region 0 | length | region 1 | ...         regions padded with zeros to four bytes
//! ```
//!
//! Lengths stand between the bytes, and not in a list of their own, because a commit allocates a
//! vector for each item that the checkpoint does not have yet.

use xfs_format::log_record::OPERATION_BYTES;

/// What an item needs in the log, before it is formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorSize {
    /// Regions.
    pub regions: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// The regions of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogVector {
    bytes: Vec<u8>,
    regions: usize,
}

/// Bytes of a length.
const LENGTH_BYTES: usize = size_of::<u32>();

impl LogVector {
    /// Empties it, and makes room so that an item of this size is formatted without allocating.
    pub(crate) fn prepare(&mut self, size: VectorSize) {
        self.bytes.clear();
        self.regions = 0;
        self.bytes.reserve(size.bytes + (LENGTH_BYTES + 3) * size.regions);
    }

    /// Bytes in the log with an operation header for each region, where no record ends in between.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        let headers = self.regions * OPERATION_BYTES as usize;
        (self.bytes.len() - self.regions * LENGTH_BYTES + headers) as u64
    }

    /// Number of regions.
    #[must_use]
    pub fn region_count(&self) -> usize {
        self.regions
    }

    /// The regions in order.
    pub fn regions(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let length = u32::from_be_bytes(*length) as usize;
            let (padded, after) = after.split_at_checked(length.next_multiple_of(4))?;
            rest = after;
            padded.get(..length)
        })
    }
}

/// Fills a vector, region by region.
#[derive(Debug)]
pub struct RegionWriter<'a> {
    vector: &'a mut LogVector,
}

impl<'a> RegionWriter<'a> {
    /// A writer into an emptied vector.
    pub(crate) fn new(vector: &'a mut LogVector) -> Self {
        Self { vector }
    }

    /// Adds a region with these bytes.
    pub fn region(&mut self, bytes: &[u8]) {
        self.region_of(&[bytes]);
    }

    /// Adds a region made of these pieces.
    pub fn region_of(&mut self, pieces: &[&[u8]]) {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let bytes = &mut self.vector.bytes;
        bytes.extend_from_slice(&(length as u32).to_be_bytes());
        for piece in pieces {
            bytes.extend_from_slice(piece);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.vector.regions += 1;
    }
}

#[cfg(test)]
mod tests;
