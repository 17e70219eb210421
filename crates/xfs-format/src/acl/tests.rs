//! Tests of the list that setfacl made in `testdata/inodes/text.inode`, and of invalid lists.

use std::vec::Vec;

use super::{
    AclCheck, AclEntry, AclTag, MAX_ACL_ENTRIES, decode, decode_posix_xattr, encode,
    encode_posix_xattr,
};
use crate::addr::InodeNumber;
use crate::corruption::Check;

const TEXT: &[u8] = include_bytes!("../../../../testdata/inodes/text.inode");

/// Returns the value of the attribute SGI_ACL_FILE in the golden inode. The value directly follows
/// the name.
fn golden_value() -> &'static [u8] {
    let name = TEXT.windows(12).position(|bytes| bytes == b"SGI_ACL_FILE").unwrap();
    &TEXT[name + 12..][..4 + 6 * 12]
}

fn entry(tag: AclTag, permissions: u16) -> AclEntry {
    AclEntry { tag, permissions }
}

#[test]
fn list_of_a_kernel_inode_decodes() {
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
fn posix_xattr_has_the_linux_form() {
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
fn invalid_lists_are_refused() {
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

#[test]
fn list_survives_both_forms() {
    let list = [
        AclEntry { tag: AclTag::Owner, permissions: 0o7 },
        AclEntry { tag: AclTag::User(1000), permissions: 0o6 },
        AclEntry { tag: AclTag::OwningGroup, permissions: 0o5 },
        AclEntry { tag: AclTag::Group(7), permissions: 0o4 },
        AclEntry { tag: AclTag::Mask, permissions: 0o7 },
        AclEntry { tag: AclTag::Other, permissions: 0 },
    ];
    let shown = encode_posix_xattr(&list);
    assert_eq!(decode_posix_xattr(&shown).as_deref(), Some(&list[..]));
    assert_eq!(decode(&encode(&list), InodeNumber(1)).unwrap(), list);
}

#[test]
fn invalid_posix_xattr_is_refused() {
    let good = encode_posix_xattr(&[AclEntry { tag: AclTag::Other, permissions: 0o7 }]);
    assert_eq!(decode_posix_xattr(&good[..good.len() - 1]), None, "cut short");
    assert_eq!(decode_posix_xattr(&[]), None);
    for (at, byte) in [(0, 3), (4, 3), (6, 8)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(decode_posix_xattr(&bad), None, "byte {at}");
    }
}
