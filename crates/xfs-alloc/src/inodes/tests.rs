//! Tests that allocate and free inodes at random on volumes in memory. A check compares the btrees,
//! the headers and the unlinked lists with the expected inodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_device::SharedDevice;
use xfs_format::btree::BtreeFormat;
use xfs_format::inode::{InodeCore, verify_checksum};
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::reservation::TransactionKind;
use xfs_format::rmap::RmapOwner;
use xfs_format::{AgInode, AgNumber, BlockKind, InodeNumber};
use xfs_testkit::Prng;
use xfs_trans::{InodeRecord, Journal, testing};

use super::group::GroupInodes;
use super::{
    FreedInode, InodePurpose, LinkState, add_unlinked, allocate_inode, free_inode, inode_blocks,
    remove_unlinked, unlinked_lists,
};
use crate::{
    AgHeaders, AllocationTarget, BlockExtent, BlockPurpose, ExtentOwner, SpaceRequest,
    allocate_extent, open_journal,
};

const VOLUME_BYTES: u64 = 300 << 20;
const REGULAR: u16 = 0o100_600;

fn open(device: &SharedDevice) -> Arc<Journal> {
    let testing::JournalParts { cache, log, superblock } = testing::parts(device, 0);
    open_journal(cache, log, &superblock).unwrap()
}

fn recover(device: &SharedDevice) -> Arc<Journal> {
    let (parts, replayed) = testing::recovered_parts(device);
    let journal = open_journal(parts.cache, parts.log, &parts.superblock).unwrap();
    let open = journal.adopt(&replayed).unwrap();
    assert!(open.is_empty(), "the log was forced after the last commit");
    journal
}

/// Allocates an inode that has no name and is on an unlinked list.
fn make(journal: &Arc<Journal>, parent: InodeNumber, purpose: InodePurpose) -> Result<InodeNumber> {
    let blocks = inode_blocks(journal.geometry());
    // A full volume may still have free inodes.
    let kind = TransactionKind::CreateUnnamed;
    let tx = journal.begin(kind, blocks).or_else(|_| journal.begin(kind, 0))?;
    tx.commit_or_cancel(|tx| {
        let made = match allocate_inode(tx, parent, purpose) {
            Err(Error::Posix(PosixError::NoSpace)) => return Ok(None),
            made => made?,
        };
        let record = Arc::clone(&made.record);
        tx.join(&record);
        testing::change_core(tx, &record, |core| {
            core.mode = REGULAR;
            core.data_format = xfs_format::inode::ForkFormat::Extents;
            core.attr_format = xfs_format::inode::ForkFormat::Extents;
            core.generation = made.free.generation;
        });
        add_unlinked(tx, &record)?;
        Ok(Some(made.number()))
    })?
    .ok_or_else(|| PosixError::NoSpace.into())
}

fn free(journal: &Arc<Journal>, record: &Arc<InodeRecord>) -> Result<FreedInode> {
    let mut tx = journal.begin(TransactionKind::FreeInode, 0)?;
    tx.join(record);
    let freed = free_inode(&mut tx, record, &record.core()?, LinkState::Unlinked)?;
    tx.commit()?;
    Ok(freed)
}

/// Checks the inodes of a volume. Exactly the inodes of `unlinked` and `named`, and those that mkfs
/// made, must be in use.
fn check(cache: &BufferCache, unlinked: &BTreeSet<InodeNumber>, named: &BTreeSet<InodeNumber>) {
    let geometry = cache.geometry();
    let mut on_lists = BTreeSet::new();
    for number in geometry.groups() {
        let headers = AgHeaders::read(cache, number).unwrap();
        headers.verify_counters(cache).unwrap();
        let chunks: Vec<InodeChunk> =
            headers.inode_chunks(cache).unwrap().records().map(Result::unwrap).collect();
        if let Some(free) = headers.free_inode_chunks(cache).unwrap() {
            let free: Vec<InodeChunk> = free.records().map(Result::unwrap).collect();
            let expected = chunks.iter().filter(|chunk| chunk.free_count != 0);
            assert!(free.iter().eq(expected), "I2: the inode btrees differ in group {number}");
        }
        for chunk in &chunks {
            check_chunk(cache, number, chunk, &(unlinked | named));
        }
        check_owners(cache, &headers, &chunks);
        for list in unlinked_lists(cache, number).unwrap() {
            assert!(list.damage.is_none(), "{:?}", list.damage);
            on_lists.extend(list.inodes);
        }
    }
    assert_eq!(on_lists, *unlinked, "I4: every inode without a name is on a list");
}

