//! Tests of leaf entries with one damaged field: the attributes that can still be read.

use xfs_format::attr::leaf::{AttrLeafEntryDisk, AttrLeafHeaderDisk, LEAF_MAGIC, encode_name};
use xfs_format::attr::{AttrEntry, AttrLeaf, AttrValue, Namespace};
use xfs_format::{FileBlock, InodeNumber, StructureAddress};
use zerocopy::{FromBytes, IntoBytes};

use super::{entries, hash_of};
use crate::volume::Trust;

const BLOCK_BYTES: usize = 1024;

/// Returns the attributes of the undamaged leaf that each test damages. The last one is a parent
/// pointer.
fn attributes() -> Vec<AttrEntry<'static>> {
    let remote = AttrValue::Remote { first_block: FileBlock(3), length_bytes: 9000 };
    let pointer = &[0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 7];
    let all = [
        (Namespace::User, b"first".as_slice(), AttrValue::Local(b"value")),
        (Namespace::Trusted, b"large", remote),
        (Namespace::Security, b"selinux", AttrValue::Local(b"label")),
        (Namespace::Parent, b"file", AttrValue::Local(pointer)),
    ];
    let mut all = all.map(|(namespace, name, value)| AttrEntry { namespace, name, value }).to_vec();
    all.sort_by_key(hash_of);
    all
}

/// Returns a leaf that holds `attributes()`, and the table of its entries.
fn leaf() -> (Vec<u8>, Vec<AttrLeafEntryDisk>) {
    let mut bytes = vec![0; BLOCK_BYTES];
    let mut table = Vec::new();
    let mut end = BLOCK_BYTES;
    for attribute in attributes() {
        let (name, flags) = encode_name(&attribute);
        end -= name.len();
        bytes.get_mut(end..end + name.len()).expect("the leaf has room").copy_from_slice(&name);
        let hash = hash_of(&attribute).expect("a possible attribute");
        let name_offset = u16::try_from(end).expect("an offset of the block");
        table.push(AttrLeafEntryDisk {
            hash: hash.into(),
            name_offset: name_offset.into(),
            flags: flags.bits(),
            pad: 0,
        });
    }
    (bytes, table)
}

/// Changes the table of the leaf `leaf()` by `damage`, and compares the attributes that are then
/// read with `expected`. `None` stands for an attribute that cannot be read.
#[track_caller]
fn check(damage: impl Fn(&mut [AttrLeafEntryDisk]), expected: &[Option<AttrEntry<'_>>]) {
    let (mut bytes, mut table) = leaf();
    damage(&mut table);
    let count = u16::try_from(table.len()).expect("a few entries");
    let (header, rest) =
        AttrLeafHeaderDisk::mut_from_prefix(&mut bytes).expect("a block is longer");
    header.header.magic = LEAF_MAGIC.into();
    header.count = count.into();
    table.as_slice().write_to_prefix(rest).expect("the leaf has room");
    let leaf = AttrLeaf::decode(&bytes, StructureAddress::Inode(InodeNumber(131)));
    let found = entries(&leaf.expect("the header is sound"), Trust::Doubtful);
    let found: Vec<_> = found.into_iter().map(|found| found.map(|found| found.entry)).collect();
    assert_eq!(found, expected);
}

#[test]
fn undamaged_entries_are_read() {
    let all: Vec<_> = attributes().into_iter().map(Some).collect();
    check(|_| {}, &all);
}

#[test]
fn flags_of_a_pointer_or_with_an_unknown_bit_are_corrected_by_the_hash() {
    let all: Vec<_> = attributes().into_iter().map(Some).collect();
    for (index, attribute) in attributes().iter().enumerate() {
        let of_pointers = u8::from(attribute.namespace == Namespace::Parent) << 2 | 1 << 3;
        // The flag for parent pointers, an unknown flag, and the flag for local values.
        for flags in [of_pointers & !attribute.namespace.flags().bits(), 1 << 5, 1 << 0] {
            check(|table| table.get_mut(index).expect("an entry").flags ^= flags, &all);
        }
    }
}

#[test]
fn hash_out_of_order_is_the_damaged_field() {
    let all: Vec<_> = attributes().into_iter().map(Some).collect();
    check(|table| table.first_mut().expect("an entry").hash = u32::MAX.into(), &all);
    check(|table| table.last_mut().expect("an entry").hash = 0.into(), &all);
}

#[test]
fn name_outside_of_the_block_costs_one_attribute() {
    let mut all: Vec<_> = attributes().into_iter().map(Some).collect();
    *all.get_mut(1).expect("an attribute") = None;
    check(|table| table.get_mut(1).expect("an entry").name_offset = 0xffff.into(), &all);
}
