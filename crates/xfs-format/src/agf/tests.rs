//! Tests of AGFs that mkfs.xfs and the kernel wrote (`testdata/groups`), and of copies of them with
//! changed fields.

use std::vec::Vec;

use zerocopy::FromBytes;

use super::{AGF_SECTOR, Agf, AgfCheck, AgfDisk, BtreeRoot};
use crate::addr::{AgBlock, AgNumber, DiskAddr};
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::kind::BlockKind;

const AGED: &[u8] = golden!("aged.headers");
const AT: DiskAddr = DiskAddr(1);

/// Returns the AGF of the "aged" golden volume after `change`, with its checksum recomputed.
fn changed(change: impl FnOnce(&mut AgfDisk)) -> Vec<u8> {
    let mut sector = golden::sector(AGED, 1);
    let (disk, _) = AgfDisk::mut_from_prefix(&mut sector).unwrap();
    change(disk);
    golden::reseal(BlockKind::Agf, &mut sector);
    sector
}

fn verify(sector: &[u8]) -> Result<(), Check> {
    let geometry = golden::geometry(AGED);
    golden::verify(BlockKind::Agf, sector, AT, &geometry).map_err(|error| error.check().clone())
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut AgfDisk), expected: AgfCheck) {
    assert_eq!(verify(&changed(change)), Err(Check::Agf(expected)));
}

#[test]
fn golden_agfs_verify() {
    for (name, headers) in golden::HEADERS {
        let geometry = golden::geometry(headers);
        let (sector, at) = (golden::sector(headers, 1), geometry.header_disk_addr(AgNumber(0), 1));
        golden::verify(BlockKind::Agf, &sector, at, &geometry)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let agf = Agf::decode(&sector, at, &geometry).unwrap();
        assert_eq!(agf.length_blocks, geometry.ag_blocks, "{name}");
    }
}

#[test]
fn plain_agf_has_the_values_of_mkfs() {
    let headers = golden!("plain.headers");
    let geometry = golden::geometry(headers);
    let agf = Agf::decode(&golden::sector(headers, 1), AT, &geometry).unwrap();
    assert_eq!(agf.free_space_by_block, BtreeRoot { block: AgBlock(1), levels: 1 });
    assert_eq!(agf.free_space_by_size, BtreeRoot { block: AgBlock(2), levels: 1 });
    assert_eq!(agf.reverse_map, None);
    assert_eq!(agf.refcount, Some(BtreeRoot { block: AgBlock(5), levels: 1 }));
    assert_eq!((agf.free_list.first, agf.free_list.last, agf.free_list.count), (1, 4, 4));
    assert_eq!((agf.btree_blocks, agf.reverse_map_blocks, agf.refcount_blocks), (0, 0, 1));
}

#[test]
fn absent_features_have_no_btree() {
    let headers = golden!("few-features.headers");
    let geometry = golden::geometry(headers);
    let agf = Agf::decode(&golden::sector(headers, 1), AT, &geometry).unwrap();
    assert_eq!((agf.reverse_map, agf.refcount, agf.refcount_blocks), (None, None, 0));
}

#[test]
fn foreign_sectors_are_refused() {
    let sector = golden::sector(AGED, 1);
    assert!(matches!(verify(&sector[..100]), Err(Check::Truncated { .. })));
    assert!(matches!(verify(&golden::sector(AGED, 2)), Err(Check::Magic { .. })));
    let mut torn = sector.clone();
    torn[300] ^= 1;
    assert!(matches!(verify(&torn), Err(Check::Checksum { .. })));
    let foreign = golden::sector(golden!("plain.headers"), 1);
    assert!(matches!(verify(&foreign), Err(Check::ForeignUuid { .. })));
    let geometry = golden::geometry(AGED);
    let misplaced = golden::verify(BlockKind::Agf, &sector, DiskAddr(2), &geometry).unwrap_err();
    assert_eq!(*misplaced.check(), Check::MisplacedBlock { found: DiskAddr(2) });
    assert_eq!(geometry.header_disk_addr(AgNumber(0), AGF_SECTOR), AT);
}

