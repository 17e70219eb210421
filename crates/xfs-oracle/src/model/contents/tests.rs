use super::Bytes;
use crate::populate::Random;

const BLOCK: u64 = 16;

/// Performs the same operations on a plain vector and on `Bytes`, and checks that both then hold
/// the same bytes.
#[test]
fn blocks_behave_like_a_vector() {
    let mut random = Random::new(5);
    let (mut plain, mut bytes) = (Vec::new(), Bytes::new(BLOCK));
    for step in 0..4000 {
        let (offset, length) = (random.below(100), random.below(60));
        let aligned = (offset / BLOCK * BLOCK, length / BLOCK * BLOCK);
        match random.below(7) {
            0 => {
                plain.resize(offset as usize, 0);
                bytes.resize(offset);
            }
            1 | 2 => {
                let written = random.bytes(length as usize);
                if length > 0 {
                    plain.resize(plain.len().max((offset + length) as usize), 0);
                    plain[offset as usize..(offset + length) as usize].copy_from_slice(&written);
                }
                bytes.write(offset, &written);
            }
            3 => {
                plain.iter_mut().skip(offset as usize).take(length as usize).for_each(|b| *b = 0);
                bytes.zero(offset, length);
            }
            4 if aligned.0 + aligned.1 < plain.len() as u64 => {
                plain.drain(aligned.0 as usize..(aligned.0 + aligned.1) as usize);
                bytes.collapse(aligned.0, aligned.1);
            }
            5 if aligned.0 < plain.len() as u64 && plain.len() < 500 => {
                let at = aligned.0 as usize;
                plain.splice(at..at, vec![0; aligned.1 as usize]);
                bytes.insert(aligned.0, aligned.1);
            }
            6 if aligned.0 + aligned.1 < plain.len() as u64 => {
                let (from, to) = (aligned.0 as usize, random.below(5) * BLOCK);
                let part = bytes.part(aligned.0, aligned.1);
                let copied = plain[from..from + aligned.1 as usize].to_vec();
                let end = to as usize + copied.len();
                plain.resize(plain.len().max(end), 0);
                plain[to as usize..end].copy_from_slice(&copied);
                bytes.paste(to, &part);
            }
            _ => {}
        }
        assert_eq!(bytes.size(), plain.len() as u64, "step {step}");
        assert_eq!(bytes.read(0, u64::MAX), plain, "step {step}");
    }
}

#[test]
fn holes_and_zeros_have_the_same_digest() {
    let mut holes = Bytes::new(4096);
    holes.write(100_000, b"something");
    let mut zeros = Bytes::new(4096);
    zeros.write(0, &vec![0; 100_000]);
    assert_ne!(holes.digest(), zeros.digest());
    zeros.write(100_000, b"something");
    assert_eq!(holes.digest(), zeros.digest());
}
