//! Tests that edit btrees of every kind at random, compare the records with a map, and check the
//! whole btree.

use std::collections::BTreeMap;

use xfs_buffer::Error;
use xfs_format::btree::{BtreeCheck, BtreeFormat, Extents};
use xfs_format::extent::Extent;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgInode, AgNumber, Check, FileBlock, FsBlock, InodeNumber};
use xfs_testkit::Prng;

use super::Editor;
use crate::Seek;
use crate::memory::{INODE, MemoryStore, geometry};

/// Returns a random number below `limit`.
fn below(random: &mut Prng, limit: u32) -> u32 {
    random.within(0..limit as usize) as u32
}

/// Returns the seeds of a test: `count` of them, or twenty times as many if `FERROXFS_LONG` is set.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    0..if is_long { 20 * count } else { count }
}

/// A kind of btree for which the test can make records.
trait Sample: BtreeFormat<Key: Ord> {
    /// Returns a record made from the number `place`. Records of different places never overlap.
    fn sample(place: u32, random: &mut Prng) -> Self::Record;
}

impl Sample for FreeSpaceByBlock {
    fn sample(place: u32, random: &mut Prng) -> FreeSpace {
        let start = AgBlock(100 + 10 * place + below(random, 4));
        FreeSpace { start, count: 1 + below(random, 5) }
    }
}

impl Sample for FreeSpaceBySize {
    fn sample(place: u32, random: &mut Prng) -> FreeSpace {
        FreeSpaceByBlock::sample(place, random)
    }
}

fn chunk(place: u32, free: u64) -> InodeChunk {
    let start = AgInode(4096 + 64 * place);
    InodeChunk { start, holes: 0, count: 64, free_count: free.count_ones() as u8, free }
}

/// Returns an inode chunk made from the number `place`. The chunk starts at one of two inode
/// numbers, chosen at random. So two chunks made from the same number `place` may have different
/// keys, and an update from one chunk to the other changes the key.
fn any_chunk(place: u32, random: &mut Prng, free: u64) -> InodeChunk {
    chunk(2 * place + below(random, 2), free)
}

impl Sample for InodeChunks {
    fn sample(place: u32, random: &mut Prng) -> InodeChunk {
        let free = random.number();
        any_chunk(place, random, free)
    }
}

impl Sample for FreeInodeChunks {
    fn sample(place: u32, random: &mut Prng) -> InodeChunk {
        let free = random.number() | 1;
        any_chunk(place, random, free)
    }
}

impl Sample for ReverseMap {
    fn sample(place: u32, random: &mut Prng) -> Rmap {
        // Four places share a block, and some extents reach far beyond the next ones.
        let owner = RmapOwner::Inode(InodeNumber(8192 + u64::from(place % 4)));
        let long = if below(random, 8) == 0 { 5000 } else { 30 };
        Rmap {
            start: AgBlock(100 + place / 4),
            count: 1 + below(random, long),
            owner,
            offset: FileBlock(below(random, 1000).into()),
            flags: if below(random, 2) == 0 { RmapFlags::UNWRITTEN } else { RmapFlags::empty() },
        }
    }
}

impl Sample for Refcounts {
    fn sample(place: u32, random: &mut Prng) -> Refcount {
        let (domain, references) = match place % 3 {
            0 => (RefcountDomain::Staging, 1),
            _ => (RefcountDomain::Shared, 2 + below(random, 5)),
        };
        let start = AgBlock(100 + 10 * place + below(random, 4));
        Refcount { domain, start, count: 1 + below(random, 6), references }
    }
}

impl Sample for Extents {
    fn sample(place: u32, random: &mut Prng) -> Extent {
        Extent {
            file_block: FileBlock(u64::from(10 * place + below(random, 4))),
            start: FsBlock(100 + u64::from(below(random, 100_000))),
            length_blocks: 1 + below(random, 6),
            unwritten: below(random, 2) == 0,
        }
    }
}

