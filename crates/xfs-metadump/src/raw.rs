//! Reads numbers, and zeros byte ranges, in blocks that are not decoded.

use std::ops::Range;

/// Returns the big-endian number in the two bytes at offset `at`, or `None` past the end.
pub(crate) fn number_16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|raw| u16::from_be_bytes(*raw))
}

/// Returns the big-endian number in the four bytes at offset `at`, or `None` past the end.
pub(crate) fn number_32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|raw| u32::from_be_bytes(*raw))
}

/// Overwrites a range with zeros. The part of the range past the end of the block is ignored.
pub(crate) fn zero(bytes: &mut [u8], range: Range<usize>) {
    let end = range.end.min(bytes.len());
    if let Some(range) = bytes.get_mut(range.start.min(end)..end) {
        range.fill(0);
    }
}

/// Overwrites `whole` with zeros, except the ranges in `kept`, which must be in ascending order.
pub(crate) fn zero_between(bytes: &mut [u8], whole: Range<usize>, kept: &[Range<usize>]) {
    let mut at = whole.start;
    for range in kept {
        zero(bytes, at..range.start.min(whole.end));
        at = at.max(range.end);
    }
    zero(bytes, at..whole.end);
}
