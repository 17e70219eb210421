//! Names over real transactions, on volumes in memory: what was committed is what is read, by a
//! cache that has seen none of it.

#[path = "../workload/names.rs"]
mod names;

use std::sync::Arc;

use xfs_alloc::open_journal;
use xfs_buffer::BufferCache;
use xfs_device::SharedDevice;
use xfs_dir::ParentPath;
use xfs_trans::Journal;
use xfs_trans::testing::{Parts, crashed, make_sized, parts, recovered_parts, superblock};

use names::Names;

const VOLUME_BYTES: u64 = 400 << 20;

fn journal(parts: Parts) -> Arc<Journal> {
    let Parts { cache, log, superblock } = parts;
    open_journal(cache, log, &superblock).unwrap()
}

/// A cache that has read nothing yet.
fn cache(device: &SharedDevice) -> BufferCache {
    let geometry = Arc::new(superblock(device).geometry);
    BufferCache::new(Arc::clone(device), geometry, 8 << 20)
}

/// Fills and empties a volume by turns. Half way it is cut off and recovered; at the end it is
/// unmounted.
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
    checked.check(&cache(&device));
}

#[test]
fn common_volumes() {
    check(31, "-n parent=0 -l size=16m", 3000, ParentPath::Direct);
}

#[test]
fn parents_the_short_way() {
    check(32, "-n parent=1 -l size=16m", 3000, ParentPath::Direct);
}

#[test]
fn parents_the_long_way() {
    check(33, "-n parent=1 -l size=16m", 3000, ParentPath::Intents);
}

#[test]
fn small_blocks() {
    check(34, "-b size=1024 -n parent=1 -l size=16m", 4000, ParentPath::Direct);
}

#[test]
fn large_directory_blocks() {
    check(35, "-b size=1024 -n parent=1,size=65536 -l size=32m", 2500, ParentPath::Direct);
}
