//! Encodes log vectors: the bytes of an item as a checkpoint will write them.
//!
//! Owns: the encoding of an item's regions, and the memory in which a commit encodes them. Does
//! **not** own the memory in which the bytes stay until they are written ([`cil`](crate::cil)), or
//! their split over records ([`writer`](crate::writer)).
//!
//! ```text
//!  | operation header | region 0 | operation header | region 1 | ...
//! ```
//!
//! A region whose length is no multiple of four bytes is padded with zeros, which count as part of
//! it: readers find the next operation by the length alone. The item is in the log in this form,
//! except for the checkpoint's number in each header, which the writer adds. So whatever fits a
//! record is copied there as a whole.

use std::cell::Cell;

use xfs_format::log_record::{CLIENT_TRANSACTION, LogOperation, OPERATION_BYTES, OperationFlags};

use crate::item::LogItem;

/// The length of an operation's header in bytes.
const HEADER: usize = OPERATION_BYTES as usize;

/// The length in bytes of the header before each region of a log vector.
pub const REGION_HEADER_BYTES: usize = HEADER;

/// The offset in bytes, in an operation's header, of the length field.
const LENGTH_AT: usize = 4;

/// The greatest number of bytes of memory that a thread keeps from one commit to the next.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// Encodes the regions of an item into a log vector, one after another.
#[derive(Debug)]
pub struct RegionWriter<'a> {
    bytes: &'a mut Vec<u8>,
    regions: u32,
}

impl<'a> RegionWriter<'a> {
    /// Creates a writer that appends regions to `bytes`.
    pub(crate) const fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes, regions: 0 }
    }

    /// Appends a region with these bytes.
    #[inline]
    pub fn region(&mut self, bytes: &[u8]) {
        self.encoded(bytes.len(), |vector| vector.extend_from_slice(bytes));
    }

    /// Appends a region of `length` bytes, which `encode` appends to its argument.
    ///
    /// # Panics
    ///
    /// Panics if `encode` appends another number of bytes.
    #[inline]
    pub fn encoded(&mut self, length: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        let padded = length.next_multiple_of(4);
        self.bytes.reserve(HEADER + padded);
        self.bytes.extend_from_slice(&operation(padded).encode());
        let start = self.bytes.len();
        encode(self.bytes);
        assert!(self.bytes.len() == start + length, "an item appends the bytes that it announced");
        if padded != length {
            self.bytes.resize(start + padded, 0);
        }
        self.regions += 1;
    }

    pub(crate) const fn regions(&self) -> u32 {
        self.regions
    }
}

/// Overwrites the regions of an item's log vector, one after another. The regions keep their number
/// and their lengths.
#[derive(Debug)]
pub struct RegionUpdater<'a> {
    /// The regions that were not returned yet, with their headers.
    rest: &'a mut [u8],
}

impl<'a> RegionUpdater<'a> {
    pub(crate) const fn new(vector: &'a mut [u8]) -> Self {
        Self { rest: vector }
    }

    /// Returns `length` bytes of the regions that were not returned yet. `offset` counts from the
    /// first of their headers, each of which has [`REGION_HEADER_BYTES`] bytes.
    ///
    /// # Panics
    ///
    /// Panics if the bytes are not in the vector.
    #[inline]
    pub fn bytes_at(&mut self, offset: usize, length: usize) -> &mut [u8] {
        let bytes = self.rest.get_mut(offset..offset + length);
        bytes.expect("an updated item has kept its regions")
    }

    /// Returns the bytes of the next region, which is `length` bytes long.
    ///
    /// # Panics
    ///
    /// Panics if the vector has no further region, or one of another length.
    #[inline]
    pub fn next(&mut self, length: usize) -> &'a mut [u8] {
        let (header, rest) = std::mem::take(&mut self.rest)
            .split_first_chunk_mut::<HEADER>()
            .expect("an updated item has kept its regions");
        let padded = length.next_multiple_of(4);
        assert!(length_in(header) == padded, "an updated item has kept the lengths of its regions");
        let (region, rest) = rest.split_at_mut(padded);
        self.rest = rest;
        let (region, _) = region.split_at_mut(length);
        region
    }
}

/// Returns the length of a region, which its header holds.
#[inline]
fn length_in(header: &[u8; HEADER]) -> usize {
    let length = header.get(LENGTH_AT..).and_then(<[u8]>::first_chunk::<4>);
    u32::from_be_bytes(*length.expect("a header holds a length")) as usize
}

/// Returns the operation header of a region of `length` bytes.
#[inline]
const fn operation(length: usize) -> LogOperation {
    let (flags, client) = (OperationFlags::empty(), CLIENT_TRANSACTION);
    LogOperation { transaction: 0, length: length as u32, client, flags }
}

