//! Tests of transaction steps that need groups which other steps keep, that is, whose headers other
//! steps hold latched until they commit. Each step must wait or use another group, and all steps
//! must end.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use xfs_buffer::{Buffer, Error, PosixError};
use xfs_format::agf::{AGF_SECTOR, AgfCheck};
use xfs_format::reservation::TransactionKind;
use xfs_format::{AgBlock, AgInode, AgNumber, BlockKind, Check, FsBlock, Structure};
use xfs_testkit::Prng;
use xfs_trans::testing::{change_core, make_sized};
use xfs_trans::{InodeRecord, Journal, Transaction};

use super::space::MIB;
use crate::testing::open;
use crate::{
    AgHeaders, AllocationTarget, BlockExtent, BlockPurpose, InodePurpose, LinkState, SpaceRequest,
    add_unlinked, allocate_extent, allocate_inode, defer_free, free_inode, inode_blocks,
};

/// The time after which a test fails, because it waits for something that does not happen. It is
/// far above the run time of the tests. The code under test has no such limit.
const HANG: Duration = Duration::from_secs(60);

/// The bytes of the AGF that hold the number of free blocks.
const FREE_BLOCKS: std::ops::Range<usize> = 52..56;

/// Runs `work` in a thread, and fails if it does not end within `HANG`.
pub(super) fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
        panic!("the test does not end");
    }
    thread.join().unwrap();
}

fn volume(groups: u32) -> Arc<Journal> {
    volume_with(groups, "-b size=4k")
}

fn volume_with(groups: u32, options: &str) -> Arc<Journal> {
    let options = format!("{options} -d agcount={groups} -m rmapbt=0,reflink=0 -l size=8m");
    open(&make_sized(u64::from(groups) * 16 * MIB, &options), 1)
}

fn begin(journal: &Arc<Journal>, blocks: u64) -> Transaction<'_> {
    journal.begin_from_pool(TransactionKind::Write, blocks).unwrap()
}

/// Returns the buffer of a group's AGF, not latched.
fn header(journal: &Journal, group: u32) -> Buffer {
    let geometry = journal.geometry();
    let at = geometry.header_disk_addr(AgNumber(group), AGF_SECTOR);
    journal.cache().read(at, geometry.sector_size, BlockKind::Agf).unwrap()
}

fn is_free(header: &Buffer) -> bool {
    let is_free = header.try_latch();
    if is_free {
        header.unlatch();
    }
    is_free
}

/// Waits until some thread sleeps on the latch of this header.
fn until_awaited(header: &Buffer) {
    let start = Instant::now();
    while !header.has_waiters() {
        assert!(start.elapsed() < HANG, "no thread waits for the header");
        std::thread::yield_now();
    }
}

fn take(tx: &mut Transaction<'_>, target: AllocationTarget) -> Option<BlockExtent> {
    allocate_extent(tx, &SpaceRequest::new(target, 1, 1)).unwrap()
}

/// Allocates blocks in each group until files can get only `blocks[n]` more blocks of group n.
fn leave_each(journal: &Arc<Journal>, blocks: &[usize]) {
    (0..).zip(blocks).for_each(|(group, left)| leave(journal, group, *left));
}

/// Takes all blocks that files may have in a group, then frees `left` of these blocks. No two of
/// the freed blocks are neighbours.
fn leave(journal: &Arc<Journal>, group: u32, left: usize) {
    let mut extents = Vec::new();
    for most in [2048, 256, 16, 1] {
        loop {
            let begun = journal.begin_from_pool(TransactionKind::Write, most.into());
            let Ok(mut tx) = begun else { break };
            let target = AllocationTarget::Group(AgNumber(group));
            let found = allocate_extent(&mut tx, &SpaceRequest::new(target, most, most)).unwrap();
            tx.commit().unwrap();
            let Some(found) = found else { break };
            extents.push(found);
        }
    }
    let largest = extents.first().expect("the group has blocks");
    let blocks = (0..left as u64).map(|index| FsBlock(largest.start.0 + 2 * index));
    free(journal, blocks.map(|start| BlockExtent { start, length_blocks: 1 }));
}

/// Frees extents, and waits until they are durably free, so that they can be allocated again.
fn free(journal: &Arc<Journal>, extents: impl IntoIterator<Item = BlockExtent>) {
    for extent in extents {
        let mut tx = journal.begin(TransactionKind::Truncate, 0).unwrap();
        defer_free(&mut tx, extent, None, BlockPurpose::File);
        tx.commit().unwrap();
    }
    journal.force_all().unwrap();
}

