//! Tests of attribute forks that grow and shrink through all forms. Each fork is compared with a
//! map of the expected attributes. Every block is verified after each change.

use std::collections::BTreeMap;

use xfs_format::attr::leaf::is_local;
use xfs_format::attr::{AttrEntry, AttrLeaf, AttrShortForm, AttrValue, Namespace};
use xfs_format::dabtree::{self, DaNode, NODE_MAGIC};
use xfs_format::directory::name_hash;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, FileBlock, InodeNumber, StructureAddress};
use xfs_testkit::Prng;

use super::leaf::RawEntry;
use super::{AttributeChange, AttributeKey, ValueBlocks, balance, leaf};
use crate::fixture::collide;
use crate::store::memory::{MemoryFork, geometry};
use crate::store::{ForkPlacement, ForkStore};

type Model = BTreeMap<(Namespace, Vec<u8>), Vec<u8>>;

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(131));

fn fork(block_log: u8) -> MemoryFork {
    let mut fork = MemoryFork::new(ForkKind::Attr, geometry(block_log, 0));
    fork.room = 140;
    fork.make_fork(1).unwrap();
    fork
}

fn key<'a>(namespace: Namespace, name: &'a [u8], value: &'a [u8]) -> AttributeKey<'a> {
    AttributeKey { namespace, name, value }
}

/// Inserts the attribute `new` in place of `old` (if given) through all steps of a change, without
/// transactions. A remote value gets a block number but no blocks in this test.
fn set(
    fork: &mut MemoryFork,
    old: Option<&AttributeKey<'_>>,
    new: &AttributeKey<'_>,
) -> Option<ValueBlocks> {
    let block_size = fork.geometry().block_size as usize;
    let value = if is_local(new.name.len(), new.value.len(), block_size) {
        AttrValue::Local(new.value)
    } else {
        AttrValue::Remote { first_block: FileBlock(7777), length_bytes: new.value.len() as u32 }
    };
    let entry = AttrEntry { namespace: new.namespace, name: new.name, value };
    fork.make_fork(8).unwrap();
    let mut change = AttributeChange::new(fork);
    if change.change_short(old, Some(&entry)).unwrap() {
        return None;
    }
    if !matches!(change.store.contents().unwrap(), ForkPlacement::Blocks) {
        change.short_to_leaf().unwrap();
    }
    let run = change.exchange(old, &entry).unwrap();
    change.shrink().unwrap();
    run
}

fn remove(fork: &mut MemoryFork, key: &AttributeKey<'_>) -> Option<ValueBlocks> {
    let mut change = AttributeChange::new(fork);
    if change.change_short(Some(key), None).unwrap() {
        return None;
    }
    let found = change.remove(key).unwrap().expect("the model says that it is there");
    change.shrink().unwrap();
    found.run
}

fn check(fork: &mut MemoryFork, model: &Model) {
    fork.verify();
    let mut found = BTreeMap::new();
    let mut keep = |entry: AttrEntry<'_>| {
        let length = entry.value.length_bytes();
        let before = found.insert((entry.namespace, entry.name.to_vec()), length);
        assert_eq!(before, None);
    };
    match fork.contents().unwrap() {
        ForkPlacement::Absent | ForkPlacement::NoBlocks => assert!(model.is_empty()),
        ForkPlacement::Inline(bytes) => {
            let form = AttrShortForm::decode(&bytes, PLACE).unwrap();
            form.entries().for_each(|entry| keep(entry.unwrap()));
        }
        ForkPlacement::Blocks => {
            let blocks: BTreeMap<_, _> = fork.blocks_of(BlockKind::Attr).into_iter().collect();
            let mut leaves = Vec::new();
            walk(&blocks, FileBlock(0), None, &mut leaves);
            for (index, at) in leaves.iter().enumerate() {
                let leaf = AttrLeaf::decode(&blocks[at], PLACE).unwrap();
                assert_eq!(leaf.forward(), leaves.get(index + 1).copied());
                leaf.entries().for_each(|entry| keep(entry.unwrap()));
            }
        }
    }
    let expected: BTreeMap<_, _> =
        model.iter().map(|(key, value)| (key.clone(), value.len() as u32)).collect();
    assert_eq!(found, expected);
    for ((namespace, name), _) in model.iter().step_by(1 + model.len() / 20) {
        let found = AttributeChange::new(fork).find(&key(*namespace, name, b"")).unwrap();
        assert!(found.is_some());
    }
    let missing = key(Namespace::User, b"no such name", b"");
    assert_eq!(AttributeChange::new(fork).find(&missing).unwrap(), None);
}