fn editor_of<F: BtreeFormat>(store: MemoryStore) -> Editor<F, MemoryStore> {
    let root = store.root;
    Editor::new(store, AgNumber(0), root).unwrap()
}

/// The edits that a random test makes more often: insertions or removals.
#[derive(Clone, Copy, Debug)]
enum EditBias {
    Grow,
    Shrink,
}

/// Ends the editor and returns another editor, which continues from the saved path of the first.
fn resumed<F: BtreeFormat>(editor: Editor<F, MemoryStore>) -> Editor<F, MemoryStore> {
    let (store, saved) = editor.leave();
    let root = store.root;
    Editor::resume(store, AgNumber(0), root, Some(saved)).unwrap()
}

/// A btree under test, and a map of the records that it must have. The key of the map is the number
/// (place) from which a record was made. It is not the record's own key, whose order differs.
struct CheckedBtree<F: Sample> {
    editor: Editor<F, MemoryStore>,
    places: BTreeMap<u32, F::Record>,
    random: Prng,
    /// Whether the btree must keep at least one record, as the btree of a fork must.
    keeps_one: bool,
}

impl<F: Sample> CheckedBtree<F> {
    fn new(editor: Editor<F, MemoryStore>, seed: u64, keeps_one: bool) -> Self {
        Self { editor, places: BTreeMap::new(), random: Prng::new(seed), keeps_one }
    }

    /// Replaces the editor by another editor, which continues from the saved path of the first.
    fn resume(&mut self) {
        let empty = editor_of(MemoryStore::new(geometry(9), F::KIND));
        self.editor = resumed(std::mem::replace(&mut self.editor, empty));
    }

    fn sorted(&self) -> Vec<F::Record> {
        let mut sorted: Vec<_> = self.places.values().copied().collect();
        sorted.sort_by_key(F::key);
        sorted
    }

    fn check(&self) {
        self.editor.store().check::<F>(&self.sorted());
    }

    /// Makes one random edit of the record that belongs to the number `place`: inserts the record,
    /// removes it, or replaces it by another record made from this number. Makes the same edit in
    /// the map.
    fn edit(&mut self, place: u32, bias: EditBias) {
        let wants = below(&mut self.random, 10);
        let known = self.places.get(&place).copied();
        let removes = match bias {
            EditBias::Grow => wants < 2,
            EditBias::Shrink => wants < 9,
        };
        match known {
            None if matches!(bias, EditBias::Grow) || wants == 0 => {
                let record = F::sample(place, &mut self.random);
                self.editor.insert(record).unwrap();
                assert_eq!(self.editor.record().unwrap(), Some(record));
                self.places.insert(place, record);
            }
            Some(known) if removes && (self.places.len() > 1 || !self.keeps_one) => {
                assert_eq!(self.editor.find(F::key(&known)).unwrap(), Some(known));
                assert_eq!(self.editor.remove().unwrap(), known);
                self.places.remove(&place);
                if below(&mut self.random, 16) == 0 {
                    let key = F::key(&known);
                    let next = self.sorted().into_iter().find(|record| F::key(record) > key);
                    assert_eq!(self.editor.record().unwrap(), next);
                }
            }
            Some(known) => self.update(place, known),
            None => {}
        }
    }

    /// Replaces the record `known`, which was made from the number `place`, by another record of
    /// this number. If no other key lies between the keys of the two records, the editor mostly
    /// updates the old record. In all other cases it removes the old record and inserts the new
    /// one.
    fn update(&mut self, place: u32, known: F::Record) {
        let changed = F::sample(place, &mut self.random);
        let (old, new) = (F::key(&known), F::key(&changed));
        let between = (old.min(new), old.max(new));
        let passes = |record: &F::Record| {
            let key = F::key(record);
            key != old && between.0 <= key && key <= between.1
        };
        let is_in_place = !self.places.values().any(passes);
        assert_eq!(self.editor.seek(Seek::AtOrAfter(old)).unwrap(), Some(known));
        if is_in_place && below(&mut self.random, 4) != 0 {
            self.editor.update(changed).unwrap();
        } else {
            self.editor.remove().unwrap();
            self.editor.insert(changed).unwrap();
        }
        self.places.insert(place, changed);
    }