#[test]
fn step_with_an_inode_header_sleeps_until_a_lower_group_is_released() {
    ends(|| {
        let journal = volume(3);
        let group_0 = header(&journal, 0);
        let mut holder = begin(&journal, 8);
        take(&mut holder, AllocationTarget::Group(AgNumber(0))).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let parent = journal.geometry().join_inode(AgNumber(2), AgInode(64));
                let blocks = inode_blocks(journal.geometry()) + 8;
                let mut tx = journal.begin(TransactionKind::CreateUnnamed, blocks).unwrap();
                let made = allocate_inode(&mut tx, parent, InodePurpose::File).unwrap();
                assert_eq!(journal.geometry().split_inode(made.number()).unwrap().0, AgNumber(2));
                let found = take(&mut tx, AllocationTarget::Group(AgNumber(0)));
                tx.commit().unwrap();
                found
            });
            until_awaited(&group_0);
            assert!(!waiter.is_finished(), "the group is not released");
            holder.commit().unwrap();
            assert!(waiter.join().unwrap().is_some(), "the release has woken the waiter");
        });
        assert!(!journal.is_shut_down());
    });
}

/// No group has the 60 blocks that a step needs. Checks that the step waits for the lower group
/// before it keeps any other group, so that the other groups stay free for other steps while it
/// waits.
#[test]
fn step_that_needs_two_groups_waits_for_the_lower_before_it_keeps_the_other() {
    ends(|| {
        let journal = volume(3);
        leave_each(&journal, &[40, 40, 0]);
        let headers = [0, 1, 2].map(|group| header(&journal, group));
        let mut holder = begin(&journal, 1);
        take(&mut holder, AllocationTarget::Group(AgNumber(0))).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut tx = begin(&journal, 60);
                for _ in 0..60 {
                    // I2: none of them is refused.
                    take(&mut tx, AllocationTarget::FromGroup(AgNumber(1))).unwrap();
                }
                tx.commit().unwrap();
            });
            until_awaited(&headers[0]);
            assert!(is_free(&headers[1]), "the waiter keeps nothing (I1)");
            assert!(is_free(&headers[2]), "the waiter keeps nothing (I1)");
            holder.commit().unwrap();
            waiter.join().unwrap();
        });
        assert!(!journal.is_shut_down());
    });
}

#[test]
fn step_keeps_only_the_groups_that_it_may_need() {
    let journal = volume(4);
    leave_each(&journal, &[40, 0, 40, 40]);
    let mut tx = begin(&journal, 50);
    take(&mut tx, AllocationTarget::FromGroup(AgNumber(2))).unwrap();
    let kept = [0, 1, 2, 3].map(|group| !is_free(&header(&journal, group)));
    assert_eq!(kept, [true, false, true, false]);
    tx.commit().unwrap();
}

/// Checks that a step keeps all groups before it refuses a request. Only such a step knows that no
/// group can serve the request.
#[test]
fn request_that_no_group_can_serve_is_refused_with_all_groups_kept() {
    let journal = volume(3);
    leave_each(&journal, &[20, 20, 20]);
    let keeps = || [0, 1, 2].map(|group| !is_free(&header(&journal, group)));
    let mut tx = begin(&journal, 25);
    let run = SpaceRequest::new(AllocationTarget::FromGroup(AgNumber(1)), 9, 9);
    assert_eq!(allocate_extent(&mut tx, &run).unwrap(), None);
    assert_eq!(keeps(), [true; 3]);
    for _ in 0..25 {
        take(&mut tx, AllocationTarget::FromGroup(AgNumber(2))).expect("I2: they are reserved");
        assert_eq!(keeps(), [true; 3], "the rest of the step may need them");
    }
    tx.commit().unwrap();
    assert_eq!(keeps(), [false; 3], "the commit releases them");
}

/// Checks that a header that counts free blocks which do not exist is reported as corrupt. Without
/// the report, a step that relies on these blocks would break I2 of `xfs_alloc::allocate`.
#[test]
fn header_that_promises_missing_blocks_is_corrupt() {
    let journal = volume(1);
    leave_each(&journal, &[3]);
    let agf = header(&journal, 0);
    agf.latch();
    let free = u32::from_be_bytes(agf.bytes()[FREE_BLOCKS].try_into().unwrap());
    agf.bytes_mut()[FREE_BLOCKS].copy_from_slice(&(free + 1000).to_be_bytes());
    agf.unlatch();
    let mut tx = begin(&journal, 3);
    let wanted = SpaceRequest::new(AllocationTarget::Group(AgNumber(0)), 1, 1);
    let mut taken = 0;
    let error = loop {
        match allocate_extent(&mut tx, &wanted) {
            Ok(found) => found.expect("a group has blocks"),
            Err(error) => break error,
        };
        taken += 1;
    };
    assert!((3..100).contains(&taken), "{taken} blocks");
    let Error::Corrupt(corruption) = error else { panic!("{error}") };
    assert_eq!(corruption.structure(), Structure::Agf);
    assert!(matches!(corruption.check(), Check::Agf(AgfCheck::FreeBlocks { longest: 0, .. })));
    tx.cancel();
}

