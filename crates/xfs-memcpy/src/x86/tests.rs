extern crate std;

use std::vec::Vec;

use super::{compare, copy, fill};

/// Lengths around each border between two ways, and all short ones.
fn lengths() -> impl Iterator<Item = usize> {
    let borders = [192, 256, 320, 1024, 2048, 4096].into_iter();
    (0..=300).chain(borders.flat_map(|border| border - 3..border + 4))
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// Checks I1 and I2 of `x86`: ranges of every length, before and after each other and overlapping
/// by every short distance, are copied as the standard library copies them, and no other byte is
/// written.
#[test]
fn copies_are_those_of_the_standard_library() {
    const MARGIN: usize = 80;
    for length in lengths() {
        let bytes = sample(2 * MARGIN + length);
        for distance in (0..=33).chain([63, 64, 65, 79, 80]) {
            for (from, to) in [(MARGIN, MARGIN - distance), (MARGIN, MARGIN + distance)] {
                let (mut ours, mut theirs) = (bytes.clone(), bytes.clone());
                let start = ours.as_mut_ptr();
                // SAFETY: Both ranges end at least a margin before the end of the vector.
                unsafe { copy(start.add(to), start.add(from), length) };
                theirs.copy_within(from..from + length, to);
                assert!(ours == theirs, "{length} bytes from {from} to {to}");
            }
        }
    }
}

#[test]
fn ranges_apart_are_copied_whatever_their_alignments() {
    for length in lengths() {
        let source = sample(length + 17);
        for from in 0..17 {
            let mut target = std::vec![0xEE; length + 17];
            // SAFETY: The source has 17 bytes more than the length, and the target too.
            unsafe { copy(target.as_mut_ptr().add(16 - from), source.as_ptr().add(from), length) };
            let mut expected = std::vec![0xEE; length + 17];
            expected[16 - from..16 - from + length].copy_from_slice(&source[from..from + length]);
            assert!(target == expected, "{length} bytes from {from} on");
        }
    }
}

#[test]
fn fills_write_their_range_and_no_more() {
    for length in lengths() {
        for start in 0..17 {
            let mut bytes = std::vec![0xEE; length + 32];
            // SAFETY: The range ends before the vector.
            unsafe { fill(bytes.as_mut_ptr().add(start), 0x5A, length) };
            let mut expected = std::vec![0xEE; length + 32];
            expected[start..start + length].fill(0x5A);
            assert!(bytes == expected, "{length} bytes from {start} on");
        }
    }
}

/// The sign of a comparison is that of the first byte that differs, wherever it is. Bytes are
/// compared without a sign, and those after the range do not matter.
#[test]
fn comparisons_find_the_first_difference() {
    for length in lengths().filter(|length| *length < 400) {
        let one = sample(length + 1);
        let mut other = one.clone();
        other[length] ^= 0xFF;
        // SAFETY: Both vectors have at least as many bytes.
        let ours = |other: &[u8]| unsafe { compare(one.as_ptr(), other.as_ptr(), length) };
        assert_eq!(ours(&other), 0, "{length} equal bytes");
        for at in 0..length {
            let before = other[at];
            for value in [before ^ 0x80, before ^ 1] {
                other[at] = value;
                if at + 1 < length {
                    other[length - 1] ^= 0x55;
                }
                let expected = one[..length].cmp(&other[..length]) as i32;
                assert_eq!(ours(&other).signum(), expected, "{length} bytes, difference at {at}");
                if at + 1 < length {
                    other[length - 1] ^= 0x55;
                }
            }
            other[at] = before;
        }
    }
}
