//! Explores schedules of the real cache in which several threads open and close a file, by
//! references that their slots share, while the file is removed. With a planted bug, some schedule
//! must fail.

use std::sync::Arc;

use shuttle::thread;
use xfs_format::InodeNumber;
use xfs_sync::schedules::{check_found, explore};

use super::{PerCpuRefs, release_ref};
use crate::counts::Count;
use crate::evict::count_inodes;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::testing::{FakeStore, Mutant};

const NUMBER: InodeNumber = InodeNumber(5);

/// The moment at which the processor slots are made to forget a removed file: after or before the
/// file's inode is marked as draining.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collapse {
    /// As I1 of `xfs_icache::per_cpu_refs` requires: the inode is first marked as draining, and
    /// then all slots are made to forget it.
    Drained,
    Before,
}

fn open_and_close(cache: &InodeCache<Arc<FakeStore>>, refs: &PerCpuRefs<Arc<FakeStore>>) {
    let Ok(entry) = cache.take(NUMBER) else { return };
    let held = refs.acquire(&entry, cache);
    entry.finish();
    let Some(held) = held else { return };
    held.entry().live().check();
    thread::yield_now();
    held.entry().live().check();
    release_ref(held, cache);
}

/// Removes a file that several threads open. `visit` is the moment at which the slots are made to
/// forget the file. Checks that the file is freed when its last reference is released, and that no
/// slot remembers it.
fn opens_beside_removal(visit: Collapse) {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    store.create(NUMBER, drop);
    let cache = Arc::new(InodeCache::new(Arc::clone(&store), 4, InodeIndex::ByGroup));
    let refs = Arc::new(PerCpuRefs::new());
    let entry = cache.take(NUMBER).expect("there is one");
    (0..64).for_each(|slot| entry.locks().note_opener(slot % 2));
    assert!(entry.locks().is_sharded());
    let opening: Vec<_> = (0..2)
        .map(|_| {
            let (cache, refs) = (Arc::clone(&cache), Arc::clone(&refs));
            thread::spawn(move || (0..2).for_each(|_| open_and_close(&cache, &refs)))
        })
        .collect();
    if visit == Collapse::Before {
        refs.visit(&entry, &cache);
    }
    entry.live().unlink();
    match visit {
        Collapse::Drained => refs.collapse(&entry, &cache),
        Collapse::Before => entry.locks().drain(),
    }
    entry.finish();
    opening.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    cache.drain();
    assert_eq!(cache.counts().sum(Count::Freed), 1, "I1: a slot remembers what was removed");
    assert_eq!(count_inodes(&*cache).total(), 0);
}

/// Checks I1 of `xfs_icache::per_cpu_refs`: once each processor slot was made to forget the inode
/// of a removed file, no slot remembers it.
#[test]
fn removed_file_frees_its_slot() {
    explore(|| opens_beside_removal(Collapse::Drained));
}

#[test]
fn planted_early_visit_of_slots_is_found() {
    check_found("I1: a slot remembers what was removed", || opens_beside_removal(Collapse::Before));
}
