//! Tests of directories that grow and shrink through all forms. Each directory is compared with a
//! map of the expected entries. Every block is verified, and every relation between blocks is
//! checked.

mod check;

use std::collections::BTreeMap;

use xfs_buffer::{Error, PosixError};
use xfs_format::dabtree::{self, NODE_MAGIC};
use xfs_format::directory::{Cookie, EntryType, name_hash};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, FileBlock, InodeNumber};
use xfs_testkit::Prng;

use super::{DirectoryChange, NewEntry};
use crate::fixture::collide;
use crate::store::ForkStore;
use crate::store::memory::{MemoryFork, geometry};

pub(super) type Model = BTreeMap<Vec<u8>, (InodeNumber, EntryType)>;

const PARENT: InodeNumber = InodeNumber(128);

/// The block sizes with which the tests run: the base-2 logarithms of the bytes in a block, and of
/// the blocks in a directory block.
const SHAPES: [(u8, u8); 5] = [(10, 0), (10, 2), (12, 0), (12, 4), (16, 0)];

fn directory((block_log, directory_block_log): (u8, u8)) -> MemoryFork {
    let mut fork = MemoryFork::new(ForkKind::Data, geometry(block_log, directory_block_log));
    DirectoryChange::new(&mut fork).initialise(PARENT).unwrap();
    fork
}

fn entry(name: &[u8], inode: u64) -> NewEntry<'_> {
    NewEntry { name, inode: InodeNumber(inode), entry_type: EntryType::Regular }
}

/// Adds an entry. Checks that the directory gets new blocks if and only if `has_room` has said that
/// it needs some.
fn add(fork: &mut MemoryFork, model: &mut Model, name: &[u8], inode: u64) {
    let (entry, blocks) = (entry(name, inode), fork.block_count());
    let mut change = DirectoryChange::new(fork);
    let search = change.seek(name).unwrap();
    let has_room = change.has_room(&search, &entry).unwrap();
    change.add_at(search, &entry).unwrap();
    assert_eq!(fork.block_count() == blocks, has_room, "{} blocks", fork.block_count());
    model.insert(name.to_vec(), (InodeNumber(inode), EntryType::Regular));
}

fn remove(fork: &mut MemoryFork, model: &mut Model, name: &[u8]) {
    let found = DirectoryChange::new(fork).remove(name).unwrap();
    assert_eq!(Some(found), model.remove(name));
}

