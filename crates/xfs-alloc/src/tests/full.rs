//! Tests of volumes that one or several threads fill to the last block and empty again.

use std::collections::VecDeque;
use std::iter::from_fn;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::reservation::TransactionKind;
use xfs_format::{AgNumber, FileBlock, FsBlock, InodeNumber};
use xfs_testkit::Prng;
use xfs_trans::Journal;
use xfs_trans::testing::make_sized;

use super::model::Model;
use super::space::{GEOMETRIES, MIB, TestVolume};
use super::waiting::ends;
use crate::testing::open;
use crate::{
    AgHeaders, AllocationTarget, BlockExtent, BlockPurpose, FileMapping, SpaceRequest,
    allocate_extent, defer_free, defer_map, defer_unmap,
};

/// The file of one thread, which fills the file with as many blocks as it can get.
struct Filler<'a> {
    journal: &'a Arc<Journal>,
    inode: InodeNumber,
    group: AgNumber,
    mappings: Vec<FileMapping>,
}

impl<'a> Filler<'a> {
    fn new(journal: &'a Arc<Journal>, number: u32) -> Self {
        let inode = InodeNumber(journal.superblock().root_inode.0 + 3 + u64::from(number));
        let group = AgNumber(number % journal.geometry().ag_count);
        Self { journal, inode, group, mappings: Vec::new() }
    }

    /// Takes extents of up to `most` blocks until an allocation fails. Then halves the length and
    /// repeats this, down to single blocks.
    fn fill(&mut self, mut most: u32) {
        let mut offset = 0;
        while most > 0 {
            let mut tx = match self.journal.begin(TransactionKind::Write, most.into()) {
                Ok(tx) => tx,
                Err(Error::Posix(PosixError::NoSpace)) => {
                    most /= 2;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let request = SpaceRequest::new(AllocationTarget::FromGroup(self.group), 1, most);
            let Some(extent) = allocate_extent(&mut tx, &request).unwrap() else {
                tx.commit().unwrap();
                most /= 2;
                continue;
            };
            let mapping = FileMapping {
                inode: self.inode,
                section: crate::Section::Data,
                is_attr: false,
                shares: false,
                offset: FileBlock(offset),
                start: extent.start,
                length_blocks: extent.length_blocks,
                is_unwritten: false,
            };
            offset += u64::from(extent.length_blocks);
            defer_map(&mut tx, &mapping);
            tx.commit().unwrap();
            self.mappings.push(mapping);
        }
    }

    fn empty(&mut self) {
        while let Some(part) = self.mappings.pop() {
            let mut tx = self.journal.begin(TransactionKind::Truncate, 0).unwrap();
            defer_unmap(&mut tx, &part);
            let extent = BlockExtent { start: part.start, length_blocks: part.length_blocks };
            defer_free(&mut tx, extent, None, BlockPurpose::File);
            tx.commit().unwrap();
        }
    }
}

#[test]
fn full_volume_reports_no_space_and_can_be_emptied() {
    for (bytes, options) in GEOMETRIES {
        let mut volume = TestVolume::new(11, bytes, options);
        let journal = Arc::clone(&volume.journal);
        let free = journal.counts().free_blocks;
        let mut filler = Filler::new(&journal, 0);
        filler.fill(2000);
        volume.model.mappings.clone_from(&filler.mappings);
        volume.check();
        let left = journal.counts().free_blocks;
        assert!(left < free / 50, "{left} of {free} blocks are left on {options}");
        filler.empty();
        volume.model.mappings.clear();
        volume.check();
        assert_eq!(journal.counts().free_blocks, free, "{options}");
    }
}

#[test]
fn volume_filled_and_emptied_by_threads_equals_the_model() {
    for options in ["-b size=1k -d agcount=3 -m rmapbt=1", "-b size=4k -d agcount=2 -m rmapbt=0"] {
        let device = make_sized(64 * MIB, options);
        let journal = open(&device, 1);
        let mut model = Model::new(journal.cache());
        let free = journal.counts().free_blocks;
        let mut fillers: Vec<_> = (0..4).map(|number| Filler::new(&journal, number)).collect();
        for most in [300, 7] {
            std::thread::scope(|scope| {
                for filler in &mut fillers {
                    scope.spawn(move || filler.fill(most));
                }
            });
            let mappings = fillers.iter().flat_map(|filler| filler.mappings.iter().copied());
            model.mappings = mappings.collect();
            model.check(journal.cache());
            let left = journal.counts().free_blocks;
            assert!(left < free / 50, "{left} of {free} blocks are left on {options}");
            std::thread::scope(|scope| {
                for filler in &mut fillers {
                    scope.spawn(move || filler.empty());
                }
            });
            model.mappings.clear();
            model.check(journal.cache());
            assert_eq!(journal.counts().free_blocks, free, "{options}");
        }
    }
}

/// Checks that a chain of frees ends. Free extents of one block exactly fill the leaves of the
/// btrees. Freeing an excess block of the free list then splits a leaf. The free list must become
/// longer and takes blocks out of the leaves, and the leaves are joined again.
#[test]
fn chain_of_frees_ends_where_the_free_list_splits_and_joins_a_leaf() {
    ends(check_chains_at_a_full_leaf);
}

fn check_chains_at_a_full_leaf() {
    /// Number of records in a leaf of 1 KiB.
    const LEAF_RECORDS: usize = 121;
    let options = "-b size=1k -d agcount=1 -m rmapbt=0,reflink=0";
    let journal = open(&make_sized(16 * MIB, options), 1);
    let take = |most: u32| {
        let mut tx = journal.begin_from_pool(TransactionKind::Write, most.into()).ok()?;
        let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(0)), most, most);
        let extent = allocate_extent(&mut tx, &request).unwrap();
        tx.commit().unwrap();
        extent
    };
    let extents: Vec<_> = [4096, 64, 1].iter().flat_map(|most| from_fn(|| take(*most))).collect();
    // Every second block, so that no two of them join.
    let apart = extents.iter().flat_map(|extent| {
        (0..extent.length_blocks).step_by(2).map(|index| FsBlock(extent.start.0 + u64::from(index)))
    });
    let mut used: VecDeque<_> = apart.collect();
    let (mut random, mut free_count) = (Prng::new(7), 0);
    for _ in 0..6000 {
        let count = random.within(1..5);
        if free_count < LEAF_RECORDS - 10
            || (free_count < LEAF_RECORDS + 4 && random.within(0..2) == 0)
        {
            let mut tx = journal.begin(TransactionKind::Truncate, 0).unwrap();
            for start in used.drain(..count) {
                defer_free(
                    &mut tx,
                    BlockExtent { start, length_blocks: 1 },
                    None,
                    BlockPurpose::File,
                );
            }
            tx.commit().unwrap();
            free_count += count;
        } else {
            let taken = (0..count).map_while(|_| take(1));
            used.extend(taken.map(|extent| extent.start));
            free_count -= count;
        }
    }
    AgHeaders::read(journal.cache(), AgNumber(0))
        .unwrap()
        .verify_counters(journal.cache())
        .unwrap();
}
