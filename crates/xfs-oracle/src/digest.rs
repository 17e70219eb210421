//! Digests of file contents, computed in the same way for each of two compared volumes.

/// The unit in bytes in which contents are checked for zeros.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Length and CRC-32C of a byte string, small enough to keep for every file of a volume. It detects
/// mistakes but not deliberate forgery.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    length: u64,
    crc: u32,
}

impl Digest {
    /// Adds further bytes. Two calls give the same digest as one call with all bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
    }
}

/// A digest of the sectors of a file that are not zero, with their offsets. Files with the same
/// bytes have the same digest, wherever their holes are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SparseDigest(Digest);

impl SparseDigest {
    /// Adds the bytes at an offset, which must be a multiple of the sector size. Calls must be in
    /// the order of their offsets, and only the last one may end within a sector.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        for (sector, at) in bytes.chunks(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES)) {
            if sector.iter().any(|byte| *byte != 0) {
                let mut padded = [0; SECTOR_BYTES];
                padded.iter_mut().zip(sector).for_each(|(to, from)| *to = *from);
                self.0.update(&at.to_be_bytes());
                self.0.update(&padded);
            }
        }
    }
}

#[cfg(test)]
mod tests;
