//! Changes of every kind, compared with a model that maps each block. The record edits are applied
//! to a sorted list.

use std::collections::BTreeMap;

use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::{FileBlock, FsBlock};
use xfs_testkit::Prng;

use super::{BlockRange, GroupStarts, MapChange, NewMapping, RecordEdit};
use crate::extent_map::ExtentMap;

fn plan(map: &ExtentMap, range: BlockRange, target: NewMapping) -> MapChange {
    super::plan(map, range, target, GroupStarts::NONE)
}

fn extent(file_block: u64, start: u64, length_blocks: u32, unwritten: bool) -> Extent {
    let (file_block, start) = (FileBlock(file_block), FsBlock(start));
    Extent { file_block, start, length_blocks, unwritten }
}

fn range(start: u64, length_blocks: u64) -> BlockRange {
    BlockRange { start: FileBlock(start), length_blocks }
}

fn check(old: &[Extent], change: (BlockRange, NewMapping), expected: &[Extent]) {
    let mut map = ExtentMap::from_verified(old.to_vec());
    let change = plan(&map, change.0, change.1);
    map.replace(&change.old, &change.new);
    map.check();
    assert_eq!(map.iter().copied().collect::<Vec<_>>(), expected);
}

#[test]
fn allocation_into_a_hole_joins_its_neighbours() {
    let blocks = |start| NewMapping::Blocks { start: FsBlock(start), unwritten: false };
    check(&[], (range(3, 2), blocks(10)), &[extent(3, 10, 2, false)]);
    let left = extent(0, 10, 3, false);
    check(&[left], (range(3, 2), blocks(13)), &[extent(0, 10, 5, false)]);
    check(&[left], (range(3, 2), blocks(20)), &[left, extent(3, 20, 2, false)]);
    let right = extent(5, 15, 3, false);
    check(&[left, right], (range(3, 2), blocks(13)), &[extent(0, 10, 8, false)]);
    let full = extent(0, 10, MAX_EXTENT_BLOCKS, false);
    let end = u64::from(MAX_EXTENT_BLOCKS);
    let next = extent(end, 10 + end, 1, false);
    check(&[full], (range(end, 1), blocks(10 + end)), &[full, next]);
}

#[test]
fn conversion_splits_and_joins_extents() {
    let written = NewMapping::Converted { unwritten: false };
    let (all, whole) = (extent(0, 10, 9, true), extent(0, 10, 9, false));
    check(&[all], (range(0, 9), written), &[whole]);
    let (head, tail) = (extent(0, 10, 3, true), extent(6, 16, 3, true));
    check(&[all], (range(3, 3), written), &[head, extent(3, 13, 3, false), tail]);
    let parts = [extent(0, 10, 3, false), extent(3, 13, 3, true), extent(6, 16, 3, false)];
    check(&parts, (range(3, 3), written), &[whole]);
    let moved = [extent(0, 10, 4, false), extent(4, 14, 2, true), extent(6, 16, 3, false)];
    check(&parts, (range(3, 1), written), &moved);
}

#[test]
fn unmapping_cuts_extents() {
    let all = extent(0, 10, 9, false);
    check(
        &[all],
        (range(3, 3), NewMapping::Hole),
        &[extent(0, 10, 3, false), extent(6, 16, 3, false)],
    );
    check(&[all], (range(0, 9), NewMapping::Hole), &[]);
    check(&[all], (range(9, 9), NewMapping::Hole), &[all]);
}

/// Applies a record edit to a sorted list, as to a leaf of a btree. Panics if the edit makes two
/// records overlap.
fn follow(records: &mut BTreeMap<u64, Extent>, step: RecordEdit) {
    match step {
        RecordEdit::Remove(old) => assert_eq!(records.remove(&old.file_block.0), Some(old)),
        RecordEdit::Update { old, new } => {
            let before = records.range(..old.file_block.0).next_back();
            assert!(before.is_none_or(|(_, before)| before.end() <= new.file_block), "{step:?}");
            assert_eq!(records.remove(&old.file_block.0), Some(old));
            assert_eq!(records.insert(new.file_block.0, new), None);
        }
        RecordEdit::Insert(new) => assert_eq!(records.insert(new.file_block.0, new), None),
    }
    assert!(
        records.values().is_sorted_by(|left, right| left.end() <= right.file_block),
        "I2: {step:?} leaves {records:?}"
    );
}

