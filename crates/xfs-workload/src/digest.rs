//! A digest of the files after a step. It depends on the files, not on the order in which they are
//! added.

use std::fmt;

/// A sum of hashes of files, each over the path and the attributes that workloads change. Inode
/// numbers are left out, because they differ between volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u64,
    files: u64,
}

impl Digest {
    /// Adds one file. `place` has the components of its path; the other arguments are its
    /// attributes.
    pub fn add(&mut self, place: &[&[u8]], mode: u32, nlink: u64, size: u64) {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        let mut hash = BASIS;
        for part in place {
            hash = feed(feed(hash, part), b"/");
        }
        for number in [u64::from(mode), nlink, size] {
            hash = feed(hash, &number.to_be_bytes());
        }
        self.sum = self.sum.wrapping_add(hash);
        self.files += 1;
    }

    /// Adds all files of another digest, for example that of another thread.
    pub fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.files += other.files;
    }

    /// Returns the number of files in the digest.
    #[must_use]
    pub const fn files(self) -> u64 {
        self.files
    }
}

/// Continues an FNV-1a hash: returns the hash of the bytes hashed so far (`hash`), followed by
/// `bytes`.
fn feed(hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.sum)
    }
}

#[cfg(test)]
mod tests;
