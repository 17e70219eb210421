//! Decodes numbers in the headers and tables of images. A number is 0 if some of its bytes are
//! missing.

/// Returns `length` bytes from byte `at` on, or an empty slice if `bytes` ends before that.
pub(crate) fn part(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    bytes.get(at..).and_then(|rest| rest.get(..length)).unwrap_or_default()
}

/// Decodes a big-endian number of up to 8 bytes at byte `at`.
pub(crate) fn big(bytes: &[u8], at: usize, length: usize) -> u64 {
    part(bytes, at, length).iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// Decodes a little-endian number of up to 8 bytes at byte `at`.
pub(crate) fn little(bytes: &[u8], at: usize, length: usize) -> u64 {
    part(bytes, at, length).iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
