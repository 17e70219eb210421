//! Tests of cursors in btrees made by hand. The tests compare walks with a sorted list. Then they
//! damage blocks one by one, and check that a walk reports each damage.

use xfs_buffer::{BufferCache, Error};
use xfs_format::btree::{BtreeCheck, BtreeKind, Extents};
use xfs_format::extent::ExtentRoot;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock};
use xfs_format::{AgBlock, Check, InodeNumber};

use super::{Cursor, Seek};
use crate::sample::{Contents, FIRST_BLOCK, Sample};

const INODE: InodeNumber = InodeNumber(8192);

/// Returns free extent number `index` of a sample. Each extent has two blocks. An extent starts at
/// every tenth block from block 1000 on.
fn extent(index: u32) -> FreeSpace {
    FreeSpace { start: AgBlock(1000 + 10 * index), count: 2 }
}

fn free_space(count: u32, fan: usize) -> Sample {
    let record = |index| {
        let FreeSpace { start, count } = extent(index);
        let bytes = [start.0.to_be_bytes(), count.to_be_bytes()].concat();
        (bytes.clone(), bytes)
    };
    let records = (0..count).map(record).collect();
    let kind = BtreeKind::FreeSpaceByBlock;
    Sample::new(&Contents { kind, owner: 0, records }, fan)
}

fn cursor<'a>(sample: &Sample, cache: &'a BufferCache) -> Cursor<'a, FreeSpaceByBlock> {
    Cursor::new(cache, sample.group(), sample.root()).unwrap()
}

fn check_of(error: &Error) -> Check {
    match error {
        Error::Corrupt(corruption) => corruption.check().clone(),
        other => panic!("{other}"),
    }
}

/// Returns all records and all errors of a walk.
fn walk(sample: &Sample) -> (Vec<FreeSpace>, Vec<Check>) {
    let cache = sample.cache();
    let (mut records, mut checks) = (Vec::new(), Vec::new());
    for record in cursor(sample, &cache).records() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => checks.push(check_of(&error)),
        }
        assert!(records.len() + checks.len() < 10_000, "the walk does not end");
    }
    (records, checks)
}

/// The shapes of the samples: the number of records, and the number of entries in a full block.
const SHAPES: [(u32, usize); 8] =
    [(0, 4), (1, 4), (4, 4), (5, 4), (16, 4), (17, 4), (100, 3), (1000, 80)];

#[test]
fn walk_returns_every_record_once_in_order() {
    for (count, fan) in SHAPES {
        let sample = free_space(count, fan);
        let expected: Vec<_> = (0..count).map(extent).collect();
        assert_eq!(walk(&sample), (expected.clone(), Vec::new()));
        let cache = sample.cache();
        let mut cursor = cursor(&sample, &cache);
        let mut backwards: Vec<_> = std::iter::from_fn(|| cursor.retreat().unwrap()).collect();
        assert_eq!(cursor.retreat().unwrap(), None);
        backwards.reverse();
        assert_eq!(backwards, expected);
    }
}

#[test]
fn leaves_are_returned_whole() {
    let sample = free_space(100, 3);
    let cache = sample.cache();
    let mut leaves = cursor(&sample, &cache).leaves();
    let (mut leaf, mut sizes) = (Vec::new(), Vec::new());
    while leaves.read_next(&mut leaf).unwrap() {
        sizes.push(leaf.len());
    }
    assert!(leaf.is_empty());
    assert_eq!(sizes, [&[3; 33][..], &[1]].concat());
    assert!(!leaves.read_next(&mut leaf).unwrap());
}

#[test]
fn seek_finds_the_same_record_as_a_list() {
    for (count, fan) in SHAPES {
        let sample = free_space(count, fan);
        let cache = sample.cache();
        let mut cursor = cursor(&sample, &cache);
        for block in (990..1010 + 10 * count.min(200)).step_by(5).map(AgBlock) {
            let before = (0..count).map(extent).rfind(|extent| extent.start <= block);
            assert_eq!(cursor.seek(Seek::AtOrBefore(block)).unwrap(), before);
            let after = (0..count).map(extent).find(|extent| extent.start >= block);
            assert_eq!(cursor.seek(Seek::AtOrAfter(block)).unwrap(), after);
        }
    }
}

#[test]
fn records_start_at_the_position_of_the_cursor() {
    let sample = free_space(100, 3);
    let cache = sample.cache();
    let mut cursor = cursor(&sample, &cache);
    cursor.seek(Seek::AtOrAfter(extent(40).start)).unwrap();
    let records: Vec<_> = cursor.records().map(Result::unwrap).collect();
    assert_eq!(records, (40..100).map(extent).collect::<Vec<_>>());
}

#[test]
fn cursor_at_an_end_stays_and_turns() {
    let sample = free_space(10, 3);
    let cache = sample.cache();
    let mut cursor = cursor(&sample, &cache);
    assert_eq!(cursor.record().unwrap(), None);
    assert_eq!(cursor.last().unwrap(), Some(extent(9)));
    assert_eq!(cursor.advance().unwrap(), None);
    assert_eq!(cursor.record().unwrap(), Some(extent(9)));
    assert_eq!(cursor.retreat().unwrap(), Some(extent(8)));
    assert_eq!(cursor.first().unwrap(), Some(extent(0)));
    assert_eq!(cursor.retreat().unwrap(), None);
    assert_eq!(cursor.advance().unwrap(), Some(extent(1)));
}