    /// Moves every block of the btree, one by one, and checks the btree.
    fn move_all_blocks(&mut self) {
        let lowest = self.editor.store_mut().leave_blocks_behind();
        let blocks = self.editor.store().block_count();
        for moved in 0..=blocks {
            let has_moved = self.editor.move_block(|block| block < lowest).unwrap();
            assert_eq!(has_moved, moved < blocks, "after {moved} of {blocks} blocks");
            if moved % 16 == 0 {
                self.check();
            }
        }
        self.check();
    }

    fn run(&mut self, rounds: u32, places: u32, bias: EditBias) {
        for round in 0..rounds {
            let place = below(&mut self.random, places);
            self.edit(place, bias);
            if self.editor.store().fork.is_none() && below(&mut self.random, 4) == 0 {
                self.resume();
            }
            if round % 1024 == 0 {
                self.check();
            }
        }
        self.check();
    }
}

fn check_random<F: Sample>(block_log: u8, places: u32) {
    for seed in seeds(1) {
        let store = MemoryStore::new(geometry(block_log), F::KIND);
        let mut btree = CheckedBtree::new(editor_of::<F>(store), seed, false);
        for _ in 0..2 {
            btree.run(places * 3, places, EditBias::Grow);
            let levels = btree.editor.store().root.levels;
            assert!(levels > 1, "a btree of {levels} levels tests too little");
            btree.move_all_blocks();
            btree.run(places * 6, places, EditBias::Shrink);
        }
        for place in 0..places {
            if let Some(known) = btree.places.remove(&place) {
                btree.editor.find(F::key(&known)).unwrap();
                btree.editor.remove().unwrap();
            }
        }
        btree.check();
        assert_eq!(btree.editor.store().root.levels, 1);
        assert_eq!(btree.editor.store().block_count(), 1);
    }
}

#[test]
fn btrees_of_small_blocks_edited_at_random_equal_a_map() {
    check_random::<FreeSpaceByBlock>(9, 2000);
    check_random::<FreeSpaceBySize>(9, 2000);
    check_random::<InodeChunks>(9, 2000);
    check_random::<FreeInodeChunks>(9, 1500);
    check_random::<ReverseMap>(9, 1500);
    check_random::<Refcounts>(9, 2000);
}

#[test]
fn btrees_of_large_blocks_edited_at_random_equal_a_map() {
    check_random::<FreeSpaceByBlock>(12, 2000);
    check_random::<InodeChunks>(12, 1500);
    check_random::<ReverseMap>(12, 1500);
    check_random::<Refcounts>(10, 2000);
}

#[test]
fn fork_btrees_edited_at_random_equal_a_map() {
    for (block_log, capacity, places) in [(9, 2, 1500), (9, 9, 1500), (10, 4, 2000), (12, 19, 2500)]
    {
        for seed in seeds(1) {
            let mut random = Prng::new(seed);
            let extent = Extents::sample(0, &mut random);
            let store = MemoryStore::of_fork(geometry(block_log), &[extent], capacity);
            let root = store.fork.clone().unwrap();
            let editor = Editor::<Extents, _>::in_fork(store, INODE, root).unwrap();
            let mut btree = CheckedBtree::new(editor, seed, true);
            btree.places.insert(0, extent);
            btree.run(places * 3, places, EditBias::Grow);
            btree.move_all_blocks();
            btree.run(places * 6, places, EditBias::Shrink);
            btree.run(places * 3, places, EditBias::Grow);
            btree.move_all_blocks();
            for place in 0..places {
                if btree.places.len() > 1
                    && let Some(known) = btree.places.remove(&place)
                {
                    btree.editor.find(known.file_block).unwrap();
                    btree.editor.remove().unwrap();
                }
            }
            btree.check();
            assert_eq!(btree.editor.store().fork.as_ref().unwrap().level, 1);
            assert_eq!(btree.editor.store().block_count(), 1);
        }
    }
}

