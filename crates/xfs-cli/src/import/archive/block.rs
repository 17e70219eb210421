//! The blocks of a tar archive: their size, and how a header and a block of zeros are recognised.
//!
//! Owns: what all readers of archives must know to recognise tar. Does **not** own: the fields of a
//! header ([`header`](crate::import::tar::header)). It imports no reader, so that all may import
//! it.

use std::ops::Range;

use super::numbers;

/// The size in bytes of a block of a tar archive. Headers and contents fill whole blocks.
pub(in crate::import) const BLOCK_BYTES: usize = 512;
/// The byte range of the checksum field in the header of a tar archive.
const CHECKSUM: Range<usize> = 148..156;

/// Returns whether all bytes are zeros, as in the blocks at the end of a tar archive.
pub(in crate::import) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns whether a block is a header: its checksum matches, as a sum of signed or unsigned bytes.
pub(in crate::import) fn is_header(block: &[u8]) -> bool {
    if block.len() != BLOCK_BYTES || is_zero(block) {
        return false;
    }
    let field = block.get(CHECKSUM).unwrap_or_default();
    let bytes = || {
        block.iter().enumerate().map(|(at, byte)| if CHECKSUM.contains(&at) { b' ' } else { *byte })
    };
    let unsigned: i128 = bytes().map(i128::from).sum();
    let signed: i128 = bytes().map(|byte| i128::from(byte.cast_signed())).sum();
    numbers::number(field).is_some_and(|found| found == unsigned || found == signed)
}