/// Damages block `block` of a sample of 3 levels with 27 records in 9 leaves. Checks that a walk
/// still finds `left` records, and that the first error of the walk is the failed check `expected`.
#[track_caller]
fn check_damage(block: u64, change: impl FnOnce(&mut [u8]), left: usize, expected: Check) {
    let sample = free_space(27, 3);
    assert_eq!(sample.levels.len(), 3);
    sample.edit(block, change);
    let (records, checks) = walk(&sample);
    assert_eq!((records.len(), checks.first()), (left, Some(&expected)));
    assert!(records.is_sorted_by_key(|record| record.start));
    // A walk backwards also meets each damaged place, and must end.
    let cache = sample.cache();
    let mut cursor = cursor(&sample, &cache);
    let ends = (0..1000).any(|_| matches!(cursor.retreat(), Ok(None)));
    assert!(ends, "the walk backwards does not end");
}

/// The block number of the second leaf of the sample that `check_damage` damages.
const LEAF: u64 = FIRST_BLOCK + 1;
/// The block number of the second node above the leaves, in the sample that `check_damage` damages.
const NODE: u64 = FIRST_BLOCK + 10;
/// The block number of the root of the sample that `check_damage` damages.
const ROOT: u64 = FIRST_BLOCK + 12;
/// The offset in bytes of the pointers in a node.
const POINTERS: usize = 56 + 80 * 8;

#[test]
fn foreign_blocks_are_refused_and_skipped() {
    let owner = Check::ForeignOwner { found: 1, expected: 0 };
    check_damage(LEAF, |leaf| leaf[51] = 1, 24, owner.clone());
    check_damage(NODE, |node| node[51] = 1, 18, owner.clone());
    check_damage(ROOT, |root| root[51] = 1, 0, owner);
    let level = |found, expected| Check::Btree(BtreeCheck::LevelOnPath { found, expected });
    check_damage(NODE, |node| node[5] = 2, 18, level(2, 1));
    check_damage(ROOT, |root| root[5] = 1, 0, level(1, 2));
    check_damage(LEAF, |leaf| leaf[7] = 0, 24, Check::Btree(BtreeCheck::EmptyLeaf));
}

/// Checks I1 (levels fall by one) and I2 (keys rise strictly) of `xfs_btree`: a walk ends, whatever
/// the pointers in the blocks are.
#[test]
fn pointers_to_earlier_blocks_are_refused() {
    // The second child of the root is first the first child again, then the root itself, then a
    // leaf.
    let point = |to: u64| {
        move |root: &mut [u8]| {
            let to = u32::try_from(to).unwrap().to_be_bytes();
            root[POINTERS + 4..POINTERS + 8].copy_from_slice(&to);
        }
    };
    let level = |found| Check::Btree(BtreeCheck::LevelOnPath { found, expected: 1 });
    let sibling =
        |side, found, expected| Check::Btree(BtreeCheck::SiblingOnPath { side, found, expected });
    // The neighbours name the real second child, not the block that the root names instead.
    check_damage(ROOT, point(NODE - 1), 0, sibling("right", NODE, NODE - 1));
    check_damage(
        ROOT,
        point(ROOT),
        0,
        Check::Btree(BtreeCheck::SiblingOnPath { side: "right", found: NODE, expected: ROOT }),
    );
    let sample = free_space(27, 3);
    sample.edit(ROOT, point(ROOT));
    let name = |block: u64| u32::try_from(block).unwrap().to_be_bytes();
    sample.edit(NODE - 1, |node| node[12..16].copy_from_slice(&name(ROOT)));
    sample.edit(NODE + 1, |node| node[8..12].copy_from_slice(&name(ROOT)));
    let (records, checks) = walk(&sample);
    assert_eq!((records.len(), &checks[0]), (18, &level(2)));
}

/// Checks I2 of `xfs_btree`: the keys of a child must lie between its key in the parent and the
/// next key in the parent.
#[test]
fn keys_must_lie_between_those_of_the_parent() {
    let outside = |index| Check::Btree(BtreeCheck::OutsideParent { index });
    // Record 3 lies below its leaf's key, and record 5 lies at the key of the next leaf.
    check_damage(
        LEAF,
        |leaf| leaf[56..60].copy_from_slice(&1029_u32.to_be_bytes()),
        24,
        outside(0),
    );
    check_damage(
        LEAF,
        |leaf| leaf[72..76].copy_from_slice(&1060_u32.to_be_bytes()),
        24,
        outside(2),
    );
}

