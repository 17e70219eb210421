use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::InodeNumber;
use xfs_icache::{InodeIndex, JournalStore, Keep};
use xfs_trans::testing::make_with;
use xfs_vfs::{CreateOptions, InodeCache, NewKind};

use crate::{OpenOptions, Volume};

const PLAIN: CreateOptions = CreateOptions::new(0o600);
const FILES: usize = 24;

/// Returns a volume with `FILES` files in one group, and their inode numbers.
fn volume() -> (Volume, Vec<InodeNumber>) {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    let make =
        |number| root.create(format!("file{number}"), &NewKind::Regular, &PLAIN).unwrap().number();
    let numbers = (0..FILES).map(make).collect();
    (volume, numbers)
}

#[test]
fn inode_without_a_name_is_freed_by_its_last_reference() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (mount, _) = root.writable().unwrap();
    let entry = mount.take(numbers[3]).unwrap();
    root.remove_file("file3").unwrap();
    assert_eq!(entry.core().nlink, 0);
    // It is referenced, so others find it too.
    let other = mount.take(numbers[3]).unwrap();
    drop(other);
    drop(entry);
    mount.inode_cache.drain();
    assert!(mount.inode_cache.take_failure().is_none());
    let gone = mount.take(numbers[3]).map(|entry| entry.number());
    assert!(matches!(gone, Err(Error::Posix(PosixError::NotFound))), "{gone:?}");
}

#[test]
fn neighbouring_inodes_are_read_from_one_cluster() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (mount, _) = root.writable().unwrap();
    let store = JournalStore::new(Arc::clone(&mount.journal));
    let cache = InodeCache::new(store, 8, InodeIndex::ByGroup);
    let reads = || volume.statistics().unwrap().buffers.reads;
    drop(cache.take(numbers[0]).unwrap());
    let before = reads();
    let first = volume.geometry().inode_location(numbers[0]).unwrap().cluster;
    let is_beside = |number: &&InodeNumber| {
        volume.geometry().inode_location(**number).unwrap().cluster == first
    };
    let beside: Vec<_> = numbers[1..].iter().filter(is_beside).collect();
    assert!(beside.len() > 2);
    for number in &beside {
        let entry = cache.take(**number).unwrap();
        assert_eq!(entry.number(), **number);
        drop(entry);
    }
    assert_eq!(reads(), before);
    // No slot keeps a cluster when caches are dropped.
    cache.forget_near();
    drop(cache.take_as(*beside[0], Keep::Once).unwrap());
    assert!(reads() <= before + 1);
}
