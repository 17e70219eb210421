//! Digests of file contents that both sides of a comparison compute alike.

/// The unit in which contents are looked at for zeros.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Length and CRC-32C of some bytes: small enough to keep for every file of a volume. It finds
/// mistakes; it is no protection against an adversary.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    length: u64,
    crc: u32,
}

impl Digest {
    /// Takes in further bytes. How the bytes are cut into calls does not matter.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
    }
}

/// A digest of the sectors of a file that are not all zeros, with their offsets: files that read alike
/// have the same one, whatever of them is a hole.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SparseDigest(Digest);

impl SparseDigest {
    /// Takes in the bytes at an offset, which is a multiple of a sector's size. They come in the
    /// order of their offsets, and only the last of them ends within a sector.
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
