//! Tests of a block of a link's target that the kernel wrote (`testdata/inodes`), and of copies
//! with changed fields.

use std::vec::Vec;

use super::{SymlinkBlock, SymlinkCheck};
use crate::addr::{DiskAddr, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, StructureAddress};
use crate::geometry::Geometry;
use crate::kind::{BlockKind, VerifyContext};
use crate::superblock::Superblock;

const BLOCK: &[u8] = include_bytes!("../../../../testdata/inodes/longlink.block");

fn geometry() -> Geometry {
    let sector = include_bytes!("../../../../testdata/inodes/new.superblock");
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn stored_address() -> DiskAddr {
    DiskAddr(u64::from_be_bytes(BLOCK[40..48].try_into().unwrap()))
}

fn check(bytes: &[u8], at: DiskAddr) -> Result<(), Corruption> {
    let context = VerifyContext { geometry: &geometry(), log_head: None };
    BlockKind::Symlink.verify(bytes, at, &context)
}

fn changed(offset: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = BLOCK.to_vec();
    bytes[offset..offset + new.len()].copy_from_slice(new);
    let lsn = Lsn(u64::from_be_bytes(bytes[48..56].try_into().unwrap()));
    BlockKind::Symlink.seal(&mut bytes, lsn);
    bytes
}

#[test]
fn golden_block_decodes_and_verifies() {
    check(BLOCK, stored_address()).unwrap();
    let block = SymlinkBlock::decode(BLOCK, stored_address()).unwrap();
    assert_eq!((block.offset_bytes, block.owner), (0, InodeNumber(72)));
    assert_eq!(block.target, &[b't'; 500][..]);
    assert_eq!(changed(0, b"XSLM"), BLOCK);
}

#[test]
fn invalid_fields_are_refused() {
    let refused = |offset, new: &[u8]| {
        check(&changed(offset, new), stored_address()).unwrap_err().check().clone()
    };
    let range =
        |offset, length| Check::from(SymlinkCheck::Range { offset, length, room: 1024 - 56 });
    assert_eq!(refused(8, &1000_u32.to_be_bytes()), range(0, 1000));
    assert_eq!(refused(4, &525_u32.to_be_bytes()), range(525, 500));
    assert_eq!(refused(4, &u32::MAX.to_be_bytes()), range(u32::MAX, 500));
    assert_eq!(refused(8, &u32::MAX.to_be_bytes()), range(0, u32::MAX));
    assert!(matches!(refused(0, b"XSLN"), Check::Magic { .. }));
    assert!(matches!(refused(16, &[0; 16]), Check::ForeignUuid { .. }));
    let found = check(BLOCK, DiskAddr(8)).unwrap_err();
    assert_eq!(*found.check(), Check::MisplacedBlock { found: stored_address() });
}

#[test]
fn flipped_bit_fails_the_checksum_and_never_panics() {
    for bit in 0..BLOCK.len() * 8 {
        let mut bytes = BLOCK.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(check(&bytes, stored_address()).is_err(), "bit {bit}");
        let _ = check(&changed(bit / 8, &bytes[bit / 8..=bit / 8]), stored_address());
    }
}
