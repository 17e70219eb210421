//! Checksums: CRC-32C over a structure with its checksum field taken as zero.
//!
//! This is one of the two modules that read little-endian numbers from the disk; the other is
//! `log_item`. XFS stores checksums in that order, although all other fields are big-endian.
#![allow(clippy::little_endian_bytes, reason = "checksums are little-endian on disk")]

/// Length of a stored checksum in bytes.
pub const CRC_BYTES: usize = 4;

/// The length in bytes of most inodes and sectors. The checksum of a structure of this length is
/// computed in one call, on a copy whose checksum field is zero. Without a copy, three calls are
/// needed (before, in and after the field), which take twice as long.
const COPIED_BYTES: usize = 512;

/// A copy of a structure. It is aligned to words, because summing single bytes is slow.
#[repr(align(8))]
struct AlignedCopy([u8; COPIED_BYTES]);

/// Computes the checksum of `bytes` with the four bytes at `field_offset` taken as zero.
///
/// Returns `None` if the checksum field does not lie inside `bytes`.
#[must_use]
pub fn compute(bytes: &[u8], field_offset: usize) -> Option<u32> {
    let field_end = field_offset.checked_add(CRC_BYTES)?;
    if let Ok(bytes) = <&[u8; COPIED_BYTES]>::try_from(bytes) {
        let mut copy = AlignedCopy(*bytes);
        copy.0.get_mut(field_offset..field_end)?.fill(0);
        return Some(crc32c::crc32c(&copy.0));
    }
    let before = bytes.get(..field_offset)?;
    let after = bytes.get(field_end..)?;
    let crc = crc32c::crc32c(before);
    let crc = crc32c::crc32c_append(crc, &[0; CRC_BYTES]);
    Some(crc32c::crc32c_append(crc, after))
}

/// Returns the checksum of two runs of bytes: `crc` is the checksum of the first run, and `bytes`
/// are the second run.
#[must_use]
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Returns the checksum stored at `field_offset`, or `None` if the field does not lie inside
/// `bytes`.
#[must_use]
pub fn stored(bytes: &[u8], field_offset: usize) -> Option<u32> {
    let field = bytes.get(field_offset..field_offset.checked_add(CRC_BYTES)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

/// Stores a checksum in its field.
pub fn store(field: &mut [u8; CRC_BYTES], crc: u32) {
    *field = crc.to_le_bytes();
}

/// Computes the checksum of `bytes` and stores it at `field_offset`.
///
/// # Panics
///
/// Panics if the field does not lie inside `bytes`: a mistake of the caller.
pub fn seal(bytes: &mut [u8], field_offset: usize) {
    let crc = compute(bytes, field_offset);
    let field = bytes.get_mut(field_offset..field_offset + CRC_BYTES);
    match (crc, field) {
        (Some(crc), Some(field)) => field.copy_from_slice(&crc.to_le_bytes()),
        _ => unreachable!("the checksum field lies inside the structure"),
    }
}
