//! Explores schedules of the real dentry cache: a thread follows a cached name while another
//! removes its file. With a planted bug, some schedule must fail.

use std::sync::Arc;

use shuttle::thread;
use xfs_format::InodeNumber;
use xfs_sync::schedules::{check_found, explore};
use xfs_sync::{Latch, Object};

use super::DIRECTORY;
use crate::dentry_cache::DentryCache;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::testing::{FakeStore, Mutant};

const NUMBER: InodeNumber = InodeNumber(5);
const NAME: &[u8] = b"name";

/// The way in which a reader takes a reference to the inode of a dentry: with or without a check of
/// the dentry after that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DentryReader {
    /// The reader checks whether the dentry is dead: I2 of `xfs_icache::dentry_cache`.
    Checks,
    Trusts,
}

/// One thread follows a cached name. Another thread removes the file and gives its inode number to
/// a new file. Checks that the name never leads to the new file.
fn walk_beside_removal(reader: DentryReader) {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    store.create(NUMBER, drop);
    let cache = Arc::new(InodeCache::new(Arc::clone(&store), 4, InodeIndex::ByGroup));
    let (dentries, latch) = (Arc::new(DentryCache::new()), Arc::new(Latch::<Object>::new()));
    (0..2).for_each(|_| dentries.note_lookup(DIRECTORY, NAME, Some(NUMBER)));
    let first = cache.take(NUMBER).expect("there is one");
    let generation = first.live().generation();
    drop(first);
    let (walking, removing) = (Arc::clone(&cache), Arc::clone(&cache));
    let (read, removed) = (Arc::clone(&dentries), Arc::clone(&dentries));
    let reading = thread::spawn(move || {
        let dentries = read.reader();
        let Some(dentry) = dentries.find(DIRECTORY, NAME) else { return };
        let Ok(entry) = dentry.inode().ok_or(()).and_then(|it| walking.take(it).map_err(drop))
        else {
            return;
        };
        if reader == DentryReader::Trusts || !dentry.is_dead() {
            assert_eq!(entry.live().generation(), generation, "the name leads to another file");
        }
        drop(entry);
    });
    let changing = thread::spawn(move || {
        if let Ok(entry) = removing.take(NUMBER) {
            let held = latch.exclusive();
            removed.invalidate(DIRECTORY, NAME);
            entry.live().unlink();
            drop(held);
            entry.finish();
        }
        removing.drain();
        if let Some(Ok(made)) = store.create(NUMBER, |book| removing.insert(book)) {
            made.set_ready();
            drop(made);
        }
    });
    reading.join().expect("a thread of the model");
    changing.join().expect("a thread of the model");
    assert_eq!(dentries.count(), 0);
}

/// Checks I1 of `xfs_icache::dentry_cache` in all schedules: a cached name never leads to a file
/// that got the old file's inode number after the name was removed.
#[test]
fn cached_name_never_leads_to_another_file() {
    explore(|| walk_beside_removal(DentryReader::Checks));
}

#[test]
fn planted_reader_that_trusts_a_dead_name_is_found() {
    check_found("the name leads to another file", || walk_beside_removal(DentryReader::Trusts));
}
