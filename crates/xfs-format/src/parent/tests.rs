//! Tests of parent pointers with invalid values and names.

use super::{Parent, ParentCheck};
use crate::addr::{FileBlock, InodeNumber};
use crate::attr::{AttrEntry, AttrValue, Namespace};
use crate::corruption::{Check, StructureAddress};
use crate::directory::name_hash;

fn check_refused(name: &[u8], value: AttrValue<'_>, expected: ParentCheck) {
    let entry = AttrEntry { namespace: Namespace::Parent, name, value };
    let found = Parent::decode(&entry, StructureAddress::Inode(InodeNumber(131))).unwrap_err();
    assert_eq!(*found.check(), Check::from(expected));
}

#[test]
fn invalid_records_are_refused() {
    check_refused(b"a", AttrValue::Local(&[0; 11]), ParentCheck::Length { length: 11 });
    check_refused(b"a", AttrValue::Local(&[0; 13]), ParentCheck::Length { length: 13 });
    let remote = AttrValue::Remote { first_block: FileBlock(1), length_bytes: 12 };
    check_refused(b"a", remote, ParentCheck::Length { length: 12 });
    check_refused(b"a/b", AttrValue::Local(&[0; 12]), ParentCheck::Name { length: 3 });
    check_refused(b"..", AttrValue::Local(&[0; 12]), ParentCheck::Name { length: 2 });
}

#[test]
fn hash_combines_name_and_directory() {
    let parent = Parent { inode: InodeNumber(0x12_0000_0080), generation: 7, name: b"name" };
    assert_eq!(parent.hash(), name_hash(b"name") ^ 0x12 ^ 0x80);
}