fn check_chunk(
    cache: &BufferCache,
    group: AgNumber,
    chunk: &InodeChunk,
    in_use: &BTreeSet<InodeNumber>,
) {
    let geometry = cache.geometry();
    for position in (0..64).filter(|position| chunk.present() >> position & 1 != 0) {
        let number = geometry.join_inode(group, AgInode(chunk.start.0 + position));
        let is_allocated = chunk.allocated() >> position & 1 != 0;
        assert_eq!(is_allocated, in_use.contains(&number), "{number}");
        let place = geometry.inode_location(number).unwrap();
        let buffer =
            cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster).unwrap();
        let bytes = buffer.bytes();
        let bytes = &bytes[place.offset_bytes as usize..][..geometry.inode_size as usize];
        let core = InodeCore::decode(bytes, number, geometry).unwrap();
        assert_eq!(verify_checksum(bytes), Ok(()), "{number}");
        assert!(core.next_unlinked.is_null() || is_allocated, "{number} is free and on a list");
    }
}

/// Checks that the reverse map contains exactly the blocks of the inode chunks, and as many blocks
/// of inode btrees as the AGI counts.
fn check_owners(cache: &BufferCache, headers: &AgHeaders, chunks: &[InodeChunk]) {
    let Some(map) = headers.reverse_map(cache).unwrap() else { return };
    let log = cache.geometry().inodes_per_block_log;
    let mut expected = BTreeSet::new();
    for chunk in chunks {
        let present = (0..64).filter(|position| chunk.present() >> position & 1 != 0);
        expected.extend(present.map(|position| (chunk.start.0 + position) >> log));
    }
    let (mut found, mut btree_blocks) = (BTreeSet::new(), 0);
    for record in map.records().map(Result::unwrap) {
        match record.owner {
            RmapOwner::Inodes => found.extend(record.start.0..record.end().0),
            RmapOwner::InodeBtree => btree_blocks += record.count,
            _ => {}
        }
    }
    assert_eq!(found, expected);
    let counted = [headers.agi.inode_btree_blocks, headers.agi.free_inode_btree_blocks];
    if let [Some(all), Some(free)] = counted {
        assert_eq!(btree_blocks, all + free);
    }
}

/// Returns the inodes that are in use on a volume as mkfs made it.
fn of_mkfs(cache: &BufferCache) -> BTreeSet<InodeNumber> {
    let mut found = BTreeSet::new();
    for group in cache.geometry().groups() {
        for chunk in crate::inode_chunks(cache, group).unwrap().map(Result::unwrap) {
            let used = (0..64).filter(|position| chunk.allocated() >> position & 1 != 0);
            let number = |position| AgInode(chunk.start.0 + position);
            found.extend(used.map(|position| cache.geometry().join_inode(group, number(position))));
        }
    }
    found
}

/// A volume, and the inodes that the test has allocated on it.
struct TestVolume {
    device: SharedDevice,
    journal: Arc<Journal>,
    random: Prng,
    named: BTreeSet<InodeNumber>,
    unlinked: BTreeSet<InodeNumber>,
    /// Inodes that are kept in memory, like those of open files.
    held: BTreeMap<InodeNumber, Arc<InodeRecord>>,
    generations: BTreeSet<(InodeNumber, u32)>,
}

impl TestVolume {
    fn new(seed: u64, bytes: u64, options: &str) -> Self {
        let device = testing::make_sized(bytes, options);
        let journal = open(&device);
        let named = of_mkfs(journal.cache());
        Self {
            device,
            journal,
            random: Prng::new(seed),
            named,
            unlinked: BTreeSet::new(),
            held: BTreeMap::new(),
            generations: BTreeSet::new(),
        }
    }

