//! Tests of hand-made short form directories: valid ones, and ones with one invalid field each.

use std::vec::Vec;

use super::ShortForm;
use crate::addr::{DiskAddr, InodeNumber};
use crate::corruption::{Check, Corruption, StructureAddress};
use crate::directory::{Cookie, DirectoryCheck, DirectoryForm, EntryType};
use crate::geometry::Geometry;
use crate::superblock::Superblock;

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(128));

fn geometry() -> Geometry {
    let sector = include_bytes!("../../../../../testdata/inodes/new.superblock");
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

/// Returns a directory with the entries `a` (a file) and `bc` (a directory) and parent 128.
fn form() -> Vec<u8> {
    let entry = |name: &[u8], offset: u16, kind: u8, inode: u32| {
        let head = [&[name.len() as u8][..], &offset.to_be_bytes(), name, &[kind]].concat();
        [head, inode.to_be_bytes().to_vec()].concat()
    };
    let header = [2, 0, 0, 0, 0, 128].to_vec();
    [header, entry(b"a", 96, 1, 131), entry(b"bc", 112, 2, 132)].concat()
}

fn verify(bytes: &[u8]) -> Result<(), Corruption> {
    ShortForm::decode(bytes, PLACE, DirectoryForm::V5)?.verify(&geometry())
}

fn check_refused(offset: usize, new: &[u8], expected: DirectoryCheck) {
    let mut bytes = form();
    bytes[offset..offset + new.len()].copy_from_slice(new);
    let found = verify(&bytes).unwrap_err();
    assert_eq!(*found.check(), Check::from(expected), "offset {offset}");
    assert_eq!(found.address(), PLACE);
}

#[test]
fn entries_decode_in_order() {
    let bytes = form();
    let form = ShortForm::decode(&bytes, PLACE, DirectoryForm::V5).unwrap();
    form.verify(&geometry()).unwrap();
    assert_eq!((form.parent(), form.count()), (InodeNumber(128), 2));
    let entries: Vec<_> = form.entries().map(Result::unwrap).collect();
    let shown = |index: usize| {
        let entry = entries[index];
        (entry.name, entry.inode.0, entry.entry_type, entry.cookie)
    };
    assert_eq!(shown(0), (&b"a"[..], 131, EntryType::Regular, Cookie(12)));
    assert_eq!(shown(1), (&b"bc"[..], 132, EntryType::Directory, Cookie(14)));
    assert_eq!(form.find(b"bc").unwrap(), Some(entries[1]));
    assert_eq!(form.find(b"b").unwrap(), None);
    assert_eq!((ShortForm::DOT_COOKIE, ShortForm::PARENT_COOKIE), (Cookie(8), Cookie(10)));
}

#[test]
fn wide_inode_numbers_have_56_bits() {
    let wide = |count: u8, top: u8, inode: u64| {
        let mut bytes = [1, count].to_vec();
        bytes.extend(128_u64.to_be_bytes());
        bytes.extend([1, 0, 96, b'w', 1, top]);
        bytes.extend(&inode.to_be_bytes()[1..]);
        bytes
    };
    let bytes = wide(1, 0xff, 1 << 33);
    let form = ShortForm::decode(&bytes, PLACE, DirectoryForm::V5).unwrap();
    // The byte above the 56 bits of the number is ignored.
    assert_eq!(form.entries().next().unwrap().unwrap().inode, InodeNumber(1 << 33));
    let mismatch = DirectoryCheck::ShortForm { count: 1, wide: 1, size: bytes.len() };
    let found = verify(&wide(1, 0, 131)).unwrap_err();
    assert_eq!(*found.check(), Check::from(mismatch));
}

#[test]
fn invalid_forms_are_refused() {
    let end = form().len();
    check_refused(0, &[1], DirectoryCheck::ShortForm { count: 1, wide: 0, size: end });
    check_refused(0, &[3], DirectoryCheck::RecordEnd { offset: end, end });
    check_refused(2, &[0xff; 4], DirectoryCheck::EntryInode { offset: 2, inode: 0xffff_ffff });
    check_refused(6, &[0], DirectoryCheck::NameEmpty { offset: 6 });
    check_refused(6, &[200], DirectoryCheck::RecordEnd { offset: 6, end });
    let order = |offset, cookie_offset| DirectoryCheck::ShortFormOrder { offset, cookie_offset };
    check_refused(7, &[0, 80], order(6, 80));
    check_refused(7, &[0, 97], order(6, 97));
    check_refused(16, &[0, 96], order(15, 96));
    check_refused(9, b"/", DirectoryCheck::NameBytes { offset: 6 });
    check_refused(9, b".", DirectoryCheck::NameBytes { offset: 6 });
    check_refused(18, b"..", DirectoryCheck::NameBytes { offset: 15 });
    check_refused(10, &[9], DirectoryCheck::TypeByte { offset: 6, type_byte: 9 });
    check_refused(11, &[0; 4], DirectoryCheck::EntryInode { offset: 6, inode: 0 });
    check_refused(16, &[0xff, 0xf8], DirectoryCheck::ShortForm { count: 2, wide: 0, size: end });
}

#[test]
fn no_changed_byte_panics() {
    for length in 0..form().len() {
        assert!(verify(&form()[..length]).is_err(), "{length} bytes");
    }
    for offset in 0..form().len() {
        for new in 0..=255 {
            let mut bytes = form();
            bytes[offset] = new;
            let _ = verify(&bytes);
            if let Ok(form) = ShortForm::decode(&bytes, PLACE, DirectoryForm::V5) {
                let count = form.entries().count();
                assert!(count <= usize::from(form.count()));
                let _ = form.find(b"bc");
            }
        }
    }
}
