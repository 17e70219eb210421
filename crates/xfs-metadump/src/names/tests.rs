use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use xfs_format::directory::name_hash;

use super::{Obfuscator, closing_bytes};

/// Returns an obfuscator with a fixed key.
fn fixed() -> Obfuscator<BuildHasherDefault<DefaultHasher>> {
    Obfuscator::new(BuildHasherDefault::default())
}

fn replaced(name: &[u8]) -> Vec<u8> {
    let mut other = name.to_vec();
    fixed().replace(&mut other);
    other
}

#[test]
fn closing_bytes_bring_every_hash_to_zero_in_256_ways() {
    for before in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX, 0x0f0f_1234] {
        let found: HashSet<_> = (0..=255).map(|free| closing_bytes(before, free)).collect();
        assert_eq!(found.len(), 256);
        for bytes in found {
            let end =
                bytes.iter().fold(before, |hash, byte| u32::from(*byte) ^ hash.rotate_left(7));
            assert_eq!(end, 0);
        }
    }
}

/// Checks N2 of `xfs_metadump::names`: a replacement has neither a slash nor a NUL, and differs
/// from the name.
#[test]
fn replacement_has_length_and_hash_and_no_slash_or_nul() {
    for length in 5..=255_usize {
        let name: Vec<u8> = (0..length).map(|at| b'a' + ((at * 7 + length) % 26) as u8).collect();
        let other = replaced(&name);
        assert_ne!(other, name);
        assert_eq!((other.len(), name_hash(&other)), (length, name_hash(&name)));
        assert!(!other.iter().any(|byte| matches!(byte, 0 | b'/')));
    }
}

/// Checks N3 of `xfs_metadump::names`: a name that is too short is not replaced.
#[test]
fn short_and_public_names_stay() {
    for name in [&b"a"[..], b".", b"..", b"abcd", b"lost+found"] {
        assert_eq!(replaced(name), name);
    }
}

/// Checks N1 of `xfs_metadump::names`: two names with the same length and hash have different
/// replacements.
#[test]
fn names_with_one_hash_keep_apart() {
    let hash = name_hash(b"hello");
    let mut names = Vec::new();
    for free in 0..=255 {
        let pad = closing_bytes(0, free);
        let name: Vec<u8> = b"hello".iter().zip(pad).map(|(byte, pad)| byte ^ pad).collect();
        assert_eq!(name_hash(&name), hash);
        if !name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            names.push(name);
        }
    }
    let found: HashMap<_, _> = names.iter().map(|name| (replaced(name), name)).collect();
    // A name takes the second pad only where the first gives a slash or a NUL.
    assert!(found.len() * 100 >= names.len() * 90, "{} of {}", found.len(), names.len());
}

/// Checks N1 of `xfs_metadump::names`: a link target uses the replacements of its names.
#[test]
fn target_keeps_slashes_and_uses_the_names_of_directories() {
    let mut target = b"/home/someone/../a/projects/".to_vec();
    fixed().replace_target(&mut target);
    let expected =
        [b"/home/", &replaced(b"someone")[..], b"/../a/", &replaced(b"projects"), b"/"].concat();
    assert_eq!(target, expected);
}

#[test]
fn part_of_a_target_that_is_not_a_name_is_replaced() {
    let mut target = vec![b'x'; 1024];
    fixed().replace_target(&mut target);
    assert!(target.windows(8).all(|window| window != b"xxxxxxxx" && window != b"________"));
    assert!(!target.iter().any(|byte| matches!(byte, 0 | b'/')));
}

#[test]
fn random_keys_give_different_names() {
    let (mut one, mut other) = (b"a rather long name".to_vec(), b"a rather long name".to_vec());
    Obfuscator::random().replace(&mut one);
    Obfuscator::random().replace(&mut other);
    assert_ne!(one, other);
}