fn filled(
    block_log: u8,
    places: impl Iterator<Item = u32>,
) -> Editor<FreeSpaceByBlock, MemoryStore> {
    let store = MemoryStore::new(geometry(block_log), FreeSpaceByBlock::KIND);
    let mut editor = editor_of::<FreeSpaceByBlock>(store);
    for place in places {
        editor.insert(FreeSpace { start: AgBlock(100 + 10 * place), count: 5 }).unwrap();
    }
    editor
}

#[test]
fn insertions_in_order_fill_the_blocks() {
    // 121 records fit a leaf of 1 KiB.
    for order in [true, false] {
        let places: Vec<u32> = if order { (0..5000).collect() } else { (0..5000).rev().collect() };
        let mut editor = filled(10, places.into_iter());
        let blocks = editor.store().block_count();
        assert!(blocks * 121 * 3 < 5000 * 4, "{blocks} blocks");
        assert_eq!(editor.last().unwrap().unwrap().start, AgBlock(100 + 10 * 4999));
    }
}

/// Checks I3 of `editor`: an update in place writes only the record.
#[test]
fn update_in_place_writes_only_its_record() {
    let mut editor = filled(10, 0..1000);
    let found = editor.seek(Seek::AtOrAfter(AgBlock(100 + 10 * 500 + 1))).unwrap().unwrap();
    editor.store_mut().take_changes();
    editor.update(FreeSpace { count: 7, ..found }).unwrap();
    let changes = editor.store_mut().take_changes();
    assert_eq!(changes.iter().map(|(_, range)| range.len()).collect::<Vec<_>>(), [8]);
}

/// Checks I3 of `editor`: a replaced record is the only change, and an editor that stands on
/// another record, or on none, replaces nothing.
#[test]
fn replaced_record_is_the_only_change() {
    let store = MemoryStore::new(geometry(9), InodeChunks::KIND);
    let mut editor = editor_of::<InodeChunks>(store);
    assert!(!editor.replace(&chunk(1, 1), &chunk(1, 3)).unwrap(), "the btree is empty");
    for place in 0..500 {
        editor.insert(chunk(place, 1)).unwrap();
    }
    for place in [0, 250, 499] {
        editor.find(chunk(place, 1).start).unwrap().unwrap();
        editor.store_mut().take_changes();
        assert!(!editor.replace(&chunk(place, 3), &chunk(place, 1)).unwrap(), "another record");
        assert!(editor.store_mut().take_changes().is_empty());
        assert!(editor.replace(&chunk(place, 1), &chunk(place, 3)).unwrap());
        let changes = editor.store_mut().take_changes();
        assert_eq!(changes.iter().map(|(_, range)| range.len()).collect::<Vec<_>>(), [16]);
        assert_eq!(editor.record().unwrap(), Some(chunk(place, 3)));
        assert_eq!(editor.find(chunk(place, 3).start).unwrap(), Some(chunk(place, 3)));
    }
}

