//! Tests that allocate, free, share and map blocks at random. A check compares the volume with a
//! model that knows the use of every block.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_device::SharedDevice;
use xfs_format::reservation::TransactionKind;
use xfs_format::{AgNumber, FileBlock, FsBlock, InodeNumber, RoCompatFeatures};
use xfs_testkit::Prng;
use xfs_trans::testing::{crashed, make_sized};
use xfs_trans::{Journal, OpenIntent, Transaction};

use super::model::Model;
use crate::testing::{open, recover};
use crate::{
    AllocationTarget, BlockExtent, BlockPurpose, ExtentOwner, FileMapping, Section, SpaceRequest,
    allocate_extent, defer_convert, defer_free, defer_map, defer_share, defer_stage, defer_unmap,
    defer_unshare, defer_unstage, recover_leftovers, resume,
};

pub(super) const MIB: u64 = 1 << 20;
/// Number of blocks that the btrees of a group may take in addition to the requested ones.
const SPARE_BLOCKS: u64 = 64;

/// A volume, and its expected contents.
pub(super) struct TestVolume {
    pub(super) device: SharedDevice,
    pub(super) journal: Arc<Journal>,
    pub(super) model: Model,
    random: Prng,
    shares: bool,
    /// The first of the inode numbers that own the extents of this test.
    first_inode: u64,
}

impl TestVolume {
    pub(super) fn new(seed: u64, bytes: u64, options: &str) -> Self {
        let device = make_sized(bytes, options);
        let journal = open(&device, 0);
        let model = Model::new(journal.cache());
        let shares = journal.geometry().has_ro_compat(RoCompatFeatures::REFLINK);
        let first_inode = journal.superblock().root_inode.0 + 3;
        Self { device, journal, model, random: Prng::new(seed), shares, first_inode }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.within(0..limit)
    }

