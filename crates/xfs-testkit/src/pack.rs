//! A compact form of images for the repository: the sectors that are not zero, compressed.
//!
//! ```text
//! deflate( sectors of the image, 8 bytes | first sector, 8 bytes | count, 8 bytes | sectors | … )
//! ```
//!
//! Integers are big-endian. `unpack` trusts its input, which comes from the repository.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;

/// Size of a sector in bytes. The compact form leaves out sectors that hold only zeros.
const SECTOR: usize = 512;

/// Compression level of deflate: the one that gives the smallest output.
const LEVEL: u8 = 10;

/// Packs an image into the compact form.
#[must_use]
pub fn pack(image: &[u8]) -> Vec<u8> {
    let sectors: Vec<&[u8]> = image.chunks(SECTOR).collect();
    let mut plain = (sectors.len() as u64).to_be_bytes().to_vec();
    let is_zero = |sector: &&[u8]| sector.iter().all(|byte| *byte == 0);
    let mut first = 0;
    for run in sectors.chunk_by(|left, right| is_zero(left) == is_zero(right)) {
        if !run.first().is_some_and(is_zero) {
            plain.extend((first as u64).to_be_bytes());
            plain.extend((run.len() as u64).to_be_bytes());
            plain.extend(run.iter().copied().flatten());
        }
        first += run.len();
    }
    compress_to_vec(&plain, LEVEL)
}

/// Unpacks an image. Returns `None` for bytes that [`pack`] did not make.
#[must_use]
pub fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let plain = decompress_to_vec(packed).ok()?;
    let (count, mut rest) = split_number(&plain)?;
    let mut image = vec![0; usize::try_from(count).ok()?.checked_mul(SECTOR)?];
    while !rest.is_empty() {
        let (first, after) = split_number(rest)?;
        let (count, after) = split_number(after)?;
        let length = usize::try_from(count).ok()?.checked_mul(SECTOR)?;
        let start = usize::try_from(first).ok()?.checked_mul(SECTOR)?;
        let (run, after) = after.split_at_checked(length)?;
        image.get_mut(start..start.checked_add(length)?)?.copy_from_slice(run);
        rest = after;
    }
    Some(image)
}

fn split_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}
