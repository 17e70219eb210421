//! Tests of hand-made short form attributes: valid ones, and ones with one invalid field each.

use std::vec;
use std::vec::Vec;

use super::{AttrShortForm, encode, encode_first};
use crate::addr::InodeNumber;
use crate::attr::{AttrCheck, AttrEntry, AttrValue, Namespace};
use crate::corruption::{Check, StructureAddress};
use crate::parent::Parent;

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(131));

/// Returns a short form with `user.a` = "xyz", `trusted.b` = "", and a parent pointer `name` to
/// inode 128.
fn form() -> Vec<u8> {
    let entry = |name: &[u8], value: &[u8], flags: u8| {
        [&[name.len() as u8, value.len() as u8, flags][..], name, value].concat()
    };
    let parent = [0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 7];
    let entries = [entry(b"a", b"xyz", 0), entry(b"b", b"", 2), entry(b"name", &parent, 8)];
    let entries = entries.concat();
    let size = entries.len() as u8 + 4;
    // A fork may be longer than its contents.
    [vec![0, size, 3, 0], entries, vec![0; 9]].concat()
}

fn check_refused(offset: usize, new: &[u8], expected: AttrCheck) {
    let mut bytes = form();
    bytes[offset..offset + new.len()].copy_from_slice(new);
    let found = AttrShortForm::decode(&bytes, PLACE).and_then(|form| form.verify()).unwrap_err();
    assert_eq!(*found.check(), Check::from(expected), "offset {offset}");
}

#[test]
fn entries_decode_in_order() {
    let bytes = form();
    let form = AttrShortForm::decode(&bytes, PLACE).unwrap();
    form.verify().unwrap();
    assert_eq!(form.count(), 3);
    let entries: Vec<AttrEntry<'_>> = form.entries().map(Result::unwrap).collect();
    let expected =
        AttrEntry { namespace: Namespace::User, name: b"a", value: AttrValue::Local(b"xyz") };
    assert_eq!(entries[0], expected);
    assert_eq!((entries[1].namespace, entries[1].value.length_bytes()), (Namespace::Trusted, 0));
    assert_eq!(Parent::decode(&entries[1], PLACE), Ok(None));
    let parent = Parent::decode(&entries[2], PLACE).unwrap().unwrap();
    assert_eq!((parent.inode, parent.generation), (InodeNumber(128), 7));
    assert_eq!(parent.name, b"name");
}

#[test]
fn encode_first_writes_the_bytes_of_encode() {
    let longest = [b'n'; 256];
    for (name, value) in
        [(&b"name"[..], &b"value"[..]), (&longest[..255], &longest[..12]), (b"n", b"")]
    {
        let namespace = Namespace::Parent;
        let value_of = AttrValue::Local(value);
        let expected = encode(&[AttrEntry { namespace, name, value: value_of }]).unwrap();
        let room = expected.len();
        assert_eq!(encode_first(namespace, name, value, room).as_deref(), Some(&*expected));
        assert_eq!(encode_first(namespace, name, value, room - 1), None, "the room is too small");
    }
    assert_eq!(encode_first(Namespace::Parent, &longest, b"", 4096), None);
    assert_eq!(encode_first(Namespace::Parent, b"n", &longest, 4096), None);
}

#[test]
fn find_returns_the_attribute_of_name_and_namespace() {
    let bytes = form();
    let form = AttrShortForm::decode(&bytes, PLACE).unwrap();
    for entry in form.entries().map(Result::unwrap) {
        assert_eq!(form.find(entry.namespace, entry.name), Ok(Some(entry)));
    }
    assert_eq!(form.find(Namespace::User, b"b"), Ok(None), "the attribute is in another namespace");
    assert_eq!(form.find(Namespace::User, b"c"), Ok(None));
}

#[test]
fn find_refuses_invalid_lengths_and_its_own_invalid_entry() {
    let found = |offset: usize, new: u8, name: &[u8]| {
        let mut bytes = form();
        bytes[offset] = new;
        let form = AttrShortForm::decode(&bytes, PLACE).unwrap();
        let found = form.find(Namespace::User, name);
        found.map(|entry| entry.is_some()).map_err(|corruption| corruption.check().clone())
    };
    let end = form().len() - 9 - 4;
    let outside = |offset| Err(AttrCheck::EntryEnd { offset, end }.into());
    assert_eq!(found(4, 255, b"a"), outside(0), "a name that is too long");
    assert_eq!(found(5, 255, b"b"), outside(0), "a value that is too long");
    assert_eq!(found(2, 4, b"c"), outside(end), "fewer entries than the count");
    let flags = AttrCheck::Flags { index: 0, flags: 1 };
    assert_eq!(found(6, 1, b"a"), Err(flags.into()));
    assert_eq!(found(6, 1, b"c"), Ok(false), "invalid flags of another attribute do not matter");
}

#[test]
fn invalid_forms_are_refused() {
    let end = form().len() - 9 - 4;
    let size = |size| AttrCheck::ShortFormSize { size, available: form().len() };
    check_refused(0, &[0xff, 0xff], size(0xffff));
    check_refused(0, &[0, 3], size(3));
    check_refused(2, &[2], AttrCheck::EntryEnd { offset: 11, end });
    check_refused(2, &[4], AttrCheck::EntryEnd { offset: end, end });
    check_refused(4, &[0], AttrCheck::NameEmpty { index: 0 });
    check_refused(5, &[255], AttrCheck::EntryEnd { offset: 0, end });
    check_refused(7, &[0], AttrCheck::NameBytes { index: 0 });
    for flags in [0x01, 0x06, 0x0a, 0x10, 0x80] {
        check_refused(6, &[flags], AttrCheck::Flags { index: 0, flags });
    }
}

#[test]
fn no_changed_byte_panics() {
    for length in 0..form().len() - 9 {
        assert!(AttrShortForm::decode(&form()[..length], PLACE).is_err(), "{length} bytes");
    }
    for offset in 0..form().len() {
        for new in 0..=255 {
            let mut bytes = form();
            bytes[offset] = new;
            if let Ok(form) = AttrShortForm::decode(&bytes, PLACE) {
                let _ = form.verify();
                assert!(form.entries().count() <= usize::from(form.count()));
            }
        }
    }
}
