//! The list that setfacl made in `testdata/inodes/text.inode`, and lists that do not hold together.

use std::vec::Vec;

use super::{AclCheck, AclEntry, AclTag, MAX_ACL_ENTRIES, decode, encode_posix_xattr};
use crate::addr::InodeNumber;
use crate::corruption::Check;

const TEXT: &[u8] = include_bytes!("../../../../testdata/inodes/text.inode");

/// The value of the attribute SGI_ACL_FILE in the inode: its bytes follow the name.
fn golden_value() -> &'static [u8] {
    let name = TEXT.windows(12).position(|bytes| bytes == b"SGI_ACL_FILE").unwrap();
    &TEXT[name + 12..][..4 + 6 * 12]
}

fn entry(tag: AclTag, permissions: u16) -> AclEntry {
    AclEntry { tag, permissions }
}

#[test]
fn golden_list() {
    let expected = [
        entry(AclTag::Owner, 6),
        entry(AclTag::User(1000), 7),
        entry(AclTag::OwningGroup, 4),
        entry(AclTag::Group(5), 4),
        entry(AclTag::Mask, 7),
        entry(AclTag::Other, 4),
    ];
    assert_eq!(decode(golden_value(), InodeNumber(68)).unwrap(), expected);
}

#[test]
fn the_form_that_linux_shows() {
    let entries = [entry(AclTag::Owner, 6), entry(AclTag::User(1000), 7)];
    let expected = [
        [2, 0, 0, 0].as_slice(),
        &[1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff],
        &[2, 0, 7, 0, 0xe8, 3, 0, 0],
    ];
    assert_eq!(encode_posix_xattr(&entries), expected.concat());
}

fn check_refused(value: &[u8], expected: impl Into<Check>) {
    let found = decode(value, InodeNumber(1)).unwrap_err();
    assert_eq!(*found.check(), expected.into());
}

#[test]
fn lists_that_do_not_hold_together() {
    let count = |count, bytes| AclCheck::Count { count, bytes };
    check_refused(&[0, 0, 0, 1], count(1, 4));
    check_refused(&[0, 0, 0, 0, 0], count(0, 5));
    check_refused(&[0xff; 4], count(u32::MAX, 4));
    check_refused(&[0; 3], Check::Truncated { available: 3, needed: 4 });
    let one = |tag: u8, permissions: u8| -> Vec<u8> {
        [[0, 0, 0, 1], [0, 0, 0, tag], [0; 4], [0, permissions, 0, 0]].concat()
    };
    check_refused(&one(3, 7), AclCheck::Tag { tag: 3 });
    check_refused(&one(1, 8), AclCheck::Permissions { permissions: 8 });
    let most = MAX_ACL_ENTRIES + 1;
    let mut value = most.to_be_bytes().to_vec();
    value.resize(4 + 12 * most as usize, 0);
    check_refused(&value, count(most, value.len()));
    assert_eq!(decode(&[0; 4], InodeNumber(1)).unwrap(), []);
}