fn walk(
    blocks: &BTreeMap<FileBlock, Vec<u8>>,
    at: FileBlock,
    level: Option<u16>,
    leaves: &mut Vec<FileBlock>,
) -> u32 {
    let bytes = &blocks[&at];
    if dabtree::magic(bytes) != Some(NODE_MAGIC) {
        assert!(level.is_none_or(|level| level == 0));
        leaves.push(at);
        let range = AttrLeaf::decode(bytes, PLACE).unwrap().hash_range();
        return range.map_or(0, |(_, last)| last);
    }
    let node = DaNode::decode(bytes, PLACE).unwrap();
    for entry in node.entries() {
        let child = FileBlock(entry.before.get().into());
        let highest = walk(blocks, child, Some(node.level() - 1), leaves);
        assert_eq!(highest, entry.hash.get(), "I2 of `xfs_dir::tree`");
    }
    node.entries().last().unwrap().hash.get()
}

fn check_random(seed: u64, block_log: u8, steps: usize, most: usize) {
    let (mut random, mut fork, mut model) = (Prng::new(seed), fork(block_log), Model::new());
    let (mut grows, mut forms, mut remote) = (true, [0; 3], 0);
    for step in 0..steps {
        grows = if grows { model.len() < most } else { model.is_empty() };
        let namespace =
            [Namespace::User, Namespace::Trusted, Namespace::Security][random.within(0..3)];
        let mut name: Vec<u8> =
            (0..random.within(2..40)).map(|_| b'a' + random.within(0..26) as u8).collect();
        if random.within(0..4) == 0
            && let Some((_, other)) = model.keys().nth(random.within(0..model.len().max(1)))
        {
            name = collide(other);
        }
        let length = match random.within(0..8) {
            0 => random.within(0..4000),
            1 => random.within(200..800),
            _ => random.within(0..40),
        };
        let value = vec![b'v'; length];
        if random.within(0..100) < if grows { 80 } else { 15 } {
            let there = model.contains_key(&(namespace, name.clone()));
            let new = key(namespace, &name, &value);
            remote += usize::from(set(&mut fork, there.then_some(&new), &new).is_some());
            model.insert((namespace, name), value);
        } else if !model.is_empty() {
            let index = random.within(0..model.len());
            let (namespace, name) = model.keys().nth(index).unwrap().clone();
            remote += usize::from(remove(&mut fork, &key(namespace, &name, b"")).is_some());
            model.remove(&(namespace, name));
        }
        forms[match (fork.is_local(), fork.block_count()) {
            (true, _) | (false, 0) => 0,
            (false, 1) => 1,
            (false, _) => 2,
        }] += 1;
        if step % 8 == 0 || model.len() < 20 {
            check(&mut fork, &model);
        }
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    for (namespace, name) in keys {
        remove(&mut fork, &key(namespace, &name, b""));
        model.remove(&(namespace, name));
    }
    check(&mut fork, &model);
    assert!(matches!(fork.contents().unwrap(), ForkPlacement::Absent));
    assert!(forms.iter().all(|met| *met != 0), "{forms:?}");
    assert!(remote != 0 || block_log > 12);
}

#[test]
fn attributes_in_small_blocks_equal_a_map() {
    check_random(21, 10, 3000, 60);
    check_random(22, 10, 4000, 400);
}

#[test]
fn attributes_in_common_blocks_equal_a_map() {
    check_random(23, 12, 4000, 300);
}

#[test]
fn attributes_in_the_largest_blocks_equal_a_map() {
    check_random(24, 16, 3000, 1200);
}

/// Checks that a leaf is split into three if a long attribute is inserted between two long ones,
/// because no two leaves have room for all three.
#[test]
fn long_entry_between_long_ones_splits_a_leaf_into_three() {
    let (mut fork, mut model) = (fork(10), Model::new());
    let mut names: Vec<Vec<u8>> = (0..3).map(|index| vec![b'a', b'0' + index]).collect();
    names.sort_by_key(|name| xfs_format::directory::name_hash(name));
    for (name, length) in [(&names[0], 440), (&names[2], 440), (&names[1], 720)] {
        let value = vec![b'v'; length];
        set(&mut fork, None, &key(Namespace::User, name, &value));
        model.insert((Namespace::User, name.clone()), value);
    }
    check(&mut fork, &model);
    assert_eq!(fork.block_count(), 4, "three leaves and their node");
}

#[test]
fn parent_pointers_of_one_name_differ_by_value() {
    let mut fork = fork(10);
    let parent = |inode: u64| [&inode.to_be_bytes()[..], &7_u32.to_be_bytes()].concat();
    for inode in 0..200 {
        set(&mut fork, None, &key(Namespace::Parent, b"name", &parent(inode)));
    }
    fork.verify();
    for inode in 0..200 {
        let value = parent(inode);
        let pointer = key(Namespace::Parent, b"name", &value);
        assert!(AttributeChange::new(&mut fork).find(&pointer).unwrap().is_some());
        remove(&mut fork, &pointer);
        assert_eq!(AttributeChange::new(&mut fork).find(&pointer).unwrap(), None);
    }
    assert!(matches!(fork.contents().unwrap(), ForkPlacement::Absent));
}

#[test]
fn leaf_with_a_removed_name_reports_holes() {
    let mut fork = fork(12);
    for name in [b"one", b"two", b"six"] {
        set(&mut fork, None, &key(Namespace::User, name, &[b'v'; 300]));
    }
    let holes = |fork: &MemoryFork| fork.blocks_of(BlockKind::Attr)[0].1[62];
    assert_eq!(holes(&fork), 0);
    // The lowest name was inserted last; removing a higher one leaves a hole.
    let old = key(Namespace::User, b"two", b"");
    set(&mut fork, Some(&old), &key(Namespace::User, b"two", &[b'w'; 310]));
    assert_eq!(holes(&fork), 1);
    let used = leaf::used(&fork.blocks_of(BlockKind::Attr)[0].1);
    assert_eq!(used, 3 * 8 + 2 * 308 + 316);
}

/// Checks that a change of damaged attributes returns, with or without an error, whatever the
/// blocks contain.
#[test]
fn change_of_damaged_attributes_ends() {
    let (mut errors, mut damaged) = (0, 0);
    for seed in 0..150 {
        let (mut random, mut fork) = (Prng::new(seed), fork(10));
        for number in 0..[10, 60, 400][seed as usize % 3] {
            let name = format!("attribute {number}");
            set(&mut fork, None, &key(Namespace::User, name.as_bytes(), &[b'v'; 20]));
        }
        damaged += (0..200).filter(|_| fork.mutate(&mut random)).take(3).count();
        for number in 0..40 {
            let name = format!("attribute {}", random.within(0..450));
            let mut change = AttributeChange::new(&mut fork);
            let entry = AttrEntry {
                namespace: Namespace::User,
                name: name.as_bytes(),
                value: AttrValue::Local(b"another value"),
            };
            let old = key(Namespace::User, name.as_bytes(), b"");
            let outcome = match number % 2 {
                0 => change.exchange(Some(&old), &entry).map(|_| ()),
                _ => change.remove(&old).and_then(|_| change.shrink()),
            };
            if outcome.is_err() {
                errors += 1;
                break;
            }
        }
    }
    assert!(errors > 5 && damaged > 200, "{errors} errors after {damaged} changes");
}

/// Compares hashes of parent pointers with known values. The hash is part of the disk form, so it
/// must never change.
#[test]
fn hash_of_a_parent_pointer_mixes_name_and_both_halves_of_the_inode_number() {
    let hash = |namespace, value: &[u8]| key(namespace, b"name", value).hash();
    let value = |inode: u64| {
        let mut value = [0; 12];
        value[..8].copy_from_slice(&inode.to_be_bytes());
        value
    };
    let of_name = name_hash(b"name");
    assert_eq!(hash(Namespace::User, &value(131)), of_name);
    for inode in [131, 0xffff_ffff, 0x0001_0000_0083, 0x00ff_1234_8765_4321] {
        let expected = of_name ^ (inode >> 32) as u32 ^ inode as u32;
        assert_eq!(hash(Namespace::Parent, &value(inode)), expected, "{inode:#x}");
    }
    // The halves cancel each other out.
    assert_eq!(hash(Namespace::Parent, &value(0x0000_00aa_0000_00aa)), of_name);
}

/// Checks where a leaf is split. If two divisions are equally good, the left half is the smaller
/// one, because the same changes must always give the same bytes on disk.
#[test]
fn leaves_are_split_where_the_halves_are_most_alike() {
    let split = |lengths: &[usize], capacity| {
        let entry = |length: &usize| RawEntry { hash: 0, flags: 0, name: vec![0; *length] };
        balance(&lengths.iter().map(entry).collect::<Vec<_>>(), capacity)
    };
    assert_eq!(split(&[40, 40, 40, 40], 500), Some(2));
    assert_eq!(split(&[40, 40, 40], 500), Some(1), "the left half is the smaller one");
    assert_eq!(split(&[400, 40, 40, 40], 500), Some(1));
    assert_eq!(split(&[40, 40, 40, 400], 500), Some(3));
    // A half must fit a leaf.
    assert_eq!(split(&[400, 400, 400], 500), None);
    assert_eq!(split(&[40], 500), None);
    assert_eq!(split(&[], 500), None);
}
