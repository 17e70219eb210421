//! The hash by which names are sorted in indexes.

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