/// Returns the regions of an item as a commit would log them now, each as its bytes.
#[must_use]
pub fn regions_of(item: &dyn LogItem) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    item.format(&mut RegionWriter::new(&mut bytes));
    regions_in(&bytes)
}

fn regions_in(vector: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = vector;
    let mut regions = Vec::new();
    while let Some((region, next)) = first_region(rest) {
        regions.push(region.to_vec());
        rest = rest.get(next..).expect("a region ends in its vector");
    }
    regions
}

/// Returns the regions that a commit would log now for an item that it last logged with `regions`.
/// Returns `None` if the commit would format the item.
#[must_use]
pub fn updated_regions(item: &dyn LogItem, regions: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if !item.is_updatable() {
        return None;
    }
    let mut bytes = Vec::new();
    let mut writer = RegionWriter::new(&mut bytes);
    regions.iter().for_each(|region| writer.region(region));
    item.update(&mut RegionUpdater::new(&mut bytes));
    Some(regions_in(&bytes))
}

/// Returns the first region of a vector, and the offset in bytes of the next region. Returns `None`
/// at the end of the vector.
#[inline]
pub(crate) fn first_region(vector: &[u8]) -> Option<(&[u8], usize)> {
    let Some(header) = vector.first_chunk::<HEADER>() else {
        assert!(vector.is_empty(), "a vector ends in a header");
        return None;
    };
    let length = length_in(header);
    let region = vector.get(HEADER..HEADER + length).expect("a region ends in its vector");
    Some((region, HEADER + length))
}

/// The vector of one item: its encoded regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) regions: u32,
}

/// The log vectors that a commit builds for its items, before it locks its slot of the CIL (the
/// part of the open checkpoint that belongs to one CPU).
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    /// The vectors, in the order of the items.
    vectors: Vec<ScratchVector>,
    /// Whether the vector of some item is updated in place.
    has_updates: bool,
}

/// The vector that a commit has built for one item.
#[derive(Clone, Copy, Debug)]
enum ScratchVector {
    /// The vector ends at this offset in bytes and has this number of regions.
    Whole { end: usize, regions: u32 },
    /// The commit updates the vector in the memory of its slot.
    Updated,
}

thread_local! {
    static KEPT: Cell<Scratch> = const { Cell::new(Scratch::NONE) };
}

impl Scratch {
    const NONE: Self = Self { bytes: Vec::new(), vectors: Vec::new(), has_updates: false };

    /// Returns the memory that this thread kept from its last commit, or new memory if it kept
    /// none. A thread keeps no memory above `MAX_KEPT_BYTES`, and none while its thread-local
    /// variables are being destroyed.
    pub(crate) fn take() -> Self {
        KEPT.try_with(Cell::take).unwrap_or_default()
    }

    /// Keeps the memory for this thread's next commit.
    pub(crate) fn keep(mut self) {
        if self.bytes.capacity() <= MAX_KEPT_BYTES {
            self.clear();
            let _ = KEPT.try_with(|kept| kept.set(self));
        }
    }

    /// Drops all vectors, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.vectors.clear();
        self.has_updates = false;
    }

    /// Records that the commit updates the vector of the next item in place.
    #[inline]
    pub(crate) fn update(&mut self) {
        self.vectors.push(ScratchVector::Updated);
        self.has_updates = true;
    }

    /// Returns whether the commit updates some vector in place.
    pub(crate) const fn has_updates(&self) -> bool {
        self.has_updates
    }

    /// Appends the vector of an item. The committing thread holds the lock of the item.
    pub(crate) fn format(&mut self, item: &dyn LogItem) {
        let mut writer = RegionWriter::new(&mut self.bytes);
        item.format(&mut writer);
        let regions = writer.regions();
        self.vectors.push(ScratchVector::Whole { end: self.bytes.len(), regions });
    }

    /// Returns the total length of all vectors in bytes.
    pub(crate) const fn length_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of vectors.
    pub(crate) const fn count(&self) -> usize {
        self.vectors.len()
    }

    /// Returns the vectors, in the order of the items. A vector that is updated in place is `None`.
    pub(crate) fn vectors(&self) -> impl Iterator<Item = Option<Vector<'_>>> {
        let mut start = 0;
        self.vectors.iter().map(move |vector| match *vector {
            ScratchVector::Whole { end, regions } => {
                let bytes = self.bytes.get(start..end).expect("vectors end in the scratch");
                start = end;
                Some(Vector { bytes, regions })
            }
            ScratchVector::Updated => None,
        })
    }
}

#[cfg(test)]
mod tests;
