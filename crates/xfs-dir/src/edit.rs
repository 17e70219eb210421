//! Changes of the bytes of one metadata block in memory, with a record of the changed ranges.
//!
//! Owns: writing of big-endian fields, and the ranges to log. Does **not** own the meaning of the
//! bytes.
//!
//! The code that edits a block has decoded it first. An offset outside the block is therefore a
//! bug, not corruption.

use std::ops::Range;

/// The bytes of a metadata block, which a transaction changes, and the ranges that have changed so
/// far.
pub(crate) struct BlockEdit<'b> {
    bytes: &'b mut [u8],
    touched: TouchedRanges,
}

/// The changed byte ranges of a block, in the order of the changes. The ranges may touch. The
/// ranges of one edit must be short in total, because a transaction may log only a small part of a
/// large block.
#[derive(Default)]
pub(crate) struct TouchedRanges {
    /// The first ranges. Most edits change no more than `FEW` ranges, and then allocate no memory.
    first: [Range<u32>; FEW],
    count: usize,
    more: Vec<Range<u32>>,
}

const FEW: usize = 6;

impl TouchedRanges {
    #[inline]
    fn add(&mut self, start: usize, end: usize) {
        let (start, end) = (start as u32, end as u32);
        let last = match self.more.last_mut() {
            Some(last) => Some(last),
            None => self.count.checked_sub(1).and_then(|last| self.first.get_mut(last)),
        };
        if let Some(last) = last
            && start <= last.end
            && last.start <= end
        {
            (last.start, last.end) = (last.start.min(start), last.end.max(end));
            return;
        }
        match self.first.get_mut(self.count) {
            Some(next) => {
                (next.start, next.end) = (start, end);
                self.count += 1;
            }
            None => self.more.push(start..end),
        }
    }

    /// Returns the changed byte ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.first.iter().take(self.count).chain(&self.more);
        ranges.map(|range| range.start as usize..range.end as usize)
    }
}

impl<'b> BlockEdit<'b> {
    /// Creates an edit of the block in `bytes`; no range is recorded yet.
    pub(crate) fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, touched: TouchedRanges::default() }
    }

    /// Returns the current contents of the whole block.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the length of the block in bytes.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the changed ranges.
    pub(crate) fn into_touched(self) -> TouchedRanges {
        self.touched
    }

    #[inline]
    fn slice(&mut self, range: Range<usize>) -> &mut [u8] {
        self.touched.add(range.start, range.end);
        self.bytes.get_mut(range).expect("an edit lies inside its block")
    }

    /// Writes `source` at offset `at`.
    pub(crate) fn put(&mut self, at: usize, source: &[u8]) {
        self.slice(at..at + source.len()).copy_from_slice(source);
    }

    /// Writes `field` at offset `at`: one store, and not a call that copies bytes.
    #[inline]
    fn put_field<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        let place = self.slice(at..at + N).first_chunk_mut();
        *place.expect("the range has the length of the field") = field;
    }

    /// Writes one byte at offset `at`.
    #[inline]
    pub(crate) fn put_u8(&mut self, at: usize, value: u8) {
        self.put_field(at, [value]);
    }

    /// Writes a big-endian number of 16 bits at offset `at`.
    #[inline]
    pub(crate) fn put_u16(&mut self, at: usize, value: u16) {
        self.put_field(at, value.to_be_bytes());
    }

    /// Writes a big-endian number of 32 bits at offset `at`.
    #[inline]
    pub(crate) fn put_u32(&mut self, at: usize, value: u32) {
        self.put_field(at, value.to_be_bytes());
    }

    /// Writes a big-endian number of 64 bits at offset `at`.
    #[inline]
    pub(crate) fn put_u64(&mut self, at: usize, value: u64) {
        self.put_field(at, value.to_be_bytes());
    }

    /// Moves the bytes of the range `source` to offset `to`. Source and target may overlap.
    pub(crate) fn shift(&mut self, source: Range<usize>, to: usize) {
        if source.is_empty() || source.start == to {
            return;
        }
        let (start, end) = (source.start.min(to), source.end.max(to + source.len()));
        let touched = to..to + source.len();
        // The hull contains source and target; only the target has changed.
        let hull = self.bytes.get_mut(start..end).expect("an edit lies inside its block");
        hull.copy_within(source.start - start..source.end - start, to - start);
        self.slice(touched);
    }

    /// Fills a range with zeros.
    pub(crate) fn clear(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.slice(range).fill(0);
        }
    }

    /// Returns the big-endian number of 16 bits at offset `at`.
    #[inline]
    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16_at(self.bytes, at)
    }

    /// Returns the big-endian number of 32 bits at offset `at`.
    #[inline]
    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32_at(self.bytes, at)
    }
}

/// Returns the byte at offset `at` of a decoded block. Panics if the offset is outside the block.
#[inline]
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    *bytes.get(at).expect("the field lies inside its block")
}

/// Returns the big-endian number of 16 bits at offset `at` of a decoded block. Panics if the number
/// is not inside the block.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u16::from_be_bytes(*field.expect("the field lies inside its block"))
}

/// Returns the big-endian number of 32 bits at offset `at` of a decoded block. Panics if the number
/// is not inside the block.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_be_bytes(*field.expect("the field lies inside its block"))
}

#[cfg(test)]
mod tests;