#[test]
fn siblings_must_name_each_other() {
    let sibling =
        |side, found, expected| Check::Btree(BtreeCheck::SiblingOnPath { side, found, expected });
    let name = |block: u64| u32::try_from(block).unwrap().to_be_bytes();
    check_damage(
        LEAF,
        |leaf| leaf[8..12].copy_from_slice(&name(LEAF + 4)),
        24,
        sibling("left", LEAF + 4, LEAF - 1),
    );
    check_damage(
        LEAF,
        |leaf| leaf[12..16].copy_from_slice(&[0xff; 4]),
        24,
        sibling("right", u64::MAX, LEAF + 1),
    );
    // The last leaf of a node must name a right sibling, and that sibling must name the leaf.
    let missing = Check::Btree(BtreeCheck::SiblingMissing { side: "right" });
    check_damage(LEAF + 1, |leaf| leaf[12..16].copy_from_slice(&[0xff; 4]), 24, missing);
    check_damage(
        LEAF + 1,
        |leaf| leaf[12..16].copy_from_slice(&name(LEAF + 5)),
        24,
        sibling("right", LEAF + 5, LEAF + 2),
    );
    // The blocks at the edges of the btree have no sibling there.
    check_damage(
        FIRST_BLOCK,
        |leaf| leaf[8..12].copy_from_slice(&name(LEAF)),
        24,
        sibling("left", LEAF, u64::MAX),
    );
}

#[test]
fn records_of_two_leaves_must_not_overlap() {
    let order = Check::Btree(BtreeCheck::Order { index: 0 });
    // The last extent of the leaf touches the first one of the next leaf.
    check_damage(LEAF, |leaf| leaf[76..80].copy_from_slice(&10_u32.to_be_bytes()), 24, order);
}

#[test]
fn impossible_roots_are_refused() {
    let sample = free_space(1, 3);
    let cache = sample.cache();
    for levels in [0, 7, u32::MAX] {
        let mut root = sample.root();
        root.levels = levels;
        let found = Cursor::<FreeSpaceByBlock>::new(&cache, sample.group(), root);
        assert!(found.is_err(), "{levels}");
    }
    let outside = Cursor::<FreeSpaceByBlock>::new(&cache, xfs_format::AgNumber(1), sample.root());
    assert!(outside.is_err());
    let mut root = sample.root();
    root.block = AgBlock::NULL;
    let mut cursor = Cursor::<FreeSpaceByBlock>::new(&cache, sample.group(), root).unwrap();
    assert_eq!(check_of(&cursor.first().unwrap_err()), Check::Btree(BtreeCheck::Outside));
    assert_eq!(cursor.advance().unwrap(), None);
}

/// Builds the extent btree of a file with `count` extents. Each extent has one block. The extents
/// lie at every second block of the file. A full block of the btree has `fan` entries. Returns the
/// btree, and the bytes of its root in the inode.
fn fork(count: u64, fan: usize) -> (Sample, Vec<u8>) {
    let record = |index: u64| {
        let (offset, block) = (2 * index, 5000 + 3 * index);
        let record = [(offset << 9).to_be_bytes(), (block << 21 | 1).to_be_bytes()].concat();
        (offset.to_be_bytes().to_vec(), record)
    };
    let records = (0..count).map(record).collect();
    let contents = Contents { kind: BtreeKind::Extent, owner: INODE.0, records };
    let sample = Sample::new(&contents, fan);
    let top = sample.levels.last().unwrap();
    let mut bytes = vec![0; 4 + 16 * 9];
    bytes[1] = u8::try_from(sample.levels.len()).unwrap();
    bytes[3] = u8::try_from(top.len()).unwrap();
    for (index, (block, key)) in top.iter().enumerate() {
        bytes[4 + 8 * index..12 + 8 * index].copy_from_slice(key);
        bytes[76 + 8 * index..84 + 8 * index].copy_from_slice(&block.to_be_bytes());
    }
    (sample, bytes)
}

#[test]
fn extents_of_a_fork_are_walked_from_its_root() {
    for (count, fan) in [(1, 4), (5, 4), (100, 4)] {
        let (sample, bytes) = fork(count, fan);
        let root = ExtentRoot::decode(&bytes).unwrap();
        let cache = sample.cache();
        let mut cursor = Cursor::in_fork(&cache, INODE, &root).unwrap();
        let wanted = xfs_format::FileBlock(count);
        let found = cursor.seek(Seek::AtOrBefore(wanted)).unwrap().unwrap();
        assert_eq!(found.file_block.0, count / 2 * 2);
        let cursor = Cursor::in_fork(&cache, INODE, &root).unwrap();
        let blocks: Vec<_> = cursor.records().map(|extent| extent.unwrap().start.0).collect();
        assert_eq!(blocks, (0..count).map(|index| 5000 + 3 * index).collect::<Vec<_>>());
    }
}

#[test]
fn blocks_of_another_fork_are_refused() {
    let (sample, bytes) = fork(100, 4);
    let root = ExtentRoot::decode(&bytes).unwrap();
    let cache = sample.cache();
    let mut cursor: Cursor<'_, Extents> =
        Cursor::in_fork(&cache, InodeNumber(8193), &root).unwrap();
    let found = check_of(&cursor.first().unwrap_err());
    assert_eq!(found, Check::ForeignOwner { found: INODE.0, expected: 8193 });
}
