//! A digest of file contents that both sides of a comparison compute alike.

/// Length and CRC-32C of some bytes: small enough to keep for every file of a volume. It finds
/// mistakes; it is no protection against an adversary.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
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

#[cfg(test)]
mod tests;