/// Checks I3 of `xfs_btree`: an editor that stays in its leaf allocates nothing. Each read of a
/// block would allocate, so the test checks that there are no reads.
#[test]
fn editor_resumed_in_the_same_leaf_reads_no_block() {
    let store = MemoryStore::new(geometry(9), InodeChunks::KIND);
    let mut editor = editor_of::<InodeChunks>(store);
    for place in 0..2000 {
        editor.insert(chunk(2 * place, 1)).unwrap();
    }
    assert!(editor.store().root.levels >= 3);
    // Places in a middle leaf, in the first leaf with the keys before it, and in the last leaf.
    for place in [1000, 0, 3998] {
        editor.find(chunk(place, 1).start).unwrap().unwrap();
        editor = resumed(editor);
        let reads = editor.store().reads.take();
        assert_ne!(reads, 0);
        assert_eq!(editor.find(chunk(place, 1).start).unwrap(), Some(chunk(place, 1)));
        editor.update(chunk(place, 3)).unwrap();
        editor = resumed(editor);
        let inside = Seek::AtOrBefore(AgInode(chunk(place, 1).start.0 + 63));
        assert_eq!(editor.seek(inside).unwrap(), Some(chunk(place, 3)));
        // The last leaf may be full.
        if place != 3998 {
            editor.insert(chunk(place + 1, 1)).unwrap();
            assert_eq!(editor.remove().unwrap(), chunk(place + 1, 1));
        }
        assert_eq!(editor.store().reads.get(), 0, "around {place}");
    }
    editor.first().unwrap();
    editor.store().reads.set(0);
    assert_eq!(editor.seek(Seek::AtOrBefore(AgInode(64))).unwrap(), None);
    assert_eq!(editor.record().unwrap(), Some(chunk(0, 3)));
    assert_eq!(editor.store().reads.get(), 0);
}

#[test]
fn saved_path_under_another_root_is_dropped() {
    let mut editor = filled(10, 0..1000);
    editor.first().unwrap();
    let (store, saved) = editor.leave();
    let other = MemoryStore::new(geometry(10), FreeSpaceByBlock::KIND);
    let root = other.root;
    assert_ne!(root, store.root);
    let mut editor = Editor::resume(other, AgNumber(0), root, Some(saved)).unwrap();
    assert_eq!(editor.first().unwrap(), None, "the other one is empty");
    let saved: Option<crate::SavedPath<FreeSpaceByBlock, _>> = None;
    let root = store.root;
    let mut editor = Editor::resume(store, AgNumber(0), root, saved).unwrap();
    assert_eq!(editor.first().unwrap().unwrap().start, AgBlock(100));
}

/// Checks I3 of `editor`: an insertion into a leaf with room writes only that leaf.
#[test]
fn insertion_with_room_writes_one_block() {
    let mut editor = filled(10, (0..500).map(|place| 2 * place));
    editor.seek(Seek::AtOrAfter(AgBlock(100 + 20 * 100))).unwrap();
    editor.store_mut().take_changes();
    editor.insert(FreeSpace { start: AgBlock(100 + 20 * 100 + 10), count: 1 }).unwrap();
    let changes = editor.store_mut().take_changes();
    assert!(changes.iter().all(|(at, _)| *at == changes[0].0), "{changes:?}");
    assert_eq!(changes.len(), 2, "records and count");
}

#[test]
fn insertion_of_an_overlapping_record_changes_nothing() {
    let mut editor = filled(10, 0..1000);
    let start = 100 + 10 * 500;
    // The same key, an extent that touches the previous one, an extent that touches the next one.
    for (start, count) in [(start, 1), (start - 5, 1), (start + 6, 4)] {
        editor.store_mut().take_changes();
        let error = editor.insert(FreeSpace { start: AgBlock(start), count }).unwrap_err();
        let Error::Corrupt(corruption) = error else { panic!("{error}") };
        assert!(matches!(corruption.check(), Check::Btree(BtreeCheck::Order { .. })));
        assert!(editor.store_mut().take_changes().is_empty());
    }
}

#[test]
fn editor_after_a_removal_continues_at_the_next_record() {
    let mut editor = filled(10, 0..1000);
    editor.first().unwrap();
    for place in 0..1000 {
        assert_eq!(editor.remove().unwrap().start, AgBlock(100 + 10 * place));
    }
    assert_eq!(editor.record().unwrap(), None);
    editor.store().check::<FreeSpaceByBlock>(&[]);
}

