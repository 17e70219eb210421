//! Tests of directories in short form with one damaged field: the names that can still be read.

use xfs_format::directory::short_form::encode;
use xfs_format::directory::{Cookie, Entry, EntryType};
use xfs_format::{Geometry, InodeNumber};
use xfs_testkit::golden;

use super::entries;

const NAMES: [&[u8]; 4] = [b"a", b"second", b"the-third-name", b"last"];
/// The offsets of the entries. The header has 6 bytes.
const STARTS: [usize; 4] = [6, 15, 29, 51];

/// Returns a data fork that holds a directory in short form with the entries `NAMES`, and the
/// length of the directory in bytes.
fn form() -> (Vec<u8>, u64) {
    let mut offset = 96;
    let all = NAMES.map(|name| {
        let cookie = Cookie::from_offset(offset).expect("a low offset");
        offset += 32;
        Entry { name, inode: InodeNumber(131), entry_type: EntryType::Regular, cookie }
    });
    let mut bytes = encode(InodeNumber(128), all.into_iter());
    let size = bytes.len() as u64;
    bytes.resize(200, 0);
    (bytes, size)
}

fn geometry() -> Geometry {
    golden().geometry()
}

/// Sets a byte of the directory `form()`, and compares the names that are then read with
/// `expected`. The bytes of the directory are followed by zeros.
#[track_caller]
fn check(offset: usize, byte: u8, expected: &[&[u8]]) {
    let (mut fork, size) = form();
    *fork.get_mut(offset).expect("an offset of the form") = byte;
    let found = entries(&fork, size, &geometry());
    let names: Vec<&[u8]> = found.entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names, expected, "offset {offset}, byte {byte}");
    assert_eq!(found.is_missing_any, expected.len() < NAMES.len(), "offset {offset}, byte {byte}");
}

#[test]
fn position_or_type_of_any_value_keeps_all_names() {
    for (start, name) in STARTS.into_iter().zip(NAMES) {
        for byte in [0, 7, 0xff] {
            check(start + 1, byte, &NAMES);
            check(start + 2, byte, &NAMES);
        }
        check(start + 3 + name.len(), 99, &NAMES);
    }
}

#[test]
fn damaged_counts_keep_all_names() {
    for byte in [0, 1, 3, 5, 255] {
        check(0, byte, &NAMES);
    }
    check(1, 1, &NAMES);
}

#[test]
fn damaged_size_keeps_all_names() {
    let (fork, size) = form();
    for size in [0, size - 1, size + 1, 1 << 40] {
        let found = entries(&fork, size, &geometry());
        assert_eq!(found.entries.len(), NAMES.len(), "size {size}");
    }
}

/// Checks that an entry whose name has a slash, whose inode is impossible or whose length is wrong
/// is lost, and that no other entry is lost.
#[test]
fn damaged_name_inode_or_length_costs_one_name() {
    for (index, start) in STARTS.into_iter().enumerate() {
        let mut others = NAMES.to_vec();
        let name = others.remove(index);
        check(start + 3, b'/', &others);
        check(start + 4 + name.len(), 0xff, &others);
        // The length of the last name cannot be told from the size of the directory.
        if index < 3 {
            check(start, 40, &others);
        }
    }
}
