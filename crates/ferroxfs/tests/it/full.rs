//! Volumes that are filled to the last block by several threads, emptied, and filled again.

use std::io;
use std::sync::Arc;

use ferroxfs::{Creation, Error, NewKind, OpenOptions, PosixError, Volume};
use xfs_trans::testing::make_sized;

const VOLUME_BYTES: u64 = 48 << 20;
const THREADS: usize = 4;
const ROUNDS: usize = 2;
const CREATION: Creation = Creation { mode: 0o600, uid: 1, gid: 1 };

/// Whether there was room.
fn had_room(result: Result<(), Error>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::Posix(PosixError::NoSpace)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn had_room_for_bytes(result: io::Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::StorageFull => false,
        Err(error) => panic!("{error}"),
    }
}

/// Fills a directory: large files, then smaller ones, in the end names alone.
fn fill(volume: &Volume, directory: &str) -> usize {
    let mut made = 0;
    let mut bytes = 1 << 20;
    while bytes > 256 {
        let path = format!("{directory}/file {made}");
        made += 1;
        if !had_room_for_bytes(volume.write(&path, vec![made as u8; bytes])) {
            bytes /= 2;
        }
    }
    let folder = volume.lookup(directory).unwrap();
    loop {
        let name = format!("a name without contents, as long as it takes {made}");
        made += 1;
        if !had_room(folder.create(name, &NewKind::Regular, &CREATION).map(drop)) {
            return made;
        }
    }
}

/// Removes whatever a directory has.
fn empty(volume: &Volume, directory: &str) {
    let folder = volume.lookup(directory).unwrap();
    let names: Vec<_> =
        folder.entries().unwrap().map(|entry| entry.unwrap().name().to_owned()).collect();
    for name in names {
        folder.remove_file(name).unwrap();
    }
}

fn check(options: &str) {
    let device = make_sized(VOLUME_BYTES, options);
    let open = || {
        let options = OpenOptions::new().writable(true);
        options.with_devices(Arc::clone(&device), None).writable_volume().unwrap()
    };
    let mut volume = open();
    let directories: Vec<_> = (0..THREADS).map(|number| format!("/directory {number}")).collect();
    for directory in &directories {
        volume.create_dir(directory).unwrap();
    }
    for round in 0..ROUNDS {
        let free = volume.space().unwrap().available_blocks;
        std::thread::scope(|scope| {
            for directory in &directories {
                scope.spawn(|| assert!(fill(&volume, directory) > 0));
            }
        });
        let left = volume.space().unwrap().available_blocks;
        assert!(left < free / 10, "{options}, round {round}: {left} of {free} blocks are left");
        std::thread::scope(|scope| {
            for directory in &directories {
                scope.spawn(|| empty(&volume, directory));
            }
        });
        volume.close().unwrap();
        volume = open();
        let again = volume.space().unwrap().available_blocks;
        // Chunks with free inodes and the blocks of directories may stay.
        assert!(again > free * 9 / 10, "{options}, round {round}: {again} of {free} blocks");
    }
    volume.close().unwrap();
}

#[test]
fn full_volumes_refuse_and_can_be_emptied() {
    check("-b size=4k -d agcount=2");
    check("-b size=1k -d agcount=2 -n parent=1");
    check("-b size=4k -d agcount=1 -m rmapbt=0,reflink=0");
}