/// The last group has room for a part of a chunk only where the chunk would reach past the end of
/// the group. The allocation of an inode finds that out only after it has changed the group. Checks
/// that the allocation releases the group before it tries the next one.
#[test]
fn group_that_changed_without_making_inodes_is_released_before_the_next() {
    let options = "-d agsize=18m -m finobt=0,rmapbt=0,reflink=0 -l size=8m";
    let journal = open(&make_sized(3 * 18 * MIB - (4 << 12), options), 1);
    let geometry = journal.geometry();
    let last = AgNumber(2);
    let length = geometry.ag_length(last);
    assert_eq!((length % 8, geometry.sparse_alignment_blocks), (4, 4), "a part of a chunk is last");
    // The last group first: the pool ends before the groups do.
    [(2, 10), (0, 0), (1, 0)].into_iter().for_each(|(group, left)| leave(&journal, group, left));
    let block = |group, block| geometry.join_block(AgNumber(group), AgBlock(block));
    free(
        &journal,
        [
            BlockExtent { start: block(0, 1024), length_blocks: 64 },
            BlockExtent { start: block(2, length - 7), length_blocks: 7 },
        ],
    );
    let mut tx =
        journal.begin_from_pool(TransactionKind::CreateUnnamed, inode_blocks(geometry)).unwrap();
    let parent = geometry.join_inode(last, AgInode(64));
    let step = tx.step();
    let made = allocate_inode(&mut tx, parent, InodePurpose::File).unwrap();
    assert_eq!(geometry.split_inode(made.number()).unwrap().0, AgNumber(0));
    assert!(!tx.keeps_space(), "the group that was tried in vain is released (I6)");
    assert!(tx.step() > step, "by a roll");
    tx.commit().unwrap();
    assert!(!journal.is_shut_down());
}

/// A step that keeps a group requests blocks of a lower group, which another step keeps. Checks
/// that the request returns at once, without a wait for that group. The other step may be waiting
/// for the first step, so that neither would end.
#[test]
fn steps_that_keep_a_group_and_ask_for_the_others_both_end() {
    ends(|| {
        let journal = volume(2);
        let group = |number| AllocationTarget::Group(AgNumber(number));
        let group_1 = header(&journal, 1);
        let both_keep = Barrier::new(2);
        std::thread::scope(|scope| {
            let lower = scope.spawn(|| {
                let mut tx = begin(&journal, 8);
                take(&mut tx, group(0)).unwrap();
                both_keep.wait();
                let found = take(&mut tx, group(1));
                tx.commit().unwrap();
                found
            });
            let mut tx = begin(&journal, 8);
            take(&mut tx, group(1)).unwrap();
            both_keep.wait();
            until_awaited(&group_1);
            assert_eq!(take(&mut tx, group(0)), None, "nothing waits for a lower group (I1)");
            // The blocks that the step may need are in the group that it keeps.
            assert!(take(&mut tx, AllocationTarget::FromGroup(AgNumber(0))).is_some(), "I2");
            assert!(!lower.is_finished(), "the other step still waits");
            tx.commit().unwrap();
            assert!(lower.join().unwrap().is_some(), "it was woken");
        });
        assert!(!journal.is_shut_down());
    });
}

/// One thread's work on a volume on which no group has many free blocks.
struct Worker {
    journal: Arc<Journal>,
    random: Prng,
    taken: Vec<BlockExtent>,
    inodes: Vec<Arc<InodeRecord>>,
    /// The largest number of blocks that a transaction reserves. It is larger than the number of
    /// free blocks of any group.
    most_blocks: usize,
    /// Number of allocations that found nothing although the transaction had reserved the blocks.
    refused: u32,
}

impl Worker {
    fn group(&mut self) -> AgNumber {
        AgNumber(self.random.within(0..self.journal.geometry().ag_count as usize) as u32)
    }

    /// Takes `count` single blocks, each from a random group or, if that group has none, from the
    /// groups after it. The transaction has reserved the blocks. Only the first allocation may find
    /// none. From then on, the step keeps the groups that have all blocks that it may need.
    fn take_blocks(&mut self, tx: &mut Transaction<'_>, count: u64) {
        for index in 0..count {
            let target = AllocationTarget::FromGroup(self.group());
            match take(tx, target) {
                Some(extent) => self.taken.push(extent),
                None => {
                    assert_eq!(index, 0, "I2: a step that has a block keeps those it may need");
                    self.refused += 1;
                    return;
                }
            }
            if self.random.within(0..8) == 0 {
                std::thread::yield_now();
            }
        }
    }

