//! The keyed hash function of facts. A balance compares two structures by adding up the hashes of
//! their facts.

use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher13;

/// The kind of a balance, which is a comparison of two structures by sums of hashes. The kind is
/// hashed with each fact, so that facts of different balances do not have the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Tag {
    /// A boundary of an extent (its first block, or the block after it), for the coverage balance.
    /// That balance compares the number of owners of each block.
    Coverage = 1,
    /// A boundary of an extent (its first block, or the block after it) with its owner, for the
    /// balance that compares owners with the reverse map.
    Owner,
    /// A record of free space, for the balance that compares the two free-space btrees.
    FreeSpace,
    /// A record of an inode chunk with a free inode, for the balance that compares the two inode
    /// btrees.
    FreeInodes,
    /// A link to an inode, with the type of the inode, for the balance that compares links with
    /// link counts.
    Link,
    /// A pair of a directory and its parent, for the balance that compares names with `..` entries.
    Directory,
    /// A name or a parent pointer, for the balance that compares the two.
    Parent,
    /// An entry of a directory's hash index.
    Index,
    /// An inode or a block of an owner, for the balance that compares dquots with inodes.
    Usage,
}

/// A keyed hash function with 128 bits of output (SipHash-1-3).
#[derive(Clone, Copy)]
pub(crate) struct Keyed(SipHasher13);

impl Keyed {
    /// Creates a hash function with a random key, which an image cannot know.
    pub(crate) fn random() -> Self {
        let half = || RandomState::new().hash_one(0_u64);
        Self::with_key(half(), half())
    }

    /// Creates a hash function with this key.
    pub(crate) fn with_key(first: u64, second: u64) -> Self {
        Self(SipHasher13::new_with_keys(first, second))
    }

    /// Hashes the numbers of a fact, for the balance `tag`.
    pub(crate) fn numbers<const N: usize>(&self, tag: Tag, numbers: [u64; N]) -> u128 {
        const { assert!(N <= MAX_NUMBERS, "the numbers fit the buffer") };
        let mut bytes = [0; (MAX_NUMBERS + 1) * 8];
        let words = std::iter::once(tag as u64).chain(numbers);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let used = bytes.get(..(N + 1) * 8).expect("the numbers fit the buffer");
        self.0.hash(used).as_u128()
    }

    /// Hashes the numbers and the name of a fact, for the balance `tag`.
    pub(crate) fn named(&self, tag: Tag, numbers: [u64; 3], name: &[u8]) -> u128 {
        let mut bytes = [0; 4 * 8 + MAX_NAME];
        let words = std::iter::once(tag as u64).chain(numbers);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let end = 4 * 8 + name.len();
        let place = bytes.get_mut(4 * 8..end).expect("a name has at most 255 bytes");
        place.copy_from_slice(name);
        self.0.hash(bytes.get(..end).expect("a name has at most 255 bytes")).as_u128()
    }
}

/// The largest number of integers that one fact consists of.
const MAX_NUMBERS: usize = 5;
/// The largest length of a name in bytes.
const MAX_NAME: usize = 255;
