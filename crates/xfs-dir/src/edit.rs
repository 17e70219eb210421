//! Changing the bytes of one metadata block in place, and which of them changed.
//!
//! Owns: writing of big-endian fields, and the ranges that the log has to hear of. Does **not** own:
//! what the bytes mean.
//!
//! Whoever edits has decoded the block first: a place that lies outside of it is our mistake, not
//! the disk's.

use std::ops::Range;

/// The bytes of a block that its transaction may change.
pub(crate) struct BlockEdit<'b> {
    bytes: &'b mut [u8],
    touched: TouchedRanges,
}

/// What of a block has changed: ranges that may touch, in the order of the changes. No more than that: what
/// a transaction may log is little beside a large block.
#[derive(Default)]
pub(crate) struct TouchedRanges {
    /// Most edits touch no more places: they need no memory for that.
    first: [Range<u32>; FEW],
    count: usize,
    more: Vec<Range<u32>>,
}

const FEW: usize = 6;

impl TouchedRanges {
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

    /// The ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.first.iter().take(self.count).chain(&self.more);
        ranges.map(|range| range.start as usize..range.end as usize)
    }
}

impl<'b> BlockEdit<'b> {
    /// The block in `bytes`, nothing of which has changed.
    pub(crate) fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, touched: TouchedRanges::default() }
    }

    /// The whole block as it is now.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its length.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// What has changed.
    pub(crate) fn into_touched(self) -> TouchedRanges {
        self.touched
    }

    fn slice(&mut self, range: Range<usize>) -> &mut [u8] {
        self.touched.add(range.start, range.end);
        self.bytes.get_mut(range).expect("an edit lies inside its block")
    }

    /// Puts `source` at `at`.
    pub(crate) fn put(&mut self, at: usize, source: &[u8]) {
        self.slice(at..at + source.len()).copy_from_slice(source);
    }

    /// Puts a byte.
    pub(crate) fn put_u8(&mut self, at: usize, value: u8) {
        self.put(at, &[value]);
    }

    /// Puts 16 bits.
    pub(crate) fn put_u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_be_bytes());
    }

    /// Puts 32 bits.
    pub(crate) fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_be_bytes());
    }

    /// Puts 64 bits.
    pub(crate) fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_be_bytes());
    }

    /// Moves the bytes of `source` to `to`; the two may overlap.
    pub(crate) fn shift(&mut self, source: Range<usize>, to: usize) {
        if source.is_empty() || source.start == to {
            return;
        }
        let (start, end) = (source.start.min(to), source.end.max(to + source.len()));
        let touched = to..to + source.len();
        // The hull holds source and target; only the target has changed.
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

    /// 16 bits of the block.
    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16_at(self.bytes, at)
    }

    /// 32 bits of the block.
    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32_at(self.bytes, at)
    }
}

/// 16 bits of a block that was decoded, so that they lie inside of it.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u16::from_be_bytes(*field.expect("the field lies inside its block"))
}

/// 32 bits of a block that was decoded, so that they lie inside of it.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_be_bytes(*field.expect("the field lies inside its block"))
}

#[cfg(test)]
mod tests;
