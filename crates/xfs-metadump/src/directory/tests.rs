//! Tests of blocks that are built here. Blocks of real volumes are cleaned in the tests of `dump`.

use xfs_format::directory::name_hash;

use super::{clean_block, clean_short_form};
use crate::cleaning::{Cleaned, Cleaning};
use crate::names::Obfuscator;

const NAME: &[u8] = b"a secret name";

/// Returns a block with three records: an entry named `NAME`, a free area full of old bytes, and
/// another entry.
fn data_block() -> Vec<u8> {
    let mut block = b"XDD3".to_vec();
    block.resize(64, 0);
    let entry = |block: &mut Vec<u8>, name: &[u8]| {
        let start = block.len();
        block.extend(131_u64.to_be_bytes());
        block.push(name.len() as u8);
        block.extend(name);
        block.push(1);
        let length = (9 + name.len() + 3).next_multiple_of(8);
        block.resize(start + length - 2, 0x55);
        block.extend((start as u16).to_be_bytes());
    };
    entry(&mut block, NAME);
    let free = block.len();
    block.extend([0xff, 0xff]);
    block.extend(((4096 - 32 - free) as u16).to_be_bytes());
    block.resize(4096 - 32 - 2, 0x77);
    block.extend((free as u16).to_be_bytes());
    entry(&mut block, b"an other name 12");
    assert_eq!(block.len(), 4096);
    xfs_format::crc::seal(&mut block, 4);
    block
}

/// Cleans a copy of the block with these options. Returns the result of the cleaning, and the copy.
fn cleaned(block: &[u8], names: Option<&Obfuscator>, zeroes_stale: bool) -> (Cleaned, Vec<u8>) {
    let mut copy = block.to_vec();
    let result =
        clean_block(&mut copy, Cleaning { names, zeroes_stale, has_metadata_directory: false });
    (result, copy)
}

fn has_right_checksum(block: &[u8], field: usize) -> bool {
    xfs_format::crc::stored(block, field) == xfs_format::crc::compute(block, field)
}

#[test]
fn names_of_a_block_are_replaced_and_stale_bytes_zeroed() {
    let (before, names) = (data_block(), Obfuscator::random());
    let (result, after) = cleaned(&before, Some(&names), true);
    assert_eq!(result, Cleaned::Whole);
    let name = after.get(73..73 + NAME.len()).unwrap();
    assert_ne!(name, NAME);
    assert_eq!(name_hash(name), name_hash(NAME));
    assert!(!after.contains(&0x77) || after.windows(8).all(|window| window != [0x77; 8]));
    assert!(after.windows(4).all(|window| window != [0x55; 4]));
    assert!(has_right_checksum(&after, 4));
}

#[test]
fn block_without_cleaning_stays() {
    let before = data_block();
    let (result, after) = cleaned(&before, None, false);
    assert_eq!((result, after), (Cleaned::Whole, before));
}

/// Checks M4 of the crate: a checksum that was wrong stays wrong.
#[test]
fn wrong_checksum_stays_wrong() {
    let mut before = data_block();
    before.get_mut(4..8).unwrap().fill(0);
    let (result, after) = cleaned(&before, Some(&Obfuscator::random()), true);
    assert_eq!(result, Cleaned::Whole);
    assert!(!has_right_checksum(&after, 4));
}

#[test]
fn damaged_record_hides_the_rest_of_the_block() {
    for (at, byte) in [(72, 0), (72, 255), (99, 0), (99, 3)] {
        let mut before = data_block();
        *before.get_mut(at).unwrap() = byte;
        let (_, after) = cleaned(&before, Some(&Obfuscator::random()), true);
        assert!(after.windows(5).all(|window| window != b"other"), "{at}");
        assert!(after.windows(6).all(|window| window != b"secret"), "{at}");
        let (_, kept) = cleaned(&before, None, false);
        assert_eq!(kept, before);
    }
}

/// Checks M3 of the crate: with obfuscation, a block that is not recognised is replaced by zeros.
/// Without obfuscation, it is kept.
#[test]
fn unknown_block_becomes_zeros_only_with_obfuscation() {
    let before = vec![0x41; 1024];
    let (result, after) = cleaned(&before, Some(&Obfuscator::random()), false);
    assert_eq!((result, after), (Cleaned::Partly, vec![0; 1024]));
    let (result, after) = cleaned(&before, None, true);
    assert_eq!((result, after), (Cleaned::Partly, before));
}

#[test]
fn short_form_is_cleaned_up_to_the_first_damage() {
    let names = Obfuscator::random();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    let mut fork = vec![2, 0, 0, 0, 0, 128];
    for name in [&b"first name"[..], b"second name"] {
        fork.push(name.len() as u8);
        fork.extend([0, 96]);
        fork.extend(name);
        fork.extend([1, 0, 0, 0, 131]);
    }
    let size = fork.len() as u64;
    fork.extend(b"stale name");
    let mut good = fork.clone();
    assert_eq!(clean_short_form(&mut good, size, cleaning), Cleaned::Whole);
    assert!(good.windows(4).all(|window| window != b"name"));
    assert!(good.ends_with(&[0; 10]));
    let mut damaged = fork.clone();
    *damaged.get_mut(6 + 3 + 10 + 5).unwrap() = 200;
    assert_eq!(clean_short_form(&mut damaged, size, cleaning), Cleaned::Partly);
    assert!(damaged.windows(4).all(|window| window != b"name"));
    assert_eq!(clean_short_form(&mut fork, 10_000, cleaning), Cleaned::Partly);
    assert!(fork.iter().all(|byte| *byte == 0));
}