    pub(super) fn begin(&self, blocks: u32) -> Option<Transaction<'_>> {
        match self.journal.begin(TransactionKind::Write, u64::from(blocks) + SPARE_BLOCKS) {
            Ok(tx) => Some(tx),
            Err(Error::Posix(PosixError::NoSpace)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn request(&mut self) -> SpaceRequest {
        let maximum = 1 + self.below(40) as u32;
        let minimum = 1 + self.below(maximum as usize) as u32;
        let groups = self.journal.geometry().ag_count;
        let group = AgNumber(self.below(groups as usize) as u32);
        let near = self.model.mappings.last().map(|mapping| mapping.start);
        let target = match (self.below(5), near) {
            (0, Some(near)) => AllocationTarget::Exact(FsBlock(near.0 + 1)),
            (1, Some(near)) => AllocationTarget::Near(near),
            (2, Some(near)) => AllocationTarget::NearInGroup(near),
            (3, _) => AllocationTarget::Group(group),
            _ => AllocationTarget::FromGroup(group),
        };
        let request = SpaceRequest::new(target, minimum, maximum);
        match self.below(4) {
            0 => request.with_alignment(1 << self.below(4)),
            _ => request,
        }
    }

    fn file(&mut self) -> InodeNumber {
        InodeNumber(self.first_inode + self.below(6) as u64)
    }

    /// Returns an offset in a fork at which the model has no mapping, often directly after the last
    /// mapping.
    fn offset(&mut self, inode: InodeNumber) -> FileBlock {
        let mappings = self.model.mappings.iter().filter(|mapping| mapping.inode == inode);
        let ends = mappings.map(|mapping| mapping.offset.0 + u64::from(mapping.length_blocks));
        let end = ends.max().unwrap_or(0);
        FileBlock(if self.below(2) == 0 { end } else { end + 1 + self.below(9) as u64 })
    }

    fn allocate(&mut self) -> bool {
        let request = self.request();
        let inode = self.file();
        let mut mapping = FileMapping {
            inode,
            section: Section::Data,
            is_attr: self.below(5) == 0,
            shares: self.shares,
            offset: self.offset(inode),
            start: FsBlock(0),
            length_blocks: 0,
            is_unwritten: false,
        };
        mapping.is_unwritten = !mapping.is_attr && self.below(3) == 0;
        let Some(mut tx) = self.begin(40) else { return false };
        let Some(extent) = allocate_extent(&mut tx, &request).unwrap() else {
            tx.commit().unwrap();
            return false;
        };
        (mapping.start, mapping.length_blocks) = (extent.start, extent.length_blocks);
        defer_map(&mut tx, &mapping);
        tx.commit().unwrap();
        self.model.mappings.push(mapping);
        true
    }

    /// Removes a part of a random mapping from the model and returns it; the rest stays in the
    /// model. Returns `None` if there is no mapping.
    fn cut(&mut self) -> Option<FileMapping> {
        if self.model.mappings.is_empty() {
            return None;
        }
        let index = self.below(self.model.mappings.len());
        let whole = self.model.mappings.swap_remove(index);
        let from = self.below(whole.length_blocks as usize) as u32;
        let to = from + 1 + self.below((whole.length_blocks - from) as usize) as u32;
        let part = |range: std::ops::Range<u32>| FileMapping {
            offset: FileBlock(whole.offset.0 + u64::from(range.start)),
            start: FsBlock(whole.start.0 + u64::from(range.start)),
            length_blocks: range.end - range.start,
            ..whole
        };
        let rest = [part(0..from), part(to..whole.length_blocks)];
        self.model.mappings.extend(rest.into_iter().filter(|part| part.length_blocks > 0));
        Some(part(from..to))
    }

    fn free(&mut self) {
        let Some(part) = self.cut() else { return };
        let mut tx = self.journal.begin(TransactionKind::Truncate, 0).unwrap();
        defer_unmap(&mut tx, &part);
        let extent = BlockExtent { start: part.start, length_blocks: part.length_blocks };
        match part.shares && !part.is_attr {
            true => defer_unshare(&mut tx, Section::Data, extent),
            false => defer_free(&mut tx, extent, None, BlockPurpose::File),
        }
        tx.commit().unwrap();
    }

    fn share(&mut self) {
        let Some(part) = self.cut() else { return };
        self.model.mappings.push(part);
        if part.is_attr || !self.shares {
            return;
        }
        let inode = self.file();
        let copy = FileMapping { inode, offset: self.offset(inode), ..part };
        let Some(mut tx) = self.begin(0) else { return };
        defer_share(
            &mut tx,
            Section::Data,
            BlockExtent { start: part.start, length_blocks: part.length_blocks },
        );
        defer_map(&mut tx, &copy);
        tx.commit().unwrap();
        self.model.mappings.push(copy);
    }

    fn convert(&mut self) {
        let Some(part) = self.cut() else { return };
        if part.is_attr {
            self.model.mappings.push(part);
            return;
        }
        let Some(mut tx) = self.begin(0) else {
            self.model.mappings.push(part);
            return;
        };
        defer_convert(&mut tx, &part);
        tx.commit().unwrap();
        self.model.mappings.push(FileMapping { is_unwritten: !part.is_unwritten, ..part });
    }

    fn stage(&mut self) {
        if !self.shares {
            return;
        }
        if self.below(2) == 0 && !self.model.staged.is_empty() {
            let index = self.below(self.model.staged.len());
            let (start, length_blocks) = self.model.staged.swap_remove(index);
            let extent = BlockExtent { start, length_blocks };
            let mut tx = self.journal.begin(TransactionKind::Write, 0).unwrap();
            defer_unstage(&mut tx, Section::Data, extent);
            defer_free(&mut tx, extent, None, BlockPurpose::File);
            tx.commit().unwrap();
            return;
        }
        let request = self.request();
        let Some(mut tx) = self.begin(40) else { return };
        let found = allocate_extent(&mut tx, &request).unwrap();
        if let Some(extent) = found {
            defer_stage(&mut tx, Section::Data, extent);
        }
        tx.commit().unwrap();
        self.model.staged.extend(found.map(|extent| (extent.start, extent.length_blocks)));
    }

    fn metadata(&mut self) {
        if self.below(2) == 0 && !self.model.metadata.is_empty() {
            let index = self.below(self.model.metadata.len());
            let (inode, start) = self.model.metadata.swap_remove(index);
            let owner = ExtentOwner::fork_btree(InodeNumber(inode), false);
            let mut tx = self.journal.begin(TransactionKind::Truncate, 0).unwrap();
            let extent = BlockExtent { start, length_blocks: 1 };
            defer_free(&mut tx, extent, Some(owner), BlockPurpose::File);
            tx.commit().unwrap();
            return;
        }
        let inode = self.file();
        let owner = ExtentOwner::fork_btree(inode, false);
        let request =
            SpaceRequest::new(AllocationTarget::FromGroup(AgNumber(0)), 1, 1).with_owner(owner);
        let Some(mut tx) = self.begin(1) else { return };
        let found = allocate_extent(&mut tx, &request).unwrap();
        tx.commit().unwrap();
        self.model.metadata.extend(found.map(|extent| (inode.0, extent.start)));
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=4 => drop(self.allocate()),
            5..=7 => self.free(),
            8 => self.share(),
            9 => self.convert(),
            10 => self.stage(),
            _ => self.metadata(),
        }
    }

    /// Compares the volume with the model, and its counters with those of a new mount.
    pub(super) fn check(&self) {
        self.model.check(self.journal.cache());
        let superblock = self.journal.superblock();
        let counts = crate::open::open_space(self.journal.cache(), superblock).unwrap().counts;
        assert_eq!(self.journal.counts(), counts);
    }

    /// Simulates a crash at this moment, recovers a copy of the volume, and compares it with the
    /// model.
    fn check_crashed(&self) {
        self.journal.force_all().unwrap();
        let device = crashed(&self.device);
        let (journal, open) = recover(&device);
        assert!(open.is_empty(), "all work is done");
        self.model.check(journal.cache());
        assert_eq!(journal.counts(), self.journal.counts());
        journal.unmount().unwrap();
    }
}

pub(super) const GEOMETRIES: [(u64, &str); 5] = [
    (64 * MIB, "-b size=1k -d agcount=2 -m rmapbt=1,reflink=1"),
    (96 * MIB, "-b size=4k -d agcount=4 -m rmapbt=1,reflink=1"),
    (96 * MIB, "-b size=4k -d agcount=3 -m rmapbt=0,reflink=1"),
    (64 * MIB, "-b size=1k -d agcount=2 -m rmapbt=1,reflink=0"),
    (64 * MIB, "-b size=4k -d agcount=2 -m rmapbt=0,reflink=0"),
];

#[test]
fn space_changed_at_random_equals_the_model() {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let seeds = if is_long { 60 } else { GEOMETRIES.len() };
    for (seed, (bytes, options)) in (0..seeds).zip(GEOMETRIES.into_iter().cycle()) {
        println!("seed {seed}: {options}");
        let mut volume = TestVolume::new(seed as u64, bytes, options);
        for round in 0..6 {
            for _ in 0..60 {
                volume.step();
            }
            volume.check();
            if round % 3 == 2 {
                volume.check_crashed();
            }
        }
        let TestVolume { device, journal, mut model, .. } = volume;
        // After a new mount no file owns the staged blocks.
        assert_eq!(
            recover_leftovers(&journal).unwrap(),
            model.staged.drain(..).map(|(_, count)| u64::from(count)).sum::<u64>()
        );
        model.check(journal.cache());
        let counts = journal.counts();
        journal.unmount().unwrap();
        let journal = open(&device, 0);
        assert_eq!(journal.counts(), counts);
        model.check(journal.cache());
    }
}

#[test]
fn small_extents_make_every_btree_grow_and_shrink() {
    let mut volume = TestVolume::new(7, 64 * MIB, "-b size=1k -d agcount=2 -m rmapbt=1,reflink=1");
    let inode = InodeNumber(volume.journal.superblock().root_inode.0 + 3);
    // Every second block of a stretch, so that no extents join; some of them shared.
    let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(1)), 4000, 4000);
    let mut tx = volume.begin(4000).unwrap();
    let extent = allocate_extent(&mut tx, &request).unwrap().unwrap();
    let whole = FileMapping {
        inode,
        section: Section::Data,
        is_attr: false,
        shares: true,
        offset: FileBlock(0),
        start: extent.start,
        length_blocks: extent.length_blocks,
        is_unwritten: false,
    };
    defer_map(&mut tx, &whole);
    tx.commit().unwrap();
    let block = |index: u32| FileMapping {
        offset: FileBlock(u64::from(index)),
        start: FsBlock(extent.start.0 + u64::from(index)),
        length_blocks: 1,
        ..whole
    };
    volume.model.mappings.extend((0..4000).map(block));
    for index in (1..4000).step_by(2) {
        let mut tx = volume.journal.begin(TransactionKind::Truncate, 0).unwrap();
        let (old, copy) =
            (block(index), FileMapping { inode: InodeNumber(inode.0 + 1), ..block(index - 1) });
        defer_unmap(&mut tx, &old);
        defer_unshare(&mut tx, Section::Data, BlockExtent { start: old.start, length_blocks: 1 });
        defer_share(&mut tx, Section::Data, BlockExtent { start: copy.start, length_blocks: 1 });
        defer_map(&mut tx, &copy);
        tx.commit().unwrap();
        volume.model.mappings.retain(|mapping| *mapping != old);
        volume.model.mappings.push(copy);
    }
    volume.check();
    let agf = crate::read_agf(volume.journal.cache(), AgNumber(1)).unwrap();
    assert!(agf.refcount.unwrap().levels > 1, "{agf:?}");
    assert!(agf.reverse_map.unwrap().levels > 1, "{agf:?}");
    assert!(agf.free_space_by_block.levels > 1, "{agf:?}");
    while volume.model.mappings.len() > 1 {
        let part = volume.model.mappings.pop().unwrap();
        let mut tx = volume.journal.begin(TransactionKind::Truncate, 0).unwrap();
        defer_unmap(&mut tx, &part);
        defer_unshare(&mut tx, Section::Data, BlockExtent { start: part.start, length_blocks: 1 });
        tx.commit().unwrap();
    }
    volume.check();
    let agf = crate::read_agf(volume.journal.cache(), AgNumber(1)).unwrap();
    assert_eq!((agf.refcount.unwrap().levels, agf.free_space_by_block.levels), (1, 1), "{agf:?}");
}