#[test]
fn group_and_length_must_match_the_address() {
    let length = golden::geometry(AGED).ag_blocks;
    check_refused(|agf| agf.version = 2.into(), AgfCheck::Version { version: 2 });
    check_refused(|agf| agf.group = 1.into(), AgfCheck::GroupNumber { found: 1, expected: 0 });
    check_refused(
        |agf| agf.length = (length - 1).into(),
        AgfCheck::Length { found: length - 1, expected: length },
    );
}

#[test]
fn roots_must_lie_in_the_group() {
    let length = golden::geometry(AGED).ag_blocks;
    let root = |tree, block| AgfCheck::Root { tree, block };
    check_refused(|agf| agf.by_block_root = 0.into(), root("free space by block", 0));
    check_refused(|agf| agf.by_block_root = 1.into(), root("free space by block", 1));
    check_refused(|agf| agf.by_size_root = length.into(), root("free space by size", length));
    check_refused(|agf| agf.reverse_map_root = u32::MAX.into(), root("reverse map", u32::MAX));
    check_refused(|agf| agf.refcount_root = 0.into(), root("reference counts", 0));
}

#[test]
fn levels_must_be_in_range() {
    let geometry = golden::geometry(AGED);
    let max = crate::btree::BtreeKind::FreeSpaceByBlock.max_levels(&geometry);
    let check = AgfCheck::Levels { tree: "free space by block", levels: 0, max };
    check_refused(|agf| agf.by_block_levels = 0.into(), check);
    let max = crate::btree::BtreeKind::ReverseMap.max_levels(&geometry);
    let check = AgfCheck::Levels { tree: "reverse map", levels: max + 1, max };
    check_refused(|agf| agf.reverse_map_levels = (max + 1).into(), check);
}

#[test]
fn free_list_must_lie_in_its_sector() {
    let check = |first: u32, last: u32, count: u32| {
        let change = |agf: &mut AgfDisk| {
            agf.free_list_first = first.into();
            agf.free_list_last = last.into();
            agf.free_list_count = count.into();
        };
        check_refused(change, AgfCheck::FreeList { first, last, count, size: 119 });
    };
    check(119, 0, 1);
    check(0, 119, 1);
    check(0, 118, 120);
}

#[test]
fn counters_must_fit_the_group() {
    let length = golden::geometry(AGED).ag_blocks;
    let free = |free: u32, longest: u32| {
        let change = |agf: &mut AgfDisk| {
            agf.free_blocks = free.into();
            agf.longest = longest.into();
        };
        check_refused(change, AgfCheck::FreeBlocks { free, longest, length });
    };
    free(length + 1, 1);
    free(10, 11);
    free(10, 0);
    let blocks = |what, blocks| AgfCheck::Blocks { what, blocks, length };
    check_refused(|agf| agf.btree_blocks = u32::MAX.into(), blocks("free-space btrees", u32::MAX));
    check_refused(|agf| agf.reverse_map_blocks = 0.into(), blocks("the reverse map", 0));
    check_refused(|agf| agf.refcount_blocks = 0.into(), blocks("reference counts", 0));
}

#[test]
fn flipped_bit_is_refused_or_changes_the_decoded_agf() {
    let geometry = golden::geometry(AGED);
    let sector = golden::sector(AGED, 1);
    let whole = Agf::decode(&sector, AT, &geometry).unwrap();
    golden::for_each_flip(BlockKind::Agf, &sector, 216, |offset, flipped| {
        let is_spare = (96..208).contains(&offset);
        if golden::verify(BlockKind::Agf, flipped, AT, &geometry).is_ok() && !is_spare {
            assert_ne!(Agf::decode(flipped, AT, &geometry).unwrap(), whole, "byte {offset}");
        }
    });
}
