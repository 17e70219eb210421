//! The hash of a name. Hash indexes of directories and attribute leaves are sorted by it.

/// Computes the hash of the name of a directory entry or an extended attribute.
///
/// For each byte of the name, the hash is rotated by 7 bits and combined with the byte by exclusive
/// or. Processing four bytes in one step gives the same result, because a byte that is shifted by
/// at most 21 bits loses none of its bits.
#[doc(alias = "xfs_da_hashname")]
#[must_use]
pub fn name_hash(name: &[u8]) -> u32 {
    let (chunks, tail) = name.as_chunks::<4>();
    let hash = chunks.iter().fold(0_u32, |hash, [first, second, third, fourth]| {
        (u32::from(*first) << 21)
            ^ (u32::from(*second) << 14)
            ^ (u32::from(*third) << 7)
            ^ u32::from(*fourth)
            ^ hash.rotate_left(28)
    });
    tail.iter().fold(hash, |hash, byte| u32::from(*byte) ^ hash.rotate_left(7))
}

/// Computes the hash of a name on a volume that ignores case: the hash of the name in lower case.
#[doc(alias = "xfs_ascii_ci_hashname")]
#[must_use]
pub(super) fn folded_name_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, byte| u32::from(fold(*byte)) ^ hash.rotate_left(7))
}

/// Folds a byte as volumes that ignore case do: the upper-case letters of ISO 8859-1 become
/// lower-case letters.
#[doc(alias = "xfs_ascii_ci_xfrm")]
#[must_use]
pub(super) const fn fold(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => byte + 0x20,
        _ => byte,
    }
}
