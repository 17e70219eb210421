//! Tests of changes of names in real transactions, on volumes in memory. A new buffer cache on the
//! same device must read exactly the committed changes.
#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

mod names;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use xfs_alloc::open_journal;
use xfs_buffer::{BufferCache, Error, PosixError};
use xfs_device::SharedDevice;
use xfs_dir::{
    Namespace, NewAttribute, ParentPath, SetMode, attribute_blocks, parent_blocks,
    resume_attribute, set_attribute,
};
use xfs_format::log_item::AttrOperation;
use xfs_format::reservation::TransactionKind;
use xfs_inode::LiveInode;
use xfs_testkit::CowDevice;
use xfs_trans::testing::{JournalParts, crashed, make_sized, parts, recovered_parts, superblock};
use xfs_trans::{AttrPayload, IntentPayload, Journal, OpenIntent};

use names::Names;

const VOLUME_BYTES: u64 = 400 << 20;

fn journal(parts: JournalParts) -> Arc<Journal> {
    let JournalParts { cache, log, superblock } = parts;
    open_journal(cache, log, &superblock).unwrap()
}

/// Returns an empty buffer cache on a device.
fn cache_of(device: &SharedDevice) -> BufferCache {
    let geometry = Arc::new(superblock(device).geometry);
    BufferCache::new(Arc::clone(device), geometry, 8 << 20)
}

/// Fills and empties a volume alternately. After each quarter of the steps, compares two volumes
/// with the model of the expected contents: the open volume, and a copy of this volume after a
/// crash and recovery. At the end unmounts the volume and compares it with the model again.
fn check(seed: u64, options: &str, steps: usize, path: ParentPath) {
    let device = make_sized(VOLUME_BYTES, options);
    let journal = journal(parts(&device, 0));
    let mut names = Names::new(&journal, seed, path);
    for step in 0..steps {
        let outcome = names.step(step % (steps / 2) < steps / 3);
        outcome.unwrap_or_else(|error| panic!("seed {seed}, {options}, step {step}: {error}"));
        if step % (steps / 4) == steps / 4 - 1 {
            names.model().check_open(journal.cache());
            journal.force_all().unwrap();
            let copy = crashed(&device);
            let (parts, replayed) = recovered_parts(&copy);
            assert_eq!(replayed.intents().len(), 0);
            names.model().check(&parts.cache);
        }
    }
    names.model().check_open(journal.cache());
    // The volume's inodes hold no reference to the journal.
    let checked = names.into_model();
    journal.unmount().unwrap();
    checked.check(&cache_of(&device));
}

/// Checks I5 of `xfs_dir`: an attribute with too many extents for the inode's count is refused at
/// once. This matters because the chain of transactions that sets an attribute cannot be undone
/// once it has begun.
#[test]
fn attribute_with_uncountable_extents_is_refused_before_any_change() {
    const MOST: u32 = (1 << 15) - 1;
    let device = make_sized(VOLUME_BYTES, "-b size=1k -i nrext64=0");
    let journal = journal(parts(&device, 0));
    let root = Arc::new(LiveInode::load(&journal, journal.superblock().root_inode).unwrap());
    let set = |name: &[u8], value: &[u8]| {
        let geometry = journal.geometry();
        let blocks = attribute_blocks(geometry, name.len(), value.len());
        let mut tx = journal.begin(TransactionKind::SetAttr, blocks).unwrap();
        tx.join(root.log_item());
        let attribute = NewAttribute { namespace: Namespace::Trusted, name, value };
        tx.commit_or_cancel(|tx| set_attribute(tx, &root, &attribute, SetMode::Either))
    };
    set(b"in a leaf", &[1; 500]).unwrap();
    set(b"in blocks of its own", &[2; 40_000]).unwrap();
    let count = |extents: u32| {
        let mut tx = journal.begin(TransactionKind::ChangeInode, 0).unwrap();
        tx.join(root.log_item());
        let before =
            root.change(&mut tx, |core| std::mem::replace(&mut core.attr_extents, extents));
        tx.commit().unwrap();
        before
    };
    let extents = count(MOST - 30);
    let refused = set(b"too long", &[3; 40_000]).unwrap_err();
    assert!(matches!(refused, Error::Posix(PosixError::FileTooLarge)), "{refused}");
    assert!(!journal.is_shut_down());
    count(extents);
    set(b"too long", &[3; 40_000]).unwrap();
    drop(root);
    journal.unmount().unwrap();
}

/// Fills a volume completely, several times. Checks that operations that find no room are refused
/// and change nothing.
fn check_full(seed: u64, volume_bytes: u64, options: &str) {
    let device = make_sized(volume_bytes, options);
    let journal = journal(parts(&device, 0));
    let mut names = Names::new(&journal, seed, ParentPath::Direct);
    let mut refused = 0;
    let mut note = |outcome: Result<(), Error>| {
        assert!(!journal.is_shut_down(), "seed {seed}, {options}");
        match outcome {
            Ok(()) => true,
            Err(Error::Posix(PosixError::NoSpace)) => {
                refused += 1;
                false
            }
            Err(error) => panic!("seed {seed}, {options}: {error}"),
        }
    };
    for _ in 0..4 {
        while note(names.set_long()) {}
        for step in 0..600 {
            note(names.step(step < 400));
        }
    }
    assert!(refused > 20, "{refused} refused");
    names.model().check_open(journal.cache());
    let model = names.into_model();
    journal.unmount().unwrap();
    model.check(&cache_of(&device));
}

