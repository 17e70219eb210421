//! Numbers and ranges of raw blocks.

use std::ops::Range;

/// Returns the number of two bytes at offset `at`.
pub(crate) fn number_16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|raw| u16::from_be_bytes(*raw))
}

/// Returns the number of four bytes at offset `at`.
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

/// Overwrites with zeros what lies between the `kept` ranges. They are in ascending order.
pub(crate) fn zero_between(bytes: &mut [u8], whole: Range<usize>, kept: &[Range<usize>]) {
    let mut at = whole.start;
    for range in kept {
        zero(bytes, at..range.start.min(whole.end));
        at = at.max(range.end);
    }
    zero(bytes, at..whole.end);
}
