//! The digest that finds damage in plans and undo files.
//!
//! Owns: the hash function and its text form. The key is fixed: the digest detects accidents, not
//! forgery. A forged plan has no effect, because an apply makes the plan again and compares the
//! two. An undo file needs no protection from forgery, because it belongs to the owner of the
//! volume.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128, SipHasher13};

/// The length of a digest in bytes.
pub(crate) const DIGEST_BYTES: usize = 16;

/// The first half of the key: `ferroxfs` in ASCII.
const KEY: u64 = 0x6665_7272_6f78_6673;

/// A digest of 128 bits (SipHash-1-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub(crate) [u8; DIGEST_BYTES]);

impl Digest {
    /// Returns the digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut digester = Digester::default();
        digester.add(bytes);
        digester.finish()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Computes the digest of bytes that are added part by part.
pub(crate) struct Digester(SipHasher13);

impl Default for Digester {
    fn default() -> Self {
        Self(SipHasher13::new_with_keys(KEY, 1))
    }
}

impl Digester {
    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the digest of all added bytes.
    pub(crate) fn finish(&self) -> Digest {
        Digest(self.0.finish128().as_u128().to_be_bytes())
    }
}