    fn any_unlinked(&mut self) -> Option<InodeNumber> {
        let index = self.random.within(0..self.unlinked.len());
        self.unlinked.iter().nth(index).copied()
    }

    fn make(&mut self) -> bool {
        let (parent, purpose) = match (self.random.within(0..4), self.any_unlinked()) {
            (0, _) | (_, None) => (self.journal.superblock().root_inode, InodePurpose::Directory),
            (_, Some(parent)) => (parent, InodePurpose::File),
        };
        let number = match make(&self.journal, parent, purpose) {
            Ok(number) => number,
            Err(Error::Posix(PosixError::NoSpace)) => return false,
            Err(error) => panic!("{error}"),
        };
        assert!(self.unlinked.insert(number), "{number} is given out twice");
        let record = self.journal.inode(number).unwrap();
        let generation = record.core().unwrap().generation;
        assert!(self.generations.insert((number, generation)), "{number} comes back as it was");
        if self.random.within(0..4) == 0 {
            self.held.insert(number, record);
        }
        true
    }

    fn free(&mut self) -> bool {
        let Some(number) = self.any_unlinked() else { return false };
        let record = self.journal.inode(number).unwrap();
        self.held.remove(&number);
        free(&self.journal, &record).unwrap();
        self.unlinked.remove(&number);
        true
    }

    /// Gives a random inode a name, or takes its name away. The inode leaves or joins an unlinked
    /// list.
    fn rename(&mut self) {
        let Some(number) = self.any_unlinked() else { return };
        let record = self.journal.inode(number).unwrap();
        for is_named in [true, false] {
            let mut tx = self.journal.begin(TransactionKind::Link, 0).unwrap();
            tx.join(&record);
            let links = u32::from(is_named);
            testing::change_core(&mut tx, &record, |core| core.nlink = links);
            let change = if is_named { remove_unlinked } else { add_unlinked };
            change(&mut tx, &record).unwrap();
            tx.commit().unwrap();
        }
    }

    fn run(&mut self, rounds: usize, makes_of_ten: usize) {
        for _ in 0..rounds {
            match self.random.within(0..20) {
                0 => self.rename(),
                chance if chance / 2 < makes_of_ten => drop(self.make()),
                _ => drop(self.free()),
            }
        }
    }

    fn check(&self) {
        check(self.journal.cache(), &self.unlinked, &self.named);
    }

    /// Forces the log, simulates a crash, and checks that everything is still present after
    /// recovery.
    fn crash(&self) {
        self.journal.force_all().unwrap();
        let copy = testing::crashed(&self.device);
        let journal = recover(&copy);
        check(journal.cache(), &self.unlinked, &self.named);
        journal.unmount().unwrap();
    }

    fn unmount(self) -> (SharedDevice, BTreeSet<InodeNumber>) {
        drop(self.held);
        self.journal.unmount().unwrap();
        (self.device, self.unlinked)
    }
}

fn check_random(options: &str) {
    let seeds = if std::env::var_os("FERROXFS_LONG").is_some() { 20 } else { 1 };
    for seed in 0..seeds {
        let mut volume = TestVolume::new(seed, VOLUME_BYTES, options);
        volume.run(1200, 8);
        volume.check();
        volume.crash();
        volume.run(800, 2);
        volume.check();
        volume.crash();
        let journal = Arc::clone(&volume.journal);
        assert_eq!(journal.counts().inodes, counted(&journal).0);
        assert_eq!(journal.counts().free_inodes, counted(&journal).1);
        drop(journal);
        while volume.free() {}
        volume.check();
        volume.unmount();
    }
}

/// Returns the number of inodes and of free inodes, summed over the headers of all groups.
fn counted(journal: &Journal) -> (u64, u64) {
    let counters = crate::VolumeCounters::sum(journal.cache()).unwrap();
    (counters.inodes, counters.free_inodes)
}