#[test]
fn changes_on_a_full_volume_are_refused_whole() {
    check_full(38, 40 << 20, "-n parent=1 -l size=16m");
    check_full(39, 60 << 20, "-b size=1024 -n parent=1,size=65536 -l size=22m");
}

/// Finishes the intents in `open`, which a crash has left open, as recovery does at a mount.
fn take_up(journal: &Arc<Journal>, open: &[OpenIntent]) {
    let mut captured = Vec::new();
    for intent in open {
        let mut works = Vec::new();
        for promise in intent.payloads() {
            let work = match promise {
                IntentPayload::Attr(attribute) => {
                    let file = Arc::new(LiveInode::load(journal, attribute.inode).unwrap());
                    resume_attribute(&file, attribute).map(Some)
                }
                promise => xfs_alloc::resume(journal.geometry(), promise),
            };
            works.push(work.unwrap().expect("a promise of this volume"));
        }
        let blocks = parent_blocks(journal.geometry(), 255);
        let kind = TransactionKind::SetAttr;
        captured.push(journal.resume(intent, works, kind, blocks).unwrap());
    }
    for captured in captured {
        captured.finish(journal).unwrap();
    }
}

/// Checks that an attribute intent is refused if it is about an earlier file with the inode number,
/// or if its namespace does not exist.
#[test]
fn attribute_intent_that_is_not_about_the_file_is_refused() {
    let device = make_sized(VOLUME_BYTES, "-n parent=1");
    let journal = journal(parts(&device, 0));
    let root = superblock(&device).root_inode;
    let file = Arc::new(LiveInode::load(&journal, root).unwrap());
    let right = AttrPayload {
        inode: root,
        generation: file.inode().core().generation,
        operation: AttrOperation::ParentSet,
        filter: Namespace::Parent.flags().bits().into(),
        name: b"name".to_vec(),
        new_name: None,
        value: vec![0; 12],
        new_value: None,
    };
    assert!(resume_attribute(&file, &right).is_ok());
    let earlier = AttrPayload { generation: right.generation.wrapping_add(1), ..right.clone() };
    let refused = resume_attribute(&file, &earlier).err();
    assert!(matches!(refused, Some(Error::Posix(PosixError::Stale))), "{refused:?}");
    for filter in [0x06, 0x100] {
        let refused = resume_attribute(&file, &AttrPayload { filter, ..right.clone() }).err();
        assert!(matches!(refused, Some(Error::Corrupt(_))), "{filter:#x}: {refused:?}");
    }
    journal.unmount().unwrap();
}

/// Cuts the power between two transactions of a chain, while intents of parent pointers are open.
/// Recovery finishes the intents. Each change must be present as a whole or not at all: a change of
/// a directory by I3 of `xfs_dir::directory::change`, and one of an attribute
/// by I1 of `xfs_dir::attributes::change`.
fn check_intents(seed: u64, options: &str, steps: usize) {
    let device = Arc::new(CowDevice::new(make_sized(VOLUME_BYTES, options)));
    let shared: SharedDevice = Arc::clone(&device) as _;
    let journal = journal(parts(&shared, 0));
    let mut names = Names::new(&journal, seed, ParentPath::Intents);
    let mut intents = 0;
    for step in 0..steps {
        let forks = Rc::new(RefCell::new(Vec::new()));
        if step % 10 == 9 {
            let (device, forks) = (Arc::clone(&device), Rc::clone(&forks));
            names.between_steps = Some(Box::new(move || forks.borrow_mut().push(device.fork())));
        }
        names.step(step % (steps / 2) < steps / 3).unwrap();
        names.between_steps = None;
        for fork in forks.take() {
            let fork: SharedDevice = Arc::new(fork);
            let (parts, replayed) = recovered_parts(&fork);
            let JournalParts { cache, log, superblock } = parts;
            let journal = open_journal(cache, log, &superblock).unwrap();
            let open = journal.adopt(&replayed).unwrap();
            intents += open.len();
            take_up(&journal, &open);
            journal.unmount().unwrap();
            names.model().check(&cache_of(&fork));
        }
    }
    assert!(intents > steps / 40, "{intents} intents were open");
}

#[test]
fn parent_pointer_intents_are_finished_by_recovery() {
    check_intents(36, "-n parent=1 -l size=16m", 600);
    check_intents(37, "-b size=1024 -n parent=1 -l size=16m", 600);
}

#[test]
fn names_on_a_common_volume_equal_the_model() {
    check(31, "-n parent=0 -l size=16m", 3000, ParentPath::Direct);
}

#[test]
fn parent_pointers_the_short_way_equal_the_model() {
    check(32, "-n parent=1 -l size=16m", 3000, ParentPath::Direct);
}

#[test]
fn parent_pointers_the_long_way_equal_the_model() {
    check(33, "-n parent=1 -l size=16m", 3000, ParentPath::Intents);
}

#[test]
fn names_in_small_blocks_equal_the_model() {
    check(34, "-b size=1024 -n parent=1 -l size=16m", 4000, ParentPath::Direct);
}

#[test]
fn names_in_large_directory_blocks_equal_the_model() {
    check(35, "-b size=1024 -n parent=1,size=65536 -l size=32m", 2500, ParentPath::Direct);
}