#[test]
fn random_changes_equal_a_model_of_single_blocks() {
    const BLOCKS: u64 = 3000;
    for seed in 0..4 {
        let mut numbers = Prng::new(0xed17 + seed);
        let mut below = |limit: u64| numbers.number() % limit;
        let mut map = ExtentMap::default();
        let mut records = BTreeMap::new();
        let mut model: Vec<Option<(u64, bool)>> = vec![None; BLOCKS as usize];
        for _ in 0..4000 {
            let start = below(BLOCKS);
            let longest = [3, 40][below(2) as usize];
            let length = 1 + below(longest.min(BLOCKS - start));
            let unwritten = below(2) == 0;
            let target = match below(6) {
                0 => NewMapping::Hole,
                1 | 2 => NewMapping::Converted { unwritten },
                // Often contiguous with a neighbour's blocks.
                3 => NewMapping::Blocks { start: FsBlock(100_000 + start), unwritten },
                _ => NewMapping::Blocks { start: FsBlock(1 + below(1 << 30)), unwritten },
            };
            for (index, block) in (start..start + length).enumerate() {
                let slot = &mut model[block as usize];
                *slot = match target {
                    NewMapping::Hole => None,
                    NewMapping::Converted { unwritten } => {
                        slot.map(|(start, _)| (start, unwritten))
                    }
                    NewMapping::Blocks { start, unwritten } => {
                        Some((start.0 + index as u64, unwritten))
                    }
                };
            }
            let change = plan(&map, range(start, length), target);
            for block in change.new.iter().flat_map(|new| new.file_block.0..new.end().0) {
                let is_old = |old: &Extent| (old.file_block.0..old.end().0).contains(&block);
                let is_covered = (start..start + length).contains(&block);
                assert!(is_covered || change.old.iter().any(is_old), "I1: {change:?}");
            }
            for step in change.record_edits() {
                follow(&mut records, step);
            }
            map.replace(&change.old, &change.new);
        }
        map.check();
        assert!(map.iter().eq(records.values()), "seed {seed}");
        let mut found = vec![None; BLOCKS as usize];
        for extent in map.iter() {
            for block in 0..u64::from(extent.length_blocks) {
                let at = (extent.file_block.0 + block) as usize;
                found[at] = Some((extent.start.0 + block, extent.unwritten));
            }
        }
        assert_eq!(found, model, "seed {seed}");
    }
}

#[test]
fn extents_are_not_joined_over_the_start_of_a_realtime_group() {
    let starts = GroupStarts { block_mask: Some(15) };
    let map = ExtentMap::from_verified(vec![extent(0, 12, 4, false)]);
    let target = NewMapping::Blocks { start: FsBlock(16), unwritten: false };
    let change = super::plan(&map, range(4, 2), target, starts);
    assert_eq!((change.old, change.new), (vec![], vec![extent(4, 16, 2, false)]));
    let map = ExtentMap::from_verified(vec![extent(0, 12, 4, false), extent(4, 16, 4, true)]);
    let target = NewMapping::Converted { unwritten: false };
    let change = super::plan(&map, range(4, 4), target, starts);
    assert_eq!(change.new, [extent(4, 16, 4, false)]);
    // Inside a group the two become one extent.
    assert_eq!(plan(&map, range(4, 4), target).new, [extent(0, 12, 8, false)]);
}

#[test]
fn change_of_a_large_map_moves_few_extents() {
    // Quadratic work would take minutes here.
    let mut map = ExtentMap::default();
    for index in 0..200_000_u64 {
        let at = index.wrapping_mul(0x9e37_79b1) % 200_000;
        let change = plan(
            &map,
            range(2 * at, 1),
            NewMapping::Blocks { start: FsBlock(7 * at + 1), unwritten: false },
        );
        map.replace(&change.old, &change.new);
    }
    map.check();
    for index in 0..200_000_u64 {
        let at = index.wrapping_mul(0x85eb_ca6b) % 200_000;
        let change = plan(&map, range(2 * at, 1), NewMapping::Hole);
        map.replace(&change.old, &change.new);
    }
    map.check();
}