/// Builds the btree of a fork from `count` extents, which were a list in the inode before. The root
/// has room for `capacity` children.
fn fork_of(count: u32, capacity: usize) -> (MemoryStore, Vec<Extent>) {
    let mut random = Prng::new(1);
    let extents: Vec<_> = (0..count).map(|place| Extents::sample(place, &mut random)).collect();
    (MemoryStore::of_fork(geometry(9), &extents, capacity), extents)
}

#[test]
fn list_of_extents_becomes_a_btree() {
    // 27 records fit a leaf.
    for (count, level) in [(1, 1), (27, 1), (28, 1), (400, 2)] {
        let (store, extents) = fork_of(count, 4);
        assert_eq!(store.fork.as_ref().unwrap().level, level, "{count} extents");
        store.check::<Extents>(&extents);
    }
}

#[test]
fn root_in_an_inode_is_pushed_down() {
    let (mut store, extents) = fork_of(100, 4);
    let mut root = store.fork.take().unwrap();
    assert_eq!((root.level, root.children.len()), (1, 4));
    root.push_down(&mut store, INODE, 1).unwrap();
    assert_eq!((root.level, root.children.len(), root.capacity), (2, 1, 1));
    let mut fork = [0; 20];
    root.encode(&mut fork);
    assert_eq!(crate::ForkRoot::decode(&fork).unwrap(), root);
    store.fork = Some(root);
    store.check::<Extents>(&extents);
}

#[test]
fn small_btrees_pass_the_check_after_every_edit() {
    let store = MemoryStore::new(geometry(9), ReverseMap::KIND);
    let mut btree = CheckedBtree::new(editor_of::<ReverseMap>(store), 5, false);
    for bias in [EditBias::Grow, EditBias::Shrink, EditBias::Grow, EditBias::Shrink] {
        for _ in 0..600 {
            let place = below(&mut btree.random, 300);
            btree.edit(place, bias);
            btree.check();
        }
    }
}

/// Makes a btree, damages one block, and edits the btree at random until an edit returns an error,
/// at most 200 times. Returns the number of edits before the error. Checks that no edit panics or
/// loops for ever.
fn edit_damaged<F: Sample>(seed: u64) -> usize {
    let store = MemoryStore::new(geometry(9), F::KIND);
    let mut btree = CheckedBtree::new(editor_of::<F>(store), seed, false);
    for _ in 0..400 {
        let place = below(&mut btree.random, 300);
        btree.edit(place, EditBias::Grow);
    }
    let mut random = Prng::new(seed);
    let mut store = btree.editor.into_store();
    store.damage(&mut random);
    let mut editor = editor_of::<F>(store);
    for round in 0..200 {
        let record = F::sample(below(&mut random, 300), &mut random);
        let edited = match editor.find(F::key(&record)) {
            Ok(Some(_)) if below(&mut random, 4) != 0 => editor.remove().map(drop),
            Ok(Some(_)) => editor.update(record),
            Ok(None) => match editor.insert(record) {
                // The record may overlap a neighbour; then nothing has changed.
                Err(Error::Corrupt(found)) if is_order(found.check()) => Ok(()),
                inserted => inserted,
            },
            Err(error) => Err(error),
        };
        if edited.is_err() {
            return round;
        }
    }
    200
}

const fn is_order(check: &Check) -> bool {
    matches!(check, Check::Btree(BtreeCheck::Order { .. }))
}

#[test]
fn edits_of_damaged_btrees_end_in_errors() {
    let mut met = 0;
    for seed in seeds(100) {
        let rounds = [
            edit_damaged::<FreeSpaceByBlock>(seed),
            edit_damaged::<InodeChunks>(seed),
            edit_damaged::<ReverseMap>(seed),
            edit_damaged::<Refcounts>(seed),
        ];
        met += rounds.into_iter().filter(|rounds| *rounds < 200).count();
    }
    assert!(met > 50, "only {met} edits met the damage");
}
