//! Tests of AGFLs that mkfs.xfs and the kernel wrote (`testdata/groups`), and of hand-made free
//! lists.

use std::vec::Vec;

use super::{Agfl, AgflCheck, capacity};
use crate::addr::{AgBlock, AgNumber, DiskAddr};
use crate::agf::{Agf, FreeListRange};
use crate::corruption::{Check, Corruption};
use crate::features::FormatVersion;
use crate::geometry::Geometry;
use crate::golden::{self, golden};
use crate::kind::BlockKind;

const AGED: &[u8] = golden!("aged.headers");
const AT: DiskAddr = DiskAddr(3);

fn geometry(sector_size: u32) -> Geometry {
    Geometry::without_groups(12, 9, sector_size)
}

/// Returns the free list of the "aged" golden volume, with `block` stored in entry `place` and the
/// checksum recomputed.
fn with_block(place: usize, block: u32) -> Vec<u8> {
    let mut sector = golden::sector(AGED, 3);
    sector[36 + 4 * place..40 + 4 * place].copy_from_slice(&block.to_be_bytes());
    golden::reseal(BlockKind::Agfl, &mut sector);
    sector
}

fn blocks(sector: &[u8], first: u32, last: u32, count: u32) -> Result<Vec<AgBlock>, Check> {
    let list = Agfl::decode(sector, AT, FormatVersion::V5).unwrap();
    let check = |error: Corruption| error.check().clone();
    list.blocks(FreeListRange { first, last, count })
        .map_err(check)?
        .collect::<Result<_, _>>()
        .map_err(check)
}

#[test]
fn golden_lists_hold_what_the_agf_counts() {
    for (name, headers) in golden::HEADERS {
        let geometry = golden::geometry(headers);
        let at = |index| geometry.header_disk_addr(AgNumber(0), index);
        let sector = golden::sector(headers, 3);
        golden::verify(BlockKind::Agfl, &sector, at(3), &geometry)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let agf = Agf::decode(&golden::sector(headers, 1), at(1), &geometry).unwrap();
        let list = Agfl::decode(&sector, at(3), FormatVersion::V5).unwrap();
        let blocks: Vec<_> = list.blocks(agf.free_list).unwrap().map(Result::unwrap).collect();
        assert_eq!(blocks.len(), agf.free_list.count as usize, "{name}");
        assert!(!blocks.is_empty(), "{name}");
    }
}

#[test]
fn entries_fill_the_sector() {
    assert_eq!(capacity(&geometry(512)), 119);
    assert_eq!(capacity(&geometry(4096)), 1015);
}

#[test]
fn range_wraps_around_the_ring() {
    let mut sector = golden::sector(AGED, 3);
    for place in 0..119_u32 {
        let start = 36 + 4 * place as usize;
        sector[start..start + 4].copy_from_slice(&(1000 + place).to_be_bytes());
    }
    let expect = |blocks: &[u32]| Ok(blocks.iter().copied().map(AgBlock).collect());
    assert_eq!(blocks(&sector, 117, 1, 4), expect(&[1117, 1118, 1000, 1001]));
    assert_eq!(blocks(&sector, 5, 5, 1), expect(&[1005]));
    assert_eq!(blocks(&sector, 1, 0, 0), expect(&[]));
    assert_eq!(blocks(&sector, 1, 0, 119).unwrap().len(), 119);
}

#[test]
fn range_must_enclose_as_many_entries_as_it_counts() {
    let sector = golden::sector(AGED, 3);
    for (first, last, count) in [(0, 3, 3), (0, 3, 5), (119, 0, 1), (0, u32::MAX, 1), (7, 6, 1)] {
        let expected = Check::Agfl(AgflCheck::Range { first, last, count });
        assert_eq!(blocks(&sector, first, last, count), Err(expected));
    }
}

#[test]
fn entries_in_use_must_hold_blocks_of_the_group() {
    let geometry = golden::geometry(AGED);
    let check = |block: u32| {
        let found = golden::verify(BlockKind::Agfl, &with_block(7, block), AT, &geometry);
        found.map_err(|error| error.check().clone())
    };
    for block in [0, 1, geometry.ag_blocks, u32::MAX - 1] {
        assert_eq!(check(block), Err(Check::Agfl(AgflCheck::Block { place: 7, block })));
    }
    assert_eq!(check(u32::MAX), Ok(()));
    let empty = blocks(&with_block(7, u32::MAX), 7, 7, 1);
    assert_eq!(empty, Err(Check::Agfl(AgflCheck::Empty { place: 7 })));
}

#[test]
fn group_must_match_the_address() {
    let geometry = golden::geometry(AGED);
    let mut sector = golden::sector(AGED, 3);
    sector[7] = 1;
    golden::reseal(BlockKind::Agfl, &mut sector);
    let found = golden::verify(BlockKind::Agfl, &sector, AT, &geometry).unwrap_err();
    let expected = AgflCheck::GroupNumber { found: 1, expected: 0 };
    assert_eq!(*found.check(), Check::Agfl(expected));
}

#[test]
fn no_flipped_bit_panics() {
    let geometry = golden::geometry(AGED);
    let sector = golden::sector(AGED, 3);
    golden::for_each_flip(BlockKind::Agfl, &sector, 512, |_, flipped| {
        if golden::verify(BlockKind::Agfl, flipped, AT, &geometry).is_ok() {
            let list = Agfl::decode(flipped, AT, FormatVersion::V5).unwrap();
            let all = FreeListRange { first: 0, last: 118, count: 119 };
            assert_eq!(list.blocks(all).unwrap().count(), 119);
        }
    });
}

#[test]
fn list_of_a_version_4_volume_fills_its_sector() {
    let geometry = Geometry { version: FormatVersion::V4, ..geometry(512) };
    let mut sector = [0xff; 512];
    sector[..4].copy_from_slice(&7_u32.to_be_bytes());
    sector[508..].copy_from_slice(&9_u32.to_be_bytes());
    assert_eq!(capacity(&geometry), 128);
    let list = Agfl::decode(&sector, AT, FormatVersion::V4).unwrap();
    let range = FreeListRange { first: 127, last: 0, count: 2 };
    let blocks: Result<Vec<_>, _> = list.blocks(range).unwrap().collect();
    assert_eq!((blocks.unwrap(), list.group()), ([9, 7].map(AgBlock).to_vec(), None));
}