#[test]
fn freed_blocks_are_not_allocated_before_the_free_is_durable() {
    let mut volume = TestVolume::new(3, 64 * MIB, "-b size=4k -d agcount=2");
    assert!(volume.allocate());
    let part = volume.model.mappings.pop().unwrap();
    let mut tx = volume.journal.begin(TransactionKind::Truncate, 0).unwrap();
    defer_unmap(&mut tx, &part);
    let extent = BlockExtent { start: part.start, length_blocks: part.length_blocks };
    defer_unshare(&mut tx, Section::Data, extent);
    let freed = tx.commit().unwrap();
    assert!(volume.journal.log().durable_sequence() < freed.sequence);
    // The allocator forces the log before it returns exactly these blocks.
    let request = SpaceRequest::new(AllocationTarget::Exact(part.start), 1, part.length_blocks);
    let mut tx = volume.begin(part.length_blocks).unwrap();
    assert_eq!(allocate_extent(&mut tx, &request).unwrap(), Some(extent));
    assert!(volume.journal.log().durable_sequence() >= freed.sequence);
    defer_map(&mut tx, &part);
    tx.commit().unwrap();
    volume.model.mappings.push(part);
    volume.check();
}

/// Finishes the work of open intents, as recovery would.
pub(super) fn finish(journal: &Arc<Journal>, open: &[OpenIntent]) {
    let captured: Vec<_> = open
        .iter()
        .map(|intent| {
            let works = intent.payloads().iter();
            let works = works.map(|work| resume(journal.geometry(), work).unwrap().unwrap());
            journal.resume(intent, works.collect(), TransactionKind::Truncate, 0).unwrap()
        })
        .collect();
    for captured in captured {
        captured.finish(journal).unwrap();
    }
}

