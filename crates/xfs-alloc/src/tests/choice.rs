//! Tests of the choice that an allocation makes among several free extents.

use std::sync::Arc;

use xfs_format::reservation::TransactionKind;
use xfs_format::{AgNumber, FileBlock, FsBlock, InodeNumber};
use xfs_trans::Journal;
use xfs_trans::testing::make_sized;

use super::space::MIB;
use crate::testing::open;
use crate::{
    AllocationTarget, BlockExtent, BlockPurpose, FileMapping, Section, SpaceRequest,
    allocate_extent, defer_free, defer_map, defer_unmap,
};

/// The free extents within a run of used blocks. For each, its offset from the start of the run and
/// its length, in blocks.
const HOLES: [(u32, u32); 4] = [(100, 4), (300, 4), (400, 10), (500, 20)];
const RUN_BLOCKS: u32 = 700;

/// A volume of one group, with a run of used blocks in which only the extents [`HOLES`] are free.
struct Holes {
    journal: Arc<Journal>,
    first: FsBlock,
}

fn mapping(inode: InodeNumber, start: FsBlock, length_blocks: u32) -> FileMapping {
    FileMapping {
        inode,
        section: Section::Data,
        is_attr: false,
        shares: false,
        offset: FileBlock(start.0),
        start,
        length_blocks,
        is_unwritten: false,
    }
}

impl Holes {
    fn new() -> Self {
        let device = make_sized(64 * MIB, "-d agcount=1");
        let journal = open(&device, 0);
        let mut holes = Self { journal, first: FsBlock(0) };
        let target = AllocationTarget::FromGroup(AgNumber(0));
        let run = holes.take(SpaceRequest::new(target, RUN_BLOCKS, RUN_BLOCKS));
        holes.first = run.start;
        for (offset, length_blocks) in HOLES {
            let part = mapping(holes.inode(), holes.at(offset), length_blocks);
            let mut tx = holes.journal.begin(TransactionKind::Truncate, 0).unwrap();
            defer_unmap(&mut tx, &part);
            let extent = BlockExtent { start: part.start, length_blocks };
            defer_free(&mut tx, extent, None, BlockPurpose::File);
            tx.commit().unwrap();
        }
        // Freed blocks are not allocated before the free is durable.
        holes.journal.force_all().unwrap();
        holes
    }

    fn inode(&self) -> InodeNumber {
        InodeNumber(self.journal.superblock().root_inode.0 + 3)
    }

    fn at(&self, offset: u32) -> FsBlock {
        FsBlock(self.first.0 + u64::from(offset))
    }

    fn take(&self, request: SpaceRequest) -> BlockExtent {
        let mut tx = self.journal.begin(TransactionKind::Write, 1000).unwrap();
        let extent = allocate_extent(&mut tx, &request).unwrap().expect("the group has blocks");
        defer_map(&mut tx, &mapping(self.inode(), extent.start, extent.length_blocks));
        tx.commit().unwrap();
        extent
    }

    /// Requests up to `most` blocks near block `target`. Checks that the extent found is
    /// `expected`: its first block and its length. Blocks are counted from the start of the area
    /// with the [`HOLES`].
    fn check_near(target: u32, most: u32, expected: (u32, u32)) {
        let holes = Self::new();
        let near = AllocationTarget::Near(holes.at(target));
        let found = holes.take(SpaceRequest::new(near, 1, most));
        let offset = found.start.0 - holes.first.0;
        assert_eq!((offset as u32, found.length_blocks), expected, "{most} near {target}");
    }
}

#[test]
fn allocation_near_a_block_takes_the_nearest_extent_on_either_side() {
    Holes::check_near(150, 4, (100, 4));
    Holes::check_near(250, 4, (300, 4));
    Holes::check_near(200, 4, (100, 4));
    Holes::check_near(390, 2, (400, 2));
    // The nearest extents are too short.
    Holes::check_near(150, 8, (400, 8));
}

#[test]
fn allocation_without_a_place_takes_the_shortest_extent_that_suffices() {
    let holes = Holes::new();
    for (most, offset) in [(20, 500), (10, 400), (4, 100), (4, 300)] {
        let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(0)), 1, most);
        let found = holes.take(request);
        assert_eq!((found.start, found.length_blocks), (holes.at(offset), most));
    }
}
