//! Hashing of disk addresses and other numbers that an image chooses.
//!
//! With an unseeded hash, an image could put all its numbers into one bucket. One multiplication by
//! a secret number, with the two halves of the product combined, is enough against this attack: an
//! attacker can observe nothing that depends on the hash, except time.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Builds hashers for numbers that an image chooses. Each new instance has a secret of its own.
#[derive(Clone, Debug)]
pub struct AddressHash {
    seed: u64,
    factor: u64,
}

impl AddressHash {
    /// Creates a hash function with a new random secret.
    #[must_use]
    pub fn new() -> Self {
        let random = RandomState::new();
        Self { seed: random.hash_one(0_u8), factor: random.hash_one(1_u8) | 1 }
    }
}

impl Default for AddressHash {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for AddressHash {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher { state: self.seed, factor: self.factor }
    }
}

/// The state of the computation of one hash value.
#[derive(Debug)]
pub struct AddressHasher {
    state: u64,
    factor: u64,
}

impl Hasher for AddressHasher {
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.factor);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
