//! Tests of a volume that grows while it is used, and of a power cut during its growth.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use ferroxfs::admin::{GrowError, Label};
use ferroxfs::device::SharedDevice;
use ferroxfs::{Error, OpenOptions, PosixError, Volume};
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice};
use xfs_trans::testing::{is_clean, make_sized, superblock};

const DEVICE_BYTES: u64 = 1 << 30;
const BLOCK: u64 = 4096;
const THREADS: usize = 4;

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true);
    options.open_device(Arc::clone(device)).unwrap()
}

/// Makes a volume of 300 MiB on a device of 1 GiB. Its allocation groups have 80 MiB, the last one
/// 60 MiB.
fn make() -> SharedDevice {
    make_sized(DEVICE_BYTES, "-d size=300m -d agsize=80m -l size=16m")
}

/// Opens the closed volume again, and checks that it has the same counts of blocks and inodes as in
/// `space`, which was read before the close.
fn check_counts(device: &SharedDevice, space: ferroxfs::Space) {
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let fresh = volume.space().unwrap();
    assert_eq!((fresh.total_blocks, fresh.free_blocks), (space.total_blocks, space.free_blocks));
    assert_eq!((fresh.inodes, fresh.free_inodes), (space.inodes, space.free_inodes));
}

#[test]
fn added_blocks_are_usable_at_once_and_after_reopening() {
    let device = make();
    let volume = open(&device);
    let before = volume.space().unwrap();
    let blocks = volume.geometry().data_blocks;
    // First within the last group, then into new groups, then to the end of the device.
    for (wanted, groups) in [(Some(blocks + 1000), 4), (Some(blocks + 50_000), 7), (None, 13)] {
        let grown = volume.grow(wanted).unwrap();
        assert_eq!(grown, wanted.unwrap_or(DEVICE_BYTES / BLOCK));
        assert_eq!((volume.geometry().data_blocks, volume.geometry().ag_count), (grown, groups));
        volume.create_dir_all(format!("/{groups}/below")).unwrap();
    }
    let after = volume.space().unwrap();
    assert_eq!(after.total_blocks - before.total_blocks, DEVICE_BYTES / BLOCK - blocks);
    // More bytes than the volume had.
    let contents = vec![7; 310 << 20];
    volume.write("/large", &contents).unwrap();
    volume.set_label(&Label::new(b"grown").unwrap()).unwrap();
    let space = volume.space().unwrap();
    volume.close().unwrap();
    check_counts(&device, space);
    let volume = open(&device);
    assert_eq!(volume.space().unwrap(), space);
    assert!(volume.read("/large").unwrap() == contents);
    volume.remove_file("/large").unwrap();
    volume.close().unwrap();
}

#[test]
fn new_directories_are_spread_over_added_groups() {
    let device = make();
    let volume = open(&device);
    volume.create_dir("/before").unwrap();
    volume.grow(None).unwrap();
    let (geometry, mut groups) = (volume.geometry(), BTreeSet::new());
    for number in 0..64 {
        let path = format!("/{number}");
        volume.create_dir(&path).unwrap();
        let inode = volume.lookup(&path).unwrap().number();
        groups.insert(geometry.split_inode(inode).unwrap().0.0);
    }
    assert_eq!(groups, (0..13).collect::<BTreeSet<_>>());
    volume.close().unwrap();
}

#[test]
fn impossible_size_is_refused_by_its_reason() {
    let device = make();
    let volume = open(&device);
    let has = volume.geometry().data_blocks;
    let all = DEVICE_BYTES / BLOCK;
    assert!(matches!(volume.grow(Some(has - 1)), Err(GrowError::Shrinks { .. })));
    assert!(matches!(volume.grow(Some(all + 1)), Err(GrowError::DeviceTooShort { .. })));
    assert_eq!(volume.grow(Some(has)).unwrap(), has);
    // 5120 blocks fill the last group. 63 more are too few for a new one.
    let full = 4 * 20_480;
    assert_eq!(volume.grow(Some(full)).unwrap(), full);
    assert!(matches!(volume.grow(Some(full + 63)), Err(GrowError::TooLittle { added: 63 })));
    volume.freeze().unwrap();
    let refused = volume.grow(None);
    assert!(matches!(refused, Err(GrowError::Failed(Error::Posix(PosixError::Busy)))));
    volume.thaw().unwrap();
    assert_eq!(volume.grow(Some(full + 64)).unwrap(), full + 64);
    assert_eq!(volume.grow(None).unwrap(), all);
    assert_eq!(volume.grow(None).unwrap(), all);
    volume.close().unwrap();
    let reading = OpenOptions::new().open_device(device).unwrap();
    let refused = reading.grow(None);
    assert!(matches!(refused, Err(GrowError::Failed(Error::Posix(PosixError::ReadOnly)))));
}

#[test]
fn growth_during_concurrent_changes_is_consistent() {
    let device = make();
    let volume = open(&device);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |thread: usize| {
        volume.create_dir(format!("/{thread}")).unwrap();
        for number in 0.. {
            let path = format!("/{thread}/{number}");
            volume.write(&path, vec![thread as u8; 100_000]).unwrap();
            if number % 3 == 0 {
                volume.remove_file(&path).unwrap();
            }
            done.fetch_add(1, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
        for _ in 0..8 {
            let before = done.load(Ordering::Relaxed);
            while done.load(Ordering::Relaxed) < before + 20 {
                thread::yield_now();
            }
            let has = volume.geometry().data_blocks;
            volume.grow(Some(has + 11_000)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    for thread in 0..THREADS {
        for entry in volume.read_dir(format!("/{thread}")).unwrap() {
            let contents = volume.read(format!("/{thread}/{}", entry.unwrap().name().display()));
            assert!(contents.unwrap() == vec![thread as u8; 100_000]);
        }
    }
    let space = volume.space().unwrap();
    volume.close().unwrap();
    check_counts(&device, space);
    assert_eq!(open(&device).space().unwrap(), space);
}

/// Checks that after a power cut at any point of its growth, a volume has the old or the new size,
/// and all its files.
#[test]
fn power_cut_during_growth_leaves_the_old_or_new_size() {
    let device = make();
    let volume = open(&device);
    volume.write("/file", vec![7; 100_000]).unwrap();
    let old = volume.geometry().data_blocks;
    volume.close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice));
    let new = volume.grow(Some(old + 21_000)).unwrap();
    let grown_at = recording.position();
    volume.write("/new", vec![8; 100_000]).unwrap();
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    let mut seen = [0, 0];
    let step = if std::env::var_os("FERROXFS_LONG").is_some() { 1 } else { 5 };
    for cut in (0..=grown_at).flat_map(|point| cuts.at(point, 2)).step_by(step) {
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        let volume = open(&cut_off);
        let has = volume.geometry().data_blocks;
        assert!(has == old || has == new, "{has} blocks");
        seen[usize::from(has == new)] += 1;
        assert_eq!(volume.read("/file").unwrap(), vec![7; 100_000]);
        if has == old {
            assert_eq!(volume.grow(Some(new)).unwrap(), new, "the second growth");
        }
        volume.write("/after", vec![9; 100_000]).unwrap();
        let space = volume.space().unwrap();
        volume.close().unwrap();
        assert!(is_clean(&cut_off));
        check_counts(&cut_off, space);
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
