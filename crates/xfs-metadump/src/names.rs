//! Obfuscated names: other bytes, with the same length and the same hash.
//!
//! Owns: the map from a name to its replacement. Does **not** own: where names lie.
//!
//! Directories and attribute forks are sorted by the hash of the names, so a replacement must keep
//! it. The hash is linear over exclusive or: `hash(name ^ pad) == hash(name) ^ hash(pad)`. So the
//! replacement is `name ^ pad` with a pad whose hash is 0.
//!
//! ```text
//! pad:  | pseudorandom, length - 5 bytes | five bytes that bring the hash to 0 |
//! ```
//!
//! # Invariants
//!
//! - **N1** The pad depends only on the key, the length and the hash of the name. So a name has one
//!   replacement everywhere: in its directory, in the parent pointer and in link targets. Two names
//!   with one pad have different replacements.
//! - **N2** A replacement holds neither a slash nor a NUL, and differs from the name.
//! - **N3** Names of fewer than [`SHORTEST`] bytes stay: too few other names have their hash.

use std::hash::{BuildHasher, RandomState};

use xfs_format::directory::{MAX_NAME, name_hash};

/// Length of the shortest name that is replaced, in bytes.
const SHORTEST: usize = 5;
/// Number of pads that are tried for a name. A pad does not suit a name if the result has a slash
/// or a NUL. Nearly every pad suits a short name, and about one in eight suits a name of 255 bytes.
const MOST_TRIES: u64 = 4096;
/// A name that stays as it is, because tools look for it and it reveals nothing.
const PUBLIC_NAME: &[u8] = b"lost+found";

/// Replaces names by other names with the same length and hash.
pub struct Obfuscator<B = RandomState> {
    key: B,
}

impl Obfuscator {
    /// Creates an obfuscator with a random key. The key is never stored.
    #[must_use]
    pub fn random() -> Self {
        Self { key: RandomState::new() }
    }
}

impl<B: BuildHasher> Obfuscator<B> {
    /// Creates an obfuscator with this key.
    pub const fn new(key: B) -> Self {
        Self { key }
    }

    /// Replaces a name in place by another one with the same length and hash (N1, N2, N3 of this
    /// module).
    pub fn replace(&self, name: &mut [u8]) {
        // N3: a short name has too few other names of its hash.
        if name.len() < SHORTEST || name == PUBLIC_NAME {
            return;
        }
        let hash = name_hash(name);
        let mut pad = vec![0; name.len()];
        for attempt in 0..MOST_TRIES {
            self.fill_pad(hash, attempt, &mut pad);
            let is_sound = |(byte, pad): (&u8, &u8)| !matches!(byte ^ pad, 0 | b'/');
            let changes = pad.iter().any(|byte| *byte != 0);
            // N2: the replacement differs, and holds neither a slash nor a NUL.
            if changes && name.iter().zip(&pad).all(is_sound) {
                name.iter_mut().zip(&pad).for_each(|(byte, pad)| *byte ^= pad);
                return;
            }
        }
        // Not reached by any name that was tried. A name must not stay as it was.
        name.fill(b'_');
    }

    /// Replaces each component of a link's target, and keeps the slashes. A component that is too
    /// long to be a name is replaced in parts, each as long as the longest name.
    pub fn replace_target(&self, target: &mut [u8]) {
        let parts = target.split_mut(|byte| *byte == b'/');
        parts.flat_map(|part| part.chunks_mut(MAX_NAME)).for_each(|part| self.replace(part));
    }

    /// Fills `pad`, the bytes that are combined with a name by XOR to obfuscate it. They depend on
    /// the length and the hash of the name, and on `attempt`, the number of the attempt. The hash
    /// of the pad itself is 0, so the hash of the name does not change.
    fn fill_pad(&self, hash: u32, attempt: u64, pad: &mut [u8]) {
        let length = pad.len();
        let word = |index: usize| self.key.hash_one((length, hash, attempt, index)).to_be_bytes();
        for (index, piece) in pad.chunks_mut(size_of::<u64>()).enumerate() {
            piece.iter_mut().zip(word(index)).for_each(|(byte, random)| *byte = random);
        }
        let [free, ..] = word(length);
        let (head, tail) = pad.split_at_mut(length - SHORTEST);
        tail.copy_from_slice(&closing_bytes(name_hash(head), free));
    }
}

/// Returns the five bytes that bring a hash from `before` to 0. The eight bits of `free` choose one
/// of the 256 solutions.
///
/// Each byte rotates the hash by 7 bits and is added to it. So the bytes reach the bits 28 to 35
/// (the upper half of the first byte wraps to the bits 0 to 3), 21 to 28, 14 to 21, 7 to 14 and 0
/// to 7. The highest bit of the last four bytes and the upper half of the first are free. Every
/// other bit belongs to one bit of the hash.
fn closing_bytes(before: u32, free: u8) -> [u8; SHORTEST] {
    let mut wanted = before.rotate_left(35 % 32);
    let first_high = u32::from(free >> 4);
    wanted ^= first_high;
    let mut bytes = [0; SHORTEST];
    let (first, rest) = bytes.split_at_mut(1);
    for (index, byte) in rest.iter_mut().rev().enumerate() {
        let high = u32::from(free >> index & 1) << 7;
        *byte = (wanted >> (7 * index) & 0x7f | high) as u8;
        wanted ^= high << (7 * index);
    }
    first.fill((first_high << 4 | wanted >> 28) as u8);
    bytes
}

#[cfg(test)]
mod tests;