#[test]
fn intents_left_open_by_a_crash_are_finished() {
    for seed in 0..8 {
        let mut volume =
            TestVolume::new(seed, 64 * MIB, "-b size=4k -d agcount=2 -m rmapbt=1,reflink=1");
        for _ in 0..20 {
            volume.step();
        }
        let Some(part) = volume.cut() else { continue };
        if part.is_attr {
            continue;
        }
        // Only the first step is durable: the transaction is never finished.
        let mut tx = volume.journal.begin(TransactionKind::Truncate, 0).unwrap();
        let copy = FileMapping { inode: InodeNumber(part.inode.0 + 20), ..part };
        defer_unmap(&mut tx, &part);
        defer_map(&mut tx, &copy);
        defer_share(
            &mut tx,
            Section::Data,
            BlockExtent { start: part.start, length_blocks: part.length_blocks },
        );
        defer_unshare(
            &mut tx,
            Section::Data,
            BlockExtent { start: part.start, length_blocks: part.length_blocks },
        );
        tx.roll().unwrap();
        volume.journal.force_all().unwrap();
        let device = crashed(&volume.device);
        let (journal, open) = recover(&device);
        assert_eq!(open.len(), 2, "an intent of each kind");
        finish(&journal, &open);
        let mut model = volume.model.clone();
        model.mappings.push(copy);
        model.check(journal.cache());
        journal.unmount().unwrap();
        tx.commit().unwrap();
    }
}

/// Runs threads that each change their own files, in a volume that they fill together. Checks that
/// the volume then equals the model of all files.
#[test]
fn volume_changed_by_threads_equals_the_model() {
    let device = make_sized(96 * MIB, "-b size=4k -d agcount=4 -m rmapbt=1,reflink=1");
    let journal = open(&device, 1);
    let fresh = Model::new(journal.cache());
    let run = |thread: u64| {
        let mut volume = TestVolume {
            device: Arc::clone(&device),
            journal: Arc::clone(&journal),
            model: fresh.clone(),
            random: Prng::new(thread),
            shares: true,
            first_inode: journal.superblock().root_inode.0 + 3 + 10 * thread,
        };
        for _ in 0..250 {
            volume.step();
        }
        volume.model
    };
    let models: Vec<Model> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut model = fresh.clone();
    for other in models {
        model.mappings.extend(other.mappings);
        model.metadata.extend(other.metadata);
        model.staged.extend(other.staged);
    }
    model.check(journal.cache());
    journal.unmount().unwrap();
    model.check(open(&device, 0).cache());
}
