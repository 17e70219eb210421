//! Tests of volumes that several threads fill to the last block, empty, and fill again.

use std::io;
use std::sync::Arc;

use ferroxfs::attr::SetMode;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{CreateOptions, Error, File, NewKind, OpenOptions, PosixError, Volume};
use xfs_device::SharedDevice;
use xfs_dir::{ParentLink, ParentPath, remove_entry, remove_parent};
use xfs_format::InodeNumber;
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_inode::LiveInode;
use xfs_testkit::CowDevice;
use xfs_trans::testing::{JournalParts, make_sized, parts};

const VOLUME_BYTES: u64 = 48 << 20;
const THREADS: usize = 4;
const ROUNDS: usize = 2;
const CREATION: CreateOptions = CreateOptions::new(0o600).uid(1).gid(1);

/// Returns whether an operation had space. Panics on any error except ENOSPC.
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

/// Fills a directory with large files, then with smaller files, and at last with empty files.
/// Returns the number of names that were tried, including those of files that could not be made.
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

/// Removes all entries of a directory.
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
        let options = OpenOptions::new().write(true);
        options.open_device(Arc::clone(&device)).unwrap()
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
        // Chunks with free inodes and blocks of directories may remain.
        assert!(again > free * 9 / 10, "{options}, round {round}: {again} of {free} blocks");
    }
    volume.close().unwrap();
}

#[test]
fn full_volume_refuses_and_can_be_emptied() {
    check("-b size=4k -d agcount=2");
    check("-b size=1k -d agcount=2 -n parent=1");
    check("-b size=4k -d agcount=1 -m rmapbt=0,reflink=0");
}

type Act = fn(&File, &File) -> Result<(), Error>;

/// Operations that need space. Each is called with two files that have the same contents.
const ACTS: [Act; 10] = [
    |file, _| file.write_at(&[3; 1 << 20], 0).map(|written| assert!(written > 0)),
    |file, _| file.change_range(0..VOLUME_BYTES / 2, RangeMode::Allocate(AllocateMode::Extend)),
    |file, _| file.change_range(100..1 << 20, RangeMode::Zero(AllocateMode::Extend)),
    |file, _| file.change_range(4096..8192, RangeMode::Punch),
    |file, _| file.change_range(4096..8192, RangeMode::Insert),
    |file, _| file.change_range(4096..8192, RangeMode::Collapse),
    |file, other| file.clone_range(FILE_BYTES, other, 0, FILE_BYTES),
    |file, other| file.deduplicate(0, other, 0, FILE_BYTES).map(|same| assert!(same)),
    |file, other| file.exchange_range(0, other, 0, FILE_BYTES),
    // The truncated block is shared, and has to be copied.
    |file, _| file.set_len(FILE_BYTES - 100),
];
const FILE_BYTES: u64 = 32 << 10;

/// Checks that the blocks of a removed file are available to the next operation, even before the
/// background thread has freed them.
#[test]
fn blocks_of_a_removed_file_are_available_at_once() {
    let device = make_sized(VOLUME_BYTES, "-i exchange=1");
    let options = OpenOptions::new().write(true).with_devices(device, None);
    let volume = options.open().unwrap();
    for round in 0..2 * ACTS.len() {
        let [small, other, shared] = ["/small", "/other", "/shared"].map(|path| {
            volume.write(path, vec![5; FILE_BYTES as usize]).unwrap();
            volume.open_file(path).unwrap()
        });
        if round % ACTS.len() == ACTS.len() - 1 {
            shared.clone_range(0, &small, 0, FILE_BYTES).unwrap();
        }
        volume.write("/large", b"").unwrap();
        let large = volume.open_file("/large").unwrap();
        let mut length_bytes = VOLUME_BYTES;
        while length_bytes >= 4096 {
            let range = large.metadata().size..large.metadata().size + length_bytes;
            let allocated = large.change_range(range, RangeMode::Allocate(AllocateMode::Extend));
            if !had_room(allocated) {
                length_bytes /= 2;
            }
        }
        volume.remove_file("/large").unwrap();
        drop(large);
        let act = ACTS[round % ACTS.len()];
        act(&small, &other).unwrap_or_else(|error| panic!("round {round}: {error}"));
        drop((small, other, shared));
        for path in ["/small", "/other", "/shared"] {
            volume.remove_file(path).unwrap();
        }
    }
}