/// Checks I2 (a chunk with a free inode is in both btrees) and I4 (unlinked inodes are on a list),
/// also after a crash.
#[test]
fn inodes_allocated_and_freed_at_random_pass_the_check() {
    check_random("-l size=16m");
}

#[test]
fn inodes_of_other_block_and_inode_sizes_pass_the_check() {
    check_random("-b size=1024 -l size=16m");
    check_random("-i size=2048 -l size=16m");
}

#[test]
fn inodes_without_optional_btrees_pass_the_check() {
    check_random("-m finobt=0,rmapbt=0,reflink=0,inobtcount=0 -l size=16m");
    check_random("-i sparse=0 -l size=16m");
}

#[test]
fn inodes_in_blocks_of_many_chunks_pass_the_check() {
    let mut volume = TestVolume::new(3, 2 * VOLUME_BYTES, "-b size=65536 -l size=80m");
    volume.run(1000, 8);
    volume.check();
    while volume.free() {}
    volume.check();
    volume.unmount();
}

/// Checks I1 (only the holder of an AGI changes inodes) and I5 (saved paths stay valid) with
/// threads that use the same groups.
#[test]
fn threads_that_allocate_and_free_inodes_at_once_pass_the_check() {
    let device = testing::make_with("-l size=16m");
    let testing::JournalParts { cache, log, superblock } = testing::parts(&device, 1);
    let journal = open_journal(cache, log, &superblock).unwrap();
    let named = of_mkfs(journal.cache());
    let unlinked = std::thread::scope(|scope| {
        let work = |seed| {
            let journal = &journal;
            move || take_and_free(journal, &mut Prng::new(seed))
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(work(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    journal.force_all().unwrap();
    check(journal.cache(), &unlinked, &named);
    let recovered = recover(&testing::crashed(&device));
    check(recovered.cache(), &unlinked, &named);
    recovered.unmount().unwrap();
    journal.unmount().unwrap();
}

/// Allocates and frees inodes as one of several threads. Returns the inodes that are left in use.
fn take_and_free(journal: &Arc<Journal>, random: &mut Prng) -> BTreeSet<InodeNumber> {
    let mut own = BTreeSet::new();
    let root = journal.superblock().root_inode;
    for round in 0..600 {
        let any = own.iter().nth(random.within(0..own.len())).copied();
        let frees = random.within(0..10) < if round < 300 { 2 } else { 7 };
        match any {
            Some(inode) if frees => {
                own.remove(&inode);
                free(journal, &journal.inode(inode).unwrap()).unwrap();
            }
            Some(parent) if random.within(0..4) != 0 => {
                own.insert(make(journal, parent, InodePurpose::File).unwrap());
            }
            _ => drop(own.insert(make(journal, root, InodePurpose::Directory).unwrap())),
        }
    }
    own
}

#[test]
fn directories_rotate_over_groups_and_files_stay() {
    let device = testing::make();
    let journal = open(&device);
    let root = journal.superblock().root_inode;
    let group = |inode| journal.geometry().split_inode(inode).unwrap().0;
    let directories: Vec<_> =
        (0..8).map(|_| make(&journal, root, InodePurpose::Directory).unwrap()).collect();
    let groups: BTreeSet<_> = directories.iter().map(|inode| group(*inode)).collect();
    assert_eq!(groups.len(), 4);
    for directory in directories {
        let file = make(&journal, directory, InodePurpose::File).unwrap();
        assert_eq!(group(file), group(directory));
    }
}

#[test]
fn inode_of_a_file_lies_near_its_directory() {
    let device = testing::make();
    let journal = open(&device);
    let root = journal.superblock().root_inode;
    let directory = make(&journal, root, InodePurpose::Directory).unwrap();
    for _ in 0..32 {
        let file = make(&journal, directory, InodePurpose::File).unwrap();
        assert!(file.0.abs_diff(directory.0) < 64, "{file} in {directory}");
    }
}

/// A group that remembers the chunk from which it took the last inode still takes a nearer inode
/// that was freed since, and none of the remembered chunk after that chunk was freed.
#[test]
fn nearer_inode_is_taken_before_the_rest_of_the_last_chunk() {
    for options in ["-d agcount=1", "-d agcount=1 -m finobt=0"] {
        let device = testing::make_sized(64 << 20, options);
        let journal = open(&device);
        let root = journal.superblock().root_inode;
        let take = || make(&journal, root, InodePurpose::File).unwrap();
        let release = |number| free(&journal, &journal.inode(number).unwrap()).unwrap();
        // The chunk of mkfs, a second one, and a part of a third one.
        let made: Vec<_> = (0..61 + 64 + 10).map(|_| take()).collect();
        for index in [3, 61 + 5, 20] {
            release(made[index]);
            assert_eq!(take(), made[index], "{options}: inode {index} is free and near");
        }
        let (before, last) = made.split_at(61 + 64);
        let ends: Vec<_> = last.iter().map(|number| release(*number)).collect();
        assert_eq!(ends.last(), Some(&FreedInode::Chunk), "{options}: the third chunk is empty");
        let again: Vec<_> = (0..last.len()).map(|_| take()).collect();
        assert_ne!(again.first(), last.first(), "{options}: another chunk is made");
        journal.force_all().unwrap();
        let unlinked = before.iter().chain(&again).copied().collect();
        check(journal.cache(), &unlinked, &of_mkfs(journal.cache()));
    }
}

#[test]
fn inode_of_a_file_is_the_free_one_nearest_to_its_directory() {
    let device = testing::make_sized(64 << 20, "-d agcount=1");
    let journal = open(&device);
    let root = journal.superblock().root_inode;
    // They fill the chunk of mkfs, which has three inodes in use, and six more.
    let made: Vec<_> =
        (0..61 + 6 * 64).map(|_| make(&journal, root, InodePurpose::File).unwrap()).collect();
    let chunk = |index: usize| &made[61 + index * 64..][..64];
    let in_order = (1..6).all(|index| chunk(index)[0].0 == chunk(index - 1)[0].0 + 64);
    assert!(in_order, "the chunks follow each other: {made:?}");
    let free_all = |numbers: &[InodeNumber]| {
        for number in numbers {
            free(&journal, &journal.inode(*number).unwrap()).unwrap();
        }
    };
    let near = |directory| make(&journal, directory, InodePurpose::File).unwrap();
    // In the chunk of the directory itself.
    free_all(&[chunk(0)[7], chunk(3)[9], chunk(5)[11]]);
    assert_eq!(near(chunk(3)[40]), chunk(3)[9]);
    // In the chunk after it, and in the chunk before it.
    free_all(&[chunk(1)[9], chunk(3)[9]]);
    assert_eq!(near(chunk(2)[40]), chunk(3)[9]);
    assert_eq!(near(chunk(2)[40]), chunk(1)[9]);
    // The chunks on both sides are as near as each other: the lower one.
    free_all(&[chunk(1)[9], chunk(3)[9]]);
    assert_eq!(near(chunk(2)[0]), chunk(1)[9]);
    assert_eq!(near(chunk(2)[0]), chunk(3)[9]);
}

#[test]
fn chunks_without_room_for_a_whole_one_are_sparse() {
    // A chunk takes 8 blocks, a part of one 4.
    let device = testing::make_sized(40 << 20, "-d agcount=1 -l size=10m");
    let journal = open(&device);
    assert_eq!(journal.geometry().sparse_alignment_blocks, 4);
    let other_parts = fill_but_for_parts(&journal);
    let named = of_mkfs(journal.cache());
    let mut unlinked = BTreeSet::new();
    let sparse = |cache: &BufferCache| {
        let chunks = crate::inode_chunks(cache, AgNumber(0)).unwrap().map(Result::unwrap);
        chunks.filter(InodeChunk::is_sparse).count()
    };
    // Some room for whole chunks is left: the group's reserve.
    make_many(&journal, u32::MAX, &mut unlinked);
    let parts = sparse(journal.cache());
    assert!(parts > 10, "{parts} chunks in parts");
    check(journal.cache(), &unlinked, &named);
    // The other half of each chunk joins the first.
    free_parts(&journal, &other_parts);
    make_many(&journal, u32::MAX, &mut unlinked);
    assert!(sparse(journal.cache()) < parts / 2, "{parts} chunks in parts");
    check(journal.cache(), &unlinked, &named);
    journal.force_all().unwrap();
    let recovered = recover(&testing::crashed(&device));
    check(recovered.cache(), &unlinked, &named);
    recovered.unmount().unwrap();
    for number in unlinked {
        free(&journal, &journal.inode(number).unwrap()).unwrap();
    }
    assert_eq!(sparse(journal.cache()), 0);
    check(journal.cache(), &BTreeSet::new(), &named);
}

fn make_many(journal: &Arc<Journal>, count: u32, made: &mut BTreeSet<InodeNumber>) {
    for _ in 0..count {
        match make(journal, journal.superblock().root_inode, InodePurpose::File) {
            Ok(number) => assert!(made.insert(number), "{number} is given out twice"),
            Err(Error::Posix(PosixError::NoSpace)) => break,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes all space of the group in extents of 4 blocks, including the blocks that the group
/// reserves for its btrees. Then frees every second one of the first 400 extents. Returns the 200
/// extents between them.
fn fill_but_for_parts(journal: &Arc<Journal>) -> Vec<BlockExtent> {
    let mut extents = Vec::new();
    for (purpose, blocks) in [(BlockPurpose::File, 4), (BlockPurpose::Metadata, 0)] {
        loop {
            let Ok(mut tx) = journal.begin(TransactionKind::Write, blocks) else { break };
            let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(0)), 4, 4)
                .with_alignment(4)
                .with_purpose(purpose)
                .with_owner(ExtentOwner::STAGING);
            let extent = allocate_extent(&mut tx, &request).unwrap();
            tx.commit().unwrap();
            let Some(extent) = extent else { break };
            extents.push(extent);
        }
    }
    extents.sort_by_key(|extent| extent.start);
    extents.truncate(400);
    free_parts(journal, &extents.iter().copied().step_by(2).collect::<Vec<_>>());
    extents.into_iter().skip(1).step_by(2).collect()
}

fn free_parts(journal: &Arc<Journal>, extents: &[BlockExtent]) {
    for extent in extents {
        let mut tx = journal.begin(TransactionKind::Truncate, 0).unwrap();
        crate::defer_free(&mut tx, *extent, Some(ExtentOwner::STAGING), BlockPurpose::File);
        tx.commit().unwrap();
    }
    journal.force_all().unwrap();
}

#[test]
fn inode_btree_that_cannot_grow_is_a_shutdown_and_not_no_space() {
    let device = testing::make_sized(40 << 20, "-d agcount=1 -l size=10m");
    let journal = open(&device);
    fill(&journal);
    let mut tx = journal.begin(TransactionKind::CreateUnnamed, 0).unwrap();
    let mut group = GroupInodes::open(&mut tx, AgNumber(0)).unwrap().unwrap();
    let starts = (1000..1300).map(|chunk| AgInode(64 * chunk));
    let mut inserted = starts.map(|start| {
        group.in_chunks(&mut tx, |chunks| chunks.insert(InodeChunk::of_free(start, 0, 64)))
    });
    // After a lack of space the caller commits, so this error must be another one.
    let error = inserted.find_map(Result::err).expect("there are more chunks than a block holds");
    assert!(matches!(error, Error::Shutdown), "{error}");
    drop(inserted);
    tx.cancel();
    assert!(journal.is_shut_down());
}

/// Takes all space of the group, including the blocks that the group reserves for its btrees.
fn fill(journal: &Arc<Journal>) {
    for (purpose, reserved, most) in
        [(BlockPurpose::File, 64, 64), (BlockPurpose::File, 1, 1), (BlockPurpose::Metadata, 0, 1)]
    {
        loop {
            let Ok(mut tx) = journal.begin(TransactionKind::Write, reserved) else { break };
            let request = SpaceRequest::new(AllocationTarget::Group(AgNumber(0)), 1, most)
                .with_purpose(purpose)
                .with_owner(ExtentOwner::STAGING);
            let extent = allocate_extent(&mut tx, &request).unwrap();
            tx.commit().unwrap();
            if extent.is_none() {
                break;
            }
        }
    }
}

#[test]
fn damaged_unlinked_list_is_reported_and_can_be_emptied() {
    let device = testing::make();
    let journal = open(&device);
    let root = journal.superblock().root_inode;
    let inodes: Vec<_> =
        (0..200).map(|_| make(&journal, root, InodePurpose::File).unwrap()).collect();
    let (group, inode) = journal.geometry().split_inode(inodes[70]).unwrap();
    let bucket = inode.0 as usize % 64;
    let place = journal.geometry().inode_location(inodes[70]).unwrap();
    let cache = journal.cache();
    let buffer = cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster).unwrap();
    buffer.latch();
    // The inode names itself as its successor.
    let link = place.offset_bytes as usize + super::unlinked::LINK_OFFSET;
    buffer.bytes_mut()[link..link + 4].copy_from_slice(&inode.0.to_be_bytes());
    buffer.unlatch();
    let lists = unlinked_lists(cache, group).unwrap();
    let damaged: Vec<_> = lists.iter().filter(|list| list.damage.is_some()).collect();
    assert_eq!(damaged.iter().map(|list| list.bucket).collect::<Vec<_>>(), [bucket]);
    let mut tx = journal.begin(TransactionKind::ClearUnlinked, 0).unwrap();
    super::clear_unlinked_list(&mut tx, group, bucket).unwrap();
    tx.commit().unwrap();
    assert!(unlinked_lists(cache, group).unwrap().iter().all(|list| list.bucket != bucket));
}

#[test]
fn inodes_stop_at_the_limit_of_the_volume() {
    // 1 % of 19,200 blocks is room for 24 chunks of 8 blocks.
    let device = testing::make_sized(75 << 20, "-i maxpct=1 -l size=10m");
    let journal = open(&device);
    let mut made = BTreeSet::new();
    make_many(&journal, u32::MAX, &mut made);
    assert_eq!(journal.counts().inodes, 24 * 64);
    assert_eq!(journal.counts().free_inodes, 0);
    assert_eq!(made.len() + of_mkfs_count(), 24 * 64);
}

/// Returns the number of inodes that mkfs makes: the root directory and the two inodes of the
/// realtime section.
const fn of_mkfs_count() -> usize {
    3
}

/// One thread allocates and frees inodes. Checks that it seldom writes to state that the whole
/// volume shares, because such writes slow down threads that work in other groups. Writes for
/// chunks, their space and the log are counted too.
#[cfg(feature = "count")]
#[test]
fn inode_allocation_seldom_writes_state_shared_by_the_volume() {
    const INODES: u64 = 2048;
    // On a small log slots keep no log space of their own.
    let device = testing::make_sized(1 << 30, "-l size=128m");
    let testing::JournalParts { cache, log, superblock } = testing::parts(&device, 1);
    let journal = open_journal(cache, log, &superblock).unwrap();
    let directory = make(&journal, superblock.root_inode, InodePurpose::Directory).unwrap();
    let before = xfs_sync::thread_counts();
    let made: Vec<_> =
        (0..INODES).map(|_| make(&journal, directory, InodePurpose::File).unwrap()).collect();
    for inode in &made {
        free(&journal, &journal.inode(*inode).unwrap()).unwrap();
    }
    let counted = xfs_sync::thread_counts().since(&before);
    assert!(counted.volume.total() * 64 <= 2 * INODES, "{counted:?}");
}

#[test]
fn chunk_records_are_ordered_by_inode() {
    let chunk = |start| InodeChunk::of_free(AgInode(start), 0, 64);
    assert!(InodeChunks::may_follow(&chunk(128), &chunk(64)));
    assert!(!InodeChunks::may_follow(&chunk(127), &chunk(64)));
}
