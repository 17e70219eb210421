//! Tests of short forms with one damaged field: the records that can still be told apart.

use xfs_format::attr::short_form::encode;
use xfs_format::attr::{AttrEntry, AttrValue, Namespace};

use super::records;

/// The attributes of the undamaged short form that each test damages.
const ATTRIBUTES: [(Namespace, &[u8], &[u8]); 4] = [
    (Namespace::Parent, b"file", &[0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 7]),
    (Namespace::User, b"first", b"value of the first"),
    (Namespace::Security, b"selinux", b"system_u:object_r:etc_t:s0"),
    (Namespace::User, b"last", b""),
];

/// The offsets of the records, which follow the header of 4 bytes.
const STARTS: [usize; 4] = [4, 23, 49, 85];

fn form() -> Vec<u8> {
    let entries = ATTRIBUTES.map(|(namespace, name, value)| AttrEntry {
        namespace,
        name,
        value: AttrValue::Local(value),
    });
    let mut form = encode(&entries).expect("the attributes are short");
    // The fork is longer than the form.
    form.resize(128, 0);
    form
}

/// Sets one byte of the short form. Compares the names that are then found with `expected`, and the
/// number of unreadable records with `unreadable`.
#[track_caller]
fn check(offset: usize, byte: u8, expected: &[&[u8]], unreadable: u64) {
    let mut form = form();
    *form.get_mut(offset).expect("an offset of the form") = byte;
    let found = records(&form);
    let names: Vec<&[u8]> = found.records.iter().map(|record| record.name).collect();
    assert_eq!(names, expected, "offset {offset}, byte {byte}");
    assert_eq!(found.unreadable, unreadable, "offset {offset}, byte {byte}");
}

const NAMES: [&[u8]; 4] = [b"file", b"first", b"selinux", b"last"];

#[test]
fn flags_of_any_value_keep_all_records() {
    for (start, byte) in STARTS.into_iter().zip([0xff, 0x0c, 0x06, 0x80]) {
        check(start + 2, byte, &NAMES, 0);
    }
}

#[test]
fn damaged_count_or_size_keeps_all_records() {
    for byte in [0, 1, 3, 5, 255] {
        check(2, byte, &NAMES, 0);
    }
    for byte in [0, 4, 91, 93, 255] {
        check(1, byte, &NAMES, 0);
    }
    check(0, 0xff, &NAMES, 0);
}

/// Checks that only the record with the damaged length cannot be read.
#[test]
fn damaged_length_costs_one_record() {
    // A damaged length of the last value cannot be told from a damaged end of the form.
    for (index, start) in STARTS.into_iter().enumerate().take(3) {
        let mut others = NAMES.to_vec();
        others.remove(index);
        for field in [0, 1] {
            let stored = form().get(start + field).copied().expect("a record");
            for bit in 0..8 {
                check(start + field, stored ^ 1 << bit, &others, 1);
            }
        }
    }
}

#[test]
fn damaged_length_of_the_last_value_is_a_doubt() {
    let mut form = form();
    *form.get_mut(STARTS[3] + 1).expect("a record") = 1;
    let found = records(&form);
    assert_eq!((found.records.len(), found.unreadable), (4, 0));
    assert!(found.has_doubtful_end);
}

#[test]
fn destroyed_form_has_unreadable_records() {
    assert_eq!(records(&[]).unreadable, 1);
    assert_eq!(records(&[0; 40]).unreadable, 1);
    let noise = records(&[0xff; 40]);
    assert!(noise.records.is_empty() && noise.unreadable > 0, "{noise:?}");
}
