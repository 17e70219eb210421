//! Tests of hand-made records of the reverse map, with the geometry of a volume that mkfs.xfs made.

use zerocopy::IntoBytes;

use super::{ReverseMap, Rmap, RmapCheck, RmapDisk, RmapFlags, RmapOwner};
use crate::addr::{AgBlock, AgNumber, FileBlock, InodeNumber};
use crate::btree::BtreeFormat;
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::group::Group;

const ATTR: u64 = 1 << 63;
const FORK_BTREE: u64 = 1 << 62;
const UNWRITTEN: u64 = 1 << 61;

fn special(number: u64) -> u64 {
    number.wrapping_neg()
}

fn decode(start: u32, count: u32, owner: u64, offset: u64) -> Result<Rmap, Check> {
    let geometry = golden::geometry(golden!("plain.headers"));
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    let (start, count) = (start.into(), count.into());
    let disk = RmapDisk { start, count, owner: owner.into(), offset: offset.into() };
    Rmap::decode(disk.as_bytes(), &group)
}

#[test]
fn owners_round_trip_to_their_numbers() {
    let geometry = golden::geometry(golden!("plain.headers"));
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    for number in 3..=9 {
        let owner = RmapOwner::from_raw(special(number), &group).unwrap();
        assert_eq!(owner.to_raw(), special(number));
    }
    let inode = RmapOwner::from_raw(128, &group).unwrap();
    assert_eq!((inode, inode.to_raw()), (RmapOwner::Inode(InodeNumber(128)), 128));
    for raw in [0, special(1), special(2), special(10), 1 << 62] {
        assert_eq!(RmapOwner::from_raw(raw, &group), None);
    }
}

#[test]
fn file_contents_have_an_offset() {
    let rmap = decode(100, 5, 128, UNWRITTEN | 7).unwrap();
    assert_eq!((rmap.offset, rmap.flags), (FileBlock(7), RmapFlags::UNWRITTEN));
    assert_eq!(rmap.end(), AgBlock(105));
    let high = rmap.high_key();
    assert_eq!((high.start, high.owner, high.offset), (AgBlock(104), 128, 11));
    let btree = decode(100, 5, 128, ATTR | FORK_BTREE).unwrap();
    assert_eq!(btree.high_key().offset, ATTR | FORK_BTREE);
    let log = decode(100, 5, special(4), 0).unwrap();
    assert_eq!((log.high_key().start, log.high_key().offset), (AgBlock(104), 0));
}

#[test]
fn headers_belong_to_the_volume() {
    decode(0, 1, special(3), 0).unwrap();
    let range = |start, count| Err(Check::Rmap(RmapCheck::Range { start, count }));
    assert_eq!(decode(0, 2, special(3), 0), range(0, 2));
    assert_eq!(decode(0, 1, special(5), 0), range(0, 1));
    assert_eq!(decode(19199, 2, special(5), 0), range(19199, 2));
    assert_eq!(decode(5, 0, special(5), 0), range(5, 0));
}

#[test]
fn owner_and_offset_must_match() {
    let offset = |owner, offset| {
        let expected = Err(Check::Rmap(RmapCheck::Offset { start: 100, offset }));
        assert_eq!(decode(100, 5, owner, offset), expected);
    };
    offset(special(5), 1);
    offset(special(5), ATTR);
    offset(special(4), UNWRITTEN);
    offset(128, FORK_BTREE | 1);
    offset(128, FORK_BTREE | UNWRITTEN);
    offset(128, ATTR | UNWRITTEN);
    offset(128, 1 << 54);
    offset(128, (1 << 54) - 1);
    let nobody = Err(Check::Rmap(RmapCheck::Owner { start: 100, owner: special(1) }));
    assert_eq!(decode(100, 5, special(1), 0), nobody);
}

#[test]
fn keys_omit_the_unwritten_flag() {
    let rmap = decode(100, 5, 128, UNWRITTEN | 7).unwrap();
    assert_eq!(ReverseMap::key(&rmap).offset, 7);
    let bytes =
        [&100_u32.to_be_bytes()[..], &128_u64.to_be_bytes(), &(UNWRITTEN | 7).to_be_bytes()];
    assert_eq!(ReverseMap::decode_key(&bytes.concat()), Some(ReverseMap::key(&rmap)));
}