/// Checks that the allocation of a range allocates nothing if there is not enough space for all of
/// the range, as in the kernel.
#[test]
fn allocation_without_room_changes_nothing() {
    const HOLES: u64 = 3000;
    let device = make_sized(VOLUME_BYTES, "-b size=1024 -d agcount=2");
    let options = OpenOptions::new().write(true).with_devices(device, None);
    let volume = options.open().unwrap();
    let available = || volume.space().unwrap().available_blocks;
    let mode = RangeMode::Allocate(AllocateMode::Extend);
    let [file, other] = ["/file", "/other"].map(|path| {
        volume.write(path, b"").unwrap();
        volume.open_file(path).unwrap()
    });
    for hole in 0..HOLES {
        file.write_at(&[3; 1024], 2048 * hole).unwrap();
    }
    file.sync_all().unwrap();
    let refused = |end| {
        let extents = || -> Vec<_> {
            let node = volume.lookup("/file").unwrap();
            node.extents(ForkKind::Data).map(Result::unwrap).collect()
        };
        let (size, before, free) = (file.metadata().size, extents(), available());
        assert!(!had_room(file.change_range(0..end, mode)));
        assert!(extents() == before, "after {end} bytes were refused");
        assert_eq!(file.metadata().size, size);
        // The btree of the map keeps blocks that are half full.
        assert!(available() + HOLES / 50 > free, "{} of {free} blocks are left", available());
    };
    refused(VOLUME_BYTES);
    // There are enough blocks for the holes, and too few for a map of twice as many extents.
    let rest = available() - HOLES - 12;
    other.change_range(0..rest << 10, mode).unwrap();
    refused(2048 * HOLES);
    other.set_len(0).unwrap();
    file.change_range(0..2048 * HOLES, mode).unwrap();
    assert_eq!(file.metadata().size, 2048 * HOLES);
    drop((file, other));
    volume.close().unwrap();
}

const LINKS: usize = 2;

/// Makes files that have a second name and attributes outside of the inode. Returns the inode
/// numbers of their directory and of the files.
fn populate(volume: &Volume) -> (InodeNumber, Vec<InodeNumber>) {
    volume.create_dir("/folder").unwrap();
    let folder = volume.lookup("/folder").unwrap();
    let files = (0..LINKS).map(|number| {
        let file = folder.create(format!("file {number}"), &NewKind::Regular, &CREATION).unwrap();
        file.set_attribute("user.large", &[7; 1000], SetMode::Create).unwrap();
        folder.link(&file, format!("link {number}")).unwrap();
        file.number()
    });
    let files = files.collect();
    (folder.number(), files)
}

/// Fills the volume until no file can get a block.
fn fill_to_the_last_block(volume: &Volume) {
    assert!(fill(volume, "/") > 0);
    let file = volume.open_file("/file 0").unwrap();
    let end = file.metadata().size;
    let blocks = (0..).map(|block| file.write_at(&[9; 4096], end + (block << 12)));
    let refused = blocks.take(100_000).find_map(Result::err);
    assert!(matches!(refused, Some(Error::Posix(PosixError::NoSpace))), "{refused:?}");
}

/// Removes the second name of each file. Stops the journal, as a crash would, when each removal has
/// logged the intent to remove a parent pointer, but has not removed the pointer.
fn cut_with_open_intents(device: &Arc<CowDevice>, folder: InodeNumber, files: &[InodeNumber]) {
    let shared: SharedDevice = Arc::clone(device) as _;
    let JournalParts { cache, log, superblock } = parts(&shared, 0);
    let journal = xfs_alloc::open_journal(cache, log, &superblock).unwrap();
    let folder = Arc::new(LiveInode::load(&journal, folder).unwrap());
    let generation = folder.inode().core().generation;
    let mut chains = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let file = Arc::new(LiveInode::load(&journal, *file).unwrap());
        let name = format!("link {number}").into_bytes();
        let mut tx = journal.begin(TransactionKind::Remove, 20).unwrap();
        tx.join(folder.log_item());
        tx.join(file.log_item());
        remove_entry(&mut tx, &folder, &name).unwrap();
        file.change(&mut tx, |core| core.nlink -= 1);
        let link = ParentLink { inode: folder.number(), generation, name: name.into() };
        remove_parent(&mut tx, &file, &link, ParentPath::Intents).unwrap();
        tx.leave(folder.log_item());
        tx.roll().unwrap();
        chains.push(tx);
    }
    journal.force_all().unwrap();
    journal.shut_down(xfs_log::Shutdown::Now).unwrap();
    chains.into_iter().for_each(xfs_trans::Transaction::cancel);
}

#[test]
fn full_volume_is_recovered() {
    let base = make_sized(VOLUME_BYTES, "-b size=4k -d agcount=1 -n parent=1 -l size=16m");
    let device = Arc::new(CowDevice::new(base));
    let shared: SharedDevice = Arc::clone(&device) as _;
    let options = OpenOptions::new().write(true);
    let devices = options.with_devices(Arc::clone(&shared), None);
    let volume = devices.open().unwrap();
    let (folder, files) = populate(&volume);
    fill_to_the_last_block(&volume);
    volume.close().unwrap();

    cut_with_open_intents(&device, folder, &files);
    let read_only = OpenOptions::new().open_device(Arc::clone(&shared)).unwrap();
    assert_eq!(read_only.node(files[0]).unwrap().parents().unwrap().len(), 1);
    drop(read_only);
    let volume = devices.open().unwrap();
    for file in &files {
        assert_eq!(volume.node(*file).unwrap().parents().unwrap().len(), 1);
    }
    volume.close().unwrap();
}
