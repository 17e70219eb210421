//! Tests of cleaning attribute blocks that were encoded by `xfs-format`.

use xfs_format::attr::leaf::{AttrLeafHeaderDisk, encode_name};
use xfs_format::attr::short_form;
use xfs_format::attr::{AttrEntry, AttrFlags, AttrLeaf, AttrValue, Namespace};
use xfs_format::directory::name_hash;
use xfs_format::{DiskAddr, FileBlock, StructureAddress};

use super::{clean_block, clean_short_form};
use crate::cleaning::{Cleaned, Cleaning};
use crate::names::Obfuscator;

const SECRET: &[u8] = b"user secret";
const PARENT: &[u8] = b"name in the parent";
const POINTER: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 128, 1, 2, 3, 4];

fn attribute<'a>(namespace: Namespace, name: &'a [u8], value: &'a [u8]) -> AttrEntry<'a> {
    AttrEntry { namespace, name, value: AttrValue::Local(value) }
}

/// Returns a leaf with three attributes: one with a local value, one with a remote value, and a
/// parent pointer. The bytes between them hold remains of deleted attributes.
fn leaf() -> Vec<u8> {
    let mut block = vec![0; 1024];
    AttrLeafHeaderDisk::empty(&mut block);
    let remote = AttrValue::Remote { first_block: FileBlock(3), length_bytes: 5000 };
    let entries = [
        attribute(Namespace::User, SECRET, b"secret value"),
        AttrEntry { namespace: Namespace::User, name: SECRET, value: remote },
        attribute(Namespace::Parent, PARENT, POINTER),
    ];
    block.get_mut(104..).unwrap().fill(0x66);
    block.get_mut(56..58).unwrap().copy_from_slice(&[0, 3]);
    for (index, entry) in entries.iter().enumerate() {
        let (bytes, flags) = encode_name(entry);
        let offset = 512 + index * 128;
        block.get_mut(offset..offset + bytes.len()).unwrap().copy_from_slice(&bytes);
        let record = block.get_mut(80 + index * 8..).unwrap();
        record.get_mut(..4).unwrap().copy_from_slice(&name_hash(entry.name).to_be_bytes());
        record.get_mut(4..6).unwrap().copy_from_slice(&(offset as u16).to_be_bytes());
        *record.get_mut(6).unwrap() = flags.bits();
    }
    xfs_format::crc::seal(&mut block, 12);
    block
}

#[test]
fn leaf_keeps_hashes_and_parent_pointers() {
    let (before, names) = (leaf(), Obfuscator::random());
    let mut after = before.clone();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    assert_eq!(clean_block(&mut after, cleaning), Cleaned::Whole);
    assert_eq!(xfs_format::crc::stored(&after, 12), xfs_format::crc::compute(&after, 12));
    assert!(!after.contains(&0x66) || after.windows(4).all(|window| window != [0x66; 4]));
    let leaf = AttrLeaf::decode(&after, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let entries: Vec<_> = leaf.entries().map(Result::unwrap).collect();
    let expected = [(SECRET, &[0; 12][..]), (SECRET, &[]), (PARENT, POINTER)];
    assert_eq!(entries.len(), 3);
    for (entry, (name, value)) in entries.iter().zip(expected) {
        assert_ne!(entry.name, name);
        assert_eq!(name_hash(entry.name), name_hash(name));
        match entry.value {
            AttrValue::Local(found) => assert_eq!(found, value),
            AttrValue::Remote { length_bytes, .. } => assert_eq!(length_bytes, 5000),
        }
    }
}

#[test]
fn damaged_leaf_shows_no_name() {
    let names = Obfuscator::random();
    for (at, byte) in [(57, 200), (84, 3), (92, 2), (514, 255), (86, 0), (93, 8)] {
        let mut block = leaf();
        *block.get_mut(at).unwrap() = byte;
        let cleaning =
            Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
        clean_block(&mut block, cleaning);
        assert!(block.windows(6).all(|window| window != b"secret"), "byte {at}");
        let mut kept = leaf();
        *kept.get_mut(at).unwrap() = byte;
        let before = kept.clone();
        clean_block(
            &mut kept,
            Cleaning { names: None, zeroes_stale: false, has_metadata_directory: false },
        );
        assert_eq!(kept, before);
    }
}

#[test]
fn remote_value_becomes_zeros_with_its_header() {
    let mut block = b"XARM".to_vec();
    block.resize(56, 1);
    block.resize(1024, 0x41);
    xfs_format::crc::seal(&mut block, 12);
    let mut after = block.clone();
    let names = Obfuscator::random();
    clean_block(
        &mut after,
        Cleaning { names: Some(&names), zeroes_stale: false, has_metadata_directory: false },
    );
    assert_eq!(after.get(16..56), block.get(16..56));
    assert!(after.get(56..).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(xfs_format::crc::stored(&after, 12), xfs_format::crc::compute(&after, 12));
    let mut kept = block.clone();
    clean_block(
        &mut kept,
        Cleaning { names: None, zeroes_stale: true, has_metadata_directory: false },
    );
    assert_eq!(kept, block);
}

#[test]
fn short_form_keeps_parent_pointers_only() {
    let entries = [
        attribute(Namespace::User, SECRET, b"secret value"),
        attribute(Namespace::Parent, PARENT, POINTER),
    ];
    let mut fork = short_form::encode(&entries).unwrap();
    fork.extend(b"stale secret");
    let names = Obfuscator::random();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    assert_eq!(clean_short_form(&mut fork, cleaning), Cleaned::Whole);
    assert!(fork.windows(6).all(|window| window != b"secret"));
    assert!(fork.windows(POINTER.len()).any(|window| window == POINTER));
    assert!(fork.windows(PARENT.len()).all(|window| window != PARENT));
    assert_eq!(AttrFlags::PARENT.bits(), 8);
}
