//! Tests of the names, hashes, cookies and types of directory entries.

use super::{Cookie, EntryType, INDEX_OFFSET, name_hash, name_is_sound};
use crate::inode::FileType;

/// Computes the hash of a name by the definition of the hash, one byte at a time. The tests compare
/// the faster function with it.
fn slow_hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| u32::from(*byte) ^ hash.rotate_left(7))
}

#[test]
fn name_hash_matches_its_definition() {
    assert_eq!(name_hash(b"."), 0x2e);
    assert_eq!(name_hash(b".."), 0x172e);
    let bytes: std::vec::Vec<u8> = (0..=255_u8).rev().collect();
    for length in 0..=bytes.len() {
        assert_eq!(name_hash(&bytes[..length]), slow_hash(&bytes[..length]), "{length} bytes");
    }
    // Two names with one hash: they differ in one bit of a byte, and in the rotated bit of the
    // next.
    assert_eq!(name_hash(b"AB"), name_hash(&[b'A' ^ 1, b'B' ^ 0x80]));
}

#[test]
fn name_is_sound_accepts_only_valid_names() {
    for name in [&b"a"[..], b"...", b".a", b"\xff\xfe", b" ", &[b'x'; 255]] {
        assert!(name_is_sound(name), "{name:?}");
    }
    for name in [&b"."[..], b"..", b"a/b", b"/", b"a\0", b"\0"] {
        assert!(!name_is_sound(name), "{name:?}");
    }
}

#[test]
fn name_is_sound_finds_bad_bytes_at_any_offset() {
    let mut name = std::vec![b'x'; 19];
    for place in 0..name.len() {
        for byte in 0..=u8::MAX {
            name[place] = byte;
            assert_eq!(name_is_sound(&name), !matches!(byte, 0 | b'/'), "{byte} at {place}");
        }
        name[place] = 0x80;
    }
}

#[test]
fn cookies_convert_to_offsets_and_back() {
    let first = Cookie::from_offset(64).unwrap();
    assert_eq!((first, first.offset(), first.after()), (Cookie(8), 64, Cookie(9)));
    assert_eq!(Cookie::from_offset(INDEX_OFFSET), None);
    let last = Cookie::from_offset(INDEX_OFFSET - 8).unwrap();
    assert_eq!((last.0, last.after()), (u32::MAX, last));
}

#[test]
fn entry_types_convert_to_bytes_and_back() {
    for byte in 0..=8 {
        assert_eq!(EntryType::from_disk(byte).map(EntryType::to_disk), Some(byte));
    }
    assert_eq!(EntryType::from_disk(9), None);
    assert_eq!(EntryType::Unknown.file_type(), None);
    assert_eq!(EntryType::Whiteout.file_type(), Some(FileType::CharDevice));
    assert_eq!(EntryType::Directory.file_type(), Some(FileType::Directory));
}
