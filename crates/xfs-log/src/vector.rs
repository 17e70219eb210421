//! Log vectors: the bytes of an item as a checkpoint will write them.
//!
//! Owns: the regions of one item in one piece of memory, and how they are filled. Does **not** own
//! operation headers: what they say depends on the record that they come to lie in.
//!
//! ```text
//!  bytes    | region 0  | region 1       | region 2 |      each padded with zeros to four bytes
//!  lengths  [ 56,         176,             13 ]
//! ```

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
    lengths: Vec<u32>,
}

impl LogVector {
    /// Empties it, and makes room so that an item of this size is formatted without allocating.
    pub(crate) fn prepare(&mut self, size: VectorSize) {
        self.bytes.clear();
        self.lengths.clear();
        self.bytes.reserve(size.bytes + 3 * size.regions);
        self.lengths.reserve(size.regions);
    }

    /// Bytes in the log with an operation header for each region, where no record ends in between.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.lengths.len() as u64 * u64::from(OPERATION_BYTES)
    }

    /// Number of regions.
    #[must_use]
    pub fn region_count(&self) -> usize {
        self.lengths.len()
    }

    /// The regions in order.
    pub fn regions(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map_while(move |length| {
            let length = *length as usize;
            let (padded, after) = rest.split_at_checked(length.next_multiple_of(4))?;
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
        let start = self.vector.bytes.len();
        for piece in pieces {
            self.vector.bytes.extend_from_slice(piece);
        }
        let end = self.vector.bytes.len();
        self.vector.lengths.push((end - start) as u32);
        self.vector.bytes.resize(end.next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests;