    fn write(&mut self) {
        let journal = Arc::clone(&self.journal);
        let reserved = self.random.within(1..self.most_blocks) as u64;
        let Some(mut tx) = begin_if_free(&journal, TransactionKind::Write, reserved) else {
            return;
        };
        let count = self.random.within(1..reserved as usize + 1) as u64;
        self.take_blocks(&mut tx, count);
        tx.commit().unwrap();
    }

    /// Makes an inode and takes blocks of other groups in the same transaction step, as the
    /// creation of a file does if its directory must grow.
    fn create(&mut self) {
        let journal = Arc::clone(&self.journal);
        let blocks = inode_blocks(journal.geometry()) + 8;
        let Some(mut tx) = begin_if_free(&journal, TransactionKind::CreateUnnamed, blocks) else {
            return;
        };
        let group = self.group();
        let parent = journal.geometry().join_inode(group, AgInode(64));
        match allocate_inode(&mut tx, parent, InodePurpose::File) {
            Ok(made) => {
                tx.join(&made.record);
                change_core(&mut tx, &made.record, |core| {
                    core.mode = 0o100_600;
                    core.data_format = xfs_format::inode::ForkFormat::Extents;
                    core.attr_format = xfs_format::inode::ForkFormat::Extents;
                    core.generation = made.free.generation;
                });
                add_unlinked(&mut tx, &made.record).unwrap();
                self.take_blocks(&mut tx, 8);
                self.inodes.push(made.record);
            }
            Err(Error::Posix(PosixError::NoSpace)) => {}
            Err(error) => panic!("{error}"),
        }
        tx.commit().unwrap();
    }

    fn free_blocks(&mut self) {
        let journal = Arc::clone(&self.journal);
        let mut tx = journal.begin(TransactionKind::Truncate, 0).unwrap();
        for _ in 0..2 {
            if self.taken.is_empty() {
                break;
            }
            let index = self.random.within(0..self.taken.len());
            defer_free(&mut tx, self.taken.swap_remove(index), None, BlockPurpose::File);
        }
        tx.commit().unwrap();
    }

    fn free_inode(&mut self) {
        if self.inodes.is_empty() {
            return;
        }
        let index = self.random.within(0..self.inodes.len());
        let record = self.inodes.swap_remove(index);
        let mut tx = self.journal.begin(TransactionKind::FreeInode, 0).unwrap();
        tx.join(&record);
        free_inode(&mut tx, &record, &record.core().unwrap(), LinkState::Unlinked).unwrap();
        tx.commit().unwrap();
    }

    fn run(mut self, steps: usize) -> Self {
        for _ in 0..steps {
            match self.random.within(0..10) {
                0..4 => self.write(),
                4 => self.create(),
                5 => self.free_inode(),
                _ => (0..8).for_each(|_| self.free_blocks()),
            }
        }
        self
    }
}

/// Begins a transaction. Returns `None` if the volume does not have the blocks.
fn begin_if_free(
    journal: &Arc<Journal>,
    kind: TransactionKind,
    blocks: u64,
) -> Option<Transaction<'_>> {
    match journal.begin_from_pool(kind, blocks) {
        Ok(tx) => Some(tx),
        Err(Error::Posix(PosixError::NoSpace)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn check_threads(seed: u64) {
    const GROUPS: u32 = 8;
    // Small blocks make btrees of several levels.
    let (options, most) = match seed % 2 {
        0 => ("-b size=1k", 300),
        _ => ("-b size=4k", 45),
    };
    let journal = volume_with(GROUPS, options);
    let mut random = Prng::new(seed);
    let blocks: Vec<_> = (0..GROUPS).map(|_| random.within(0..most)).collect();
    leave_each(&journal, &blocks);
    // Some groups have room for inodes.
    let runs = (0..GROUPS).step_by(3).map(|group| {
        let start = journal.geometry().join_block(AgNumber(group), AgBlock(1024));
        BlockExtent { start, length_blocks: 64 }
    });
    free(&journal, runs);
    let worker = |thread| Worker {
        journal: Arc::clone(&journal),
        random: Prng::new(seed * 64 + thread),
        taken: Vec::new(),
        inodes: Vec::new(),
        most_blocks: most + 20,
        refused: 0,
    };
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let worker = worker(thread);
            std::thread::spawn(move || worker.run(150))
        })
        .collect();
    let workers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(!journal.is_shut_down(), "seed {seed}");
    let refused: u32 = workers.iter().map(|worker| worker.refused).sum();
    assert_eq!(refused, 0, "seed {seed}: reserved blocks are there");
    for group in journal.geometry().groups() {
        let headers = AgHeaders::read(journal.cache(), group).unwrap();
        headers.verify_counters(journal.cache()).unwrap();
    }
}

#[test]
fn threads_on_small_full_groups_all_end() {
    for seed in 1..=8 {
        ends(move || check_threads(seed));
    }
}