fn posix<T>(outcome: xfs_buffer::Result<T>) -> PosixError {
    match outcome {
        Err(Error::Posix(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Returns the form of the directory as a number: 0 short, 1 block, 2 leaf, 3 node.
fn form(fork: &mut MemoryFork) -> usize {
    match DirectoryChange::new(fork).form().unwrap() {
        super::Form::Short(_) => 0,
        super::Form::Block(_) => 1,
        super::Form::Leaf(_) => 2,
        super::Form::Node(_) => 3,
    }
}

fn random_name(random: &mut Prng, model: &Model) -> Vec<u8> {
    let length = match random.within(0..10) {
        0 => random.within(200..256),
        1..=3 => random.within(20..80),
        _ => random.within(3..16),
    };
    let mut name: Vec<u8> = (0..length).map(|_| b'a' + random.within(0..26) as u8).collect();
    // Sometimes a name with the hash of another.
    if random.within(0..4) == 0
        && let Some(other) = model.keys().nth(random.within(0..model.len().max(1)))
        && other.len() >= 2
    {
        name = collide(other);
    }
    name
}

/// Makes `steps` random changes of a directory on a volume with the block sizes `shape`, and
/// compares the directory with a model. The directory grows to `most` entries and shrinks to none,
/// several times.
fn check_random(seed: u64, shape: (u8, u8), steps: usize, most: usize) {
    let mut random = Prng::new(seed);
    let (mut fork, mut model) = (directory(shape), Model::new());
    let (mut grows, mut forms) = (true, [0_usize; 4]);
    for step in 0..steps {
        grows = if grows { model.len() < most } else { model.is_empty() };
        let wants_more = random.within(0..100) < if grows { 80 } else { 15 };
        let name = random_name(&mut random, &model);
        if wants_more {
            let inode = 200 + random.within(0..1000) as u64;
            match model.contains_key(&name) {
                true => {
                    let refused = DirectoryChange::new(&mut fork).add(&entry(&name, inode));
                    assert_eq!(posix(refused), PosixError::Exists);
                }
                false => add(&mut fork, &mut model, &name, inode),
            }
        } else if let Some(name) = model.keys().nth(random.within(0..model.len().max(1))).cloned() {
            if random.within(0..5) == 0 {
                let changed = NewEntry {
                    name: &name,
                    inode: InodeNumber(5000),
                    entry_type: EntryType::Directory,
                };
                let before = DirectoryChange::new(&mut fork).replace(&changed).unwrap();
                let after = model.insert(name.clone(), (InodeNumber(5000), EntryType::Directory));
                assert_eq!(Some(before), after.map(|(inode, _)| inode));
            } else {
                remove(&mut fork, &mut model, &name);
            }
        }
        forms[form(&mut fork)] += 1;
        if step % (16 + model.len() / 4) == 0 || model.len() < 40 {
            check::directory(&mut fork, &model, PARENT);
        }
    }
    let names: Vec<_> = model.keys().cloned().collect();
    for name in names {
        remove(&mut fork, &mut model, &name);
    }
    check::directory(&mut fork, &model, PARENT);
    assert!(fork.is_local() && fork.block_count() == 0, "an empty directory is short");
    assert!(forms.iter().all(|met| *met != 0), "seed {seed}, {shape:?}: {forms:?}");
}

#[test]
fn directories_of_small_blocks_equal_a_map() {
    check_random(11, SHAPES[0], 3000, 300);
    check_random(12, SHAPES[0], 6000, 1500);
}

#[test]
fn directories_of_multi_block_blocks_equal_a_map() {
    check_random(13, SHAPES[1], 6000, 1200);
}

#[test]
fn directories_of_common_blocks_equal_a_map() {
    check_random(14, SHAPES[2], 6000, 1500);
}

#[test]
fn directories_of_the_largest_blocks_equal_a_map() {
    check_random(15, SHAPES[3], 24_000, 9000);
    check_random(16, SHAPES[4], 24_000, 9000);
}

/// Checks lookups of names that all have one hash and whose index entries fill several leaves.
#[test]
fn names_of_one_hash_over_several_leaves_are_found() {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    // Eight pairs of bytes, each in two forms of one hash: 256 names.
    let name = |number: usize| -> Vec<u8> {
        (0..8)
            .flat_map(|bit| if number >> bit & 1 == 0 { *b"AB" } else { [b'A' ^ 1, b'B' ^ 0x80] })
            .collect()
    };
    assert_eq!(name_hash(&name(0)), name_hash(&name(255)));
    for number in 0..256 {
        add(&mut fork, &mut model, &name(number), 300 + number as u64);
        add(&mut fork, &mut model, format!("other {number}").as_bytes(), 900);
    }
    assert!(fork.blocks_of(BlockKind::DirectoryIndex).len() > 4);
    check::directory(&mut fork, &model, PARENT);
    assert_eq!(
        posix(DirectoryChange::new(&mut fork).add(&entry(&name(255), 1))),
        PosixError::Exists
    );
    for number in (0..256).rev() {
        remove(&mut fork, &mut model, &name(number));
        check::directory(&mut fork, &model, PARENT);
    }
}

/// Checks I2 of `xfs_dir::directory::change`: an entry keeps its cookie through all forms.
#[test]
fn cookies_stay_through_every_form() {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    add(&mut fork, &mut model, b"first", 200);
    add(&mut fork, &mut model, b"stays", 201);
    let cookie = |fork: &mut MemoryFork| -> Cookie { check::cookies(fork)[b"stays".as_slice()] };
    let expected = cookie(&mut fork);
    for number in 0..1000 {
        add(&mut fork, &mut model, format!("{number:08}").as_bytes(), 202);
        assert_eq!(cookie(&mut fork), expected);
    }
    assert_eq!(form(&mut fork), 3);
    remove(&mut fork, &mut model, b"first");
    for number in 0..1000 {
        remove(&mut fork, &mut model, format!("{number:08}").as_bytes());
        assert_eq!(cookie(&mut fork), expected);
    }
    assert_eq!(form(&mut fork), 0);
}

#[test]
fn wide_inode_number_widens_the_short_form() {
    let (mut fork, mut model) = (directory(SHAPES[2]), Model::new());
    for number in 0..20 {
        add(&mut fork, &mut model, format!("name{number:02}").as_bytes(), 200);
    }
    assert!(fork.is_local());
    add(&mut fork, &mut model, b"wide", (1 << 33) + 512);
    check::directory(&mut fork, &model, PARENT);
    // 21 entries of 8 bytes for a number no longer fit.
    assert!(!fork.is_local());
    remove(&mut fork, &mut model, b"wide");
    assert!(fork.is_local());
    DirectoryChange::new(&mut fork).replace(&entry(b"..", (1 << 34) + 512)).unwrap();
    check::directory(&mut fork, &model, InodeNumber((1 << 34) + 512));
    assert!(!fork.is_local());
}

#[test]
fn parent_is_replaced_in_every_form() {
    for entries in [0, 1, 30, 300, 2000] {
        let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
        for number in 0..entries {
            add(&mut fork, &mut model, format!("entry {number}").as_bytes(), 200);
        }
        let before = DirectoryChange::new(&mut fork).replace(&entry(b"..", 777)).unwrap();
        assert_eq!(before, PARENT);
        let found = DirectoryChange::new(&mut fork).find(b"..").unwrap();
        assert_eq!(found.map(|(inode, _)| inode), Some(InodeNumber(777)));
        assert_eq!(DirectoryChange::new(&mut fork).is_empty().unwrap(), entries == 0);
    }
}

/// Checks I1 of `xfs_dir::directory::change`: everything that can be refused is refused before the
/// first change.
#[test]
fn refused_change_changes_nothing() {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    for number in 0..400 {
        let mut change = DirectoryChange::new(&mut fork);
        let long = [b'x'; 256];
        assert_eq!(posix(change.add(&entry(&long, 200))), PosixError::NameTooLong);
        assert_eq!(posix(change.find(&long)), PosixError::NameTooLong);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(posix(change.add(&entry(name, 200))), PosixError::InvalidArgument);
            assert_eq!(posix(change.remove(name)), PosixError::InvalidArgument);
        }
        assert_eq!(posix(change.remove(b"missing")), PosixError::NotFound);
        assert_eq!(posix(change.replace(&entry(b"missing", 200))), PosixError::NotFound);
        add(&mut fork, &mut model, format!("entry {number}").as_bytes(), 200);
    }
    check::directory(&mut fork, &model, PARENT);
}

/// Checks that creating an entry in a large directory logs a few hundred bytes, not whole blocks.
#[test]
fn change_of_a_large_directory_touches_few_bytes() {
    let (mut fork, mut model) = (directory(SHAPES[2]), Model::new());
    for number in 0..20_000_u32 {
        let name = format!("file{:08x}", number.wrapping_mul(0x9e37_79b9));
        add(&mut fork, &mut model, name.as_bytes(), 200);
    }
    let each = fork.bytes_touched / 20_000;
    // Half of a leaf half full moves up for the new entry: about 1 KiB on average.
    assert!(each < 1600, "{each} bytes each");
}

#[test]
fn wrong_index_is_an_error() {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    for number in 0..2000 {
        add(&mut fork, &mut model, format!("entry {number}").as_bytes(), 200);
    }
    let free = fork.blocks_of(BlockKind::DirectoryFree)[0].0;
    // The index now claims that every data block has room.
    fork.damage(free, |bytes| {
        let count = u32::from_be_bytes(*bytes[52..].first_chunk().unwrap()) as usize;
        bytes[64..64 + 2 * count].as_chunks_mut().0.fill(1000_u16.to_be_bytes());
    });
    let added =
        (b'0'..=b'9').map(|digit| DirectoryChange::new(&mut fork).add(&entry(&[digit; 255], 200)));
    let added: Vec<_> = added.collect();
    assert!(added.iter().any(|added| matches!(added, Err(Error::Corrupt(_)))));
    let foreign = fork.blocks_of(BlockKind::DirectoryIndex)[0].0;
    fork.damage(foreign, |bytes| bytes[55] ^= 1);
    assert!(matches!(DirectoryChange::new(&mut fork).find(b"entry 7"), Err(Error::Corrupt(_))));
    assert_ne!(foreign, FileBlock(0));
}

/// Checks that a change of a damaged directory returns, with or without an error, whatever the
/// blocks contain.
#[test]
fn change_of_a_damaged_directory_ends() {
    let (mut errors, mut damaged) = (0, 0);
    for seed in 0..120 {
        let mut random = Prng::new(seed);
        let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
        for number in 0..[30, 150, 700][seed as usize % 3] {
            add(&mut fork, &mut model, format!("entry {number}").as_bytes(), 200);
        }
        damaged += (0..200).filter(|_| fork.mutate(&mut random)).take(3).count();
        for number in 0..60 {
            let name = format!("entry {}", random.within(0..800));
            let mut change = DirectoryChange::new(&mut fork);
            let outcome = match number % 3 {
                0 => change.add(&entry(format!("{number:<40}").as_bytes(), 200)),
                1 => change.remove(name.as_bytes()).map(|_| ()),
                _ => change.replace(&entry(name.as_bytes(), 201)).map(|_| ()),
            };
            errors += usize::from(matches!(outcome, Err(Error::Corrupt(_))));
            if matches!(outcome, Err(Error::Corrupt(_))) {
                break;
            }
        }
    }
    assert!(errors > 12 && damaged > 240, "{errors} errors after {damaged} changes");
}

/// Fills a directory in block form with names of 11 bytes. Each name takes an entry of 24 bytes and
/// an index entry of 8 bytes. Returns the number of names.
fn fill_block(fork: &mut MemoryFork, model: &mut Model) -> usize {
    let mut number = 0;
    while form(fork) < 2 {
        number += 1;
        add(fork, model, format!("name {number:06}").as_bytes(), 200);
    }
    remove(fork, model, format!("name {number:06}").as_bytes());
    assert_eq!(form(fork), 1);
    number - 1
}

#[test]
fn full_block_form_returns_stale_index_entries_to_its_records() {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    let last = fill_block(&mut fork, &mut model);
    // No two of them are neighbours, so no free record is longer than one entry.
    for number in (1..last).step_by(2).take(6) {
        remove(&mut fork, &mut model, format!("name {number:06}").as_bytes());
    }
    // It takes 32 bytes, which only the space of the six index entries gives.
    add(&mut fork, &mut model, b"a name of 20 bytes..", 201);
    assert_eq!(form(&mut fork), 1, "the block was compacted");
    check::directory(&mut fork, &model, PARENT);
    for name in model.clone().keys() {
        remove(&mut fork, &mut model, name);
        check::directory(&mut fork, &model, PARENT);
    }
}

#[test]
fn entry_of_the_block_form_leaves_room_for_its_own_index_entry() {
    for length in [24, 32, 40, 48] {
        let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
        // A long name, removed and replaced by a short one, leaves a free record among the entries
        // and no stale index entry.
        add(&mut fork, &mut model, &[b'l'; 100], 200);
        let last = fill_block(&mut fork, &mut model);
        remove(&mut fork, &mut model, format!("name {last:06}").as_bytes());
        remove(&mut fork, &mut model, &[b'l'; 100]);
        add(&mut fork, &mut model, b"short", 201);
        add(&mut fork, &mut model, b"other", 201);
        // The free records: 24 or 32 bytes before the index, 80 bytes among the entries.
        let name = vec![b'n'; length - 12];
        add(&mut fork, &mut model, &name, 202);
        assert_eq!(form(&mut fork), 1, "the block has room for {length} bytes");
        check::directory(&mut fork, &model, PARENT);
    }
}

/// Adds and then removes entries with these names, and compares the directory with a map. The names
/// need more leaves than one node can point to, so the directory gets nodes above nodes.
fn check_nodes_above_nodes(names: &[String]) {
    let (mut fork, mut model) = (directory(SHAPES[0]), Model::new());
    for (number, name) in names.iter().enumerate() {
        add(&mut fork, &mut model, name.as_bytes(), 200);
        if number % 2000 == 0 {
            check::directory(&mut fork, &model, PARENT);
        }
    }
    let nodes = fork.blocks_of(BlockKind::DirectoryIndex);
    let nodes = nodes.iter().filter(|(_, bytes)| dabtree::magic(bytes) == Some(NODE_MAGIC));
    assert!(nodes.count() >= 3, "a root, and two nodes below it");
    check::directory(&mut fork, &model, PARENT);
    for (number, name) in names.iter().enumerate() {
        remove(&mut fork, &mut model, name.as_bytes());
        if number % 2000 == 0 {
            check::directory(&mut fork, &model, PARENT);
        }
    }
    assert!(fork.is_local() && fork.block_count() == 0, "an empty directory is short");
}

/// Checks I1 of `xfs_dir::tree`: searches begin at the root, which stays in its file block.
#[test]
fn directory_with_nodes_above_nodes_equals_a_map() {
    let name = |number: u32| format!("{:08x}", number.wrapping_mul(0x9e37_79b9));
    let mut names: Vec<_> = (0..16_000).map(name).collect();
    check_nodes_above_nodes(&names);
    // Each entry becomes the last one of its leaf and of all nodes above it.
    names.sort_by_key(|name| name_hash(name.as_bytes()));
    check_nodes_above_nodes(&names);
    names.reverse();
    check_nodes_above_nodes(&names);
}

/// Checks that the data blocks of a directory end at 32 GiB: a cookie is an offset in units of 8
/// bytes and has 32 bits.
#[test]
fn last_data_block_is_the_one_whose_end_has_a_cookie() {
    for shape in SHAPES {
        let (mut fork, mut model, mut number) = (directory(shape), Model::new(), 0);
        while form(&mut fork) < 2 {
            add(&mut fork, &mut model, format!("{number:0200}").as_bytes(), 200);
            number += 1;
        }
        let last = (32 << 30) / u64::from(fork.geometry().directory_block_size()) - 1;
        DirectoryChange::new(&mut fork).grow_data(last - 1).unwrap();
        DirectoryChange::new(&mut fork).grow_data(last).unwrap();
        assert_eq!(fork.size(), 32 << 30);
        let refused = DirectoryChange::new(&mut fork).grow_data(last + 1).map(drop);
        assert_eq!(posix(refused), PosixError::NoSpace);
    }
}
