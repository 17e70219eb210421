use std::time::Duration;

use xfs_alloc::open_journal;
use xfs_dir::ParentPath;
use xfs_icache::{InodeIndex, JournalStore};
use xfs_trans::testing::{self, JournalParts, make_with};

use super::*;
use crate::clock::Clock;
use crate::options::LockCheck;

/// Mounts a new volume, with the threads that every mount has.
fn start() -> MountThreads {
    let device = make_with("");
    let JournalParts { cache, log, superblock } = testing::parts(&device, 1);
    let journal = open_journal(cache, log, &superblock).unwrap();
    let store = JournalStore::new(Arc::clone(&journal));
    let options = MountOptions {
        clock: Clock::Host,
        parents: ParentPath::Direct,
        joins_writes: true,
        lease_grace: Duration::from_secs(45),
        lock_check: LockCheck::default(),
        upkeep: None,
    };
    let cache = InodeCache::new(store, 64, InodeIndex::default());
    MountThreads::start(journal, cache, options).unwrap()
}

#[test]
fn sound_threads_end_with_a_clean_close() {
    start().close().unwrap();
}

/// Checks that a close returns an error if a thread has panicked. Such a thread has left work
/// undone, so the volume must not be closed as a clean one.
#[test]
#[should_panic(expected = "a thread of the mount has panicked")]
fn panicked_thread_fails_the_close() {
    let mut threads = start();
    threads.start_worker("panics", |_| panic!("as the test wants it")).unwrap();
    let _ = threads.close();
}
