//! Tests of a frozen volume: nothing is written to its device, a copy of the device is consistent,
//! and reads continue.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ferroxfs::admin::Shutdown;
use ferroxfs::admin::Upkeep;
use ferroxfs::device::SharedDevice;
use ferroxfs::lock::{LeaseKind, LeaseMode};
use ferroxfs::{Error, OpenOptions, PosixError, Timestamp, Volume};
use xfs_testkit::RecordingDevice;
use xfs_trans::testing::{crashed, is_clean, make};

/// The time that a test waits before it checks that other threads have done nothing. These threads
/// must wait for the thaw.
const A_WHILE: Duration = Duration::from_millis(30);
const BUFFERED_BYTES: usize = 10_000;
const AHEAD_BYTES: usize = 8 << 20;
const THREADS: usize = 4;

/// Opens a volume whose background work runs as often as possible.
fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true);
    let options = options.upkeep(Upkeep::new(Upkeep::SHORTEST, Upkeep::SHORTEST));
    options.open_device(Arc::clone(device)).unwrap()
}

/// Opens a copy of the device, as a crash would leave it, for reading.
fn copy(device: &SharedDevice) -> Volume {
    OpenOptions::new().open_device(crashed(device)).unwrap()
}

#[test]
fn copy_of_a_frozen_volume_has_all_changes() {
    let device = make();
    let volume = open(&device);
    volume.create_dir("/directory").unwrap();
    let mut file = volume.create_file("/directory/file").unwrap();
    file.write_all(&[7; BUFFERED_BYTES]).unwrap();
    volume.create_file("/unlinked").unwrap().write_all(b"gone").unwrap();
    volume.remove_file("/unlinked").unwrap();
    volume.freeze().unwrap();
    let copied = copy(&device);
    assert_eq!(copied.read("/directory/file").unwrap(), [7; BUFFERED_BYTES]);
    assert!(copied.lookup("/unlinked").is_err());
    assert_eq!(copied.space().unwrap(), volume.space().unwrap());
    volume.thaw().unwrap();
    file.write_all(b"more").unwrap();
    drop(file);
    volume.close().unwrap();
    assert!(is_clean(&device));
    assert_eq!(copy(&device).metadata("/directory/file").unwrap().size, BUFFERED_BYTES as u64 + 4);
}

#[test]
fn second_freeze_and_second_thaw_are_refused() {
    let volume = open(&make());
    let refused = |result: ferroxfs::Result<()>, case| {
        assert!(matches!(result, Err(Error::Posix(met)) if met == case), "{case:?}");
    };
    refused(volume.thaw(), PosixError::InvalidArgument);
    for _ in 0..2 {
        volume.freeze().unwrap();
        refused(volume.freeze(), PosixError::Busy);
        volume.thaw().unwrap();
        refused(volume.thaw(), PosixError::InvalidArgument);
    }
    volume.close().unwrap();
}

/// Checks that on a frozen volume, reads, syncs, closes and lookups do not wait and do not write to
/// the device. The work that closed handles leave behind is done after the thaw.
#[test]
fn reads_on_a_frozen_volume_write_nothing() {
    let recording = Arc::new(RecordingDevice::new(make()));
    let device: SharedDevice = recording.clone();
    let volume = open(&device);
    let mut ahead = volume.create_file("/ahead").unwrap();
    for _ in 0..AHEAD_BYTES / BUFFERED_BYTES {
        ahead.write_all(&[1; BUFFERED_BYTES]).unwrap();
    }
    volume.write("/doomed", b"bytes").unwrap();
    let doomed = volume.lookup("/doomed").unwrap();
    volume.remove_file("/doomed").unwrap();
    volume.freeze().unwrap();
    let before = recording.position();
    let mut bytes = [0; BUFFERED_BYTES];
    assert_eq!(ahead.read_at(&mut bytes, 5).unwrap(), BUFFERED_BYTES);
    assert_eq!(volume.read_dir("/").unwrap().count(), 1);
    volume.root().unwrap().note_access(Timestamp::default()).unwrap();
    ahead.sync_all().unwrap();
    volume.root().unwrap().sync().unwrap();
    volume.sync().unwrap();
    volume.drop_caches().unwrap();
    let blocks = ahead.metadata().blocks;
    drop((ahead, doomed));
    volume.drop_caches().unwrap();
    thread::sleep(A_WHILE);
    assert_eq!(volume.metadata("/ahead").unwrap().blocks, blocks);
    assert_eq!(recording.position(), before);
    volume.thaw().unwrap();
    assert!(volume.metadata("/ahead").unwrap().blocks < blocks, "preallocation was not freed");
    volume.close().unwrap();
    assert!(is_clean(&device));
    let free = copy(&device).space().unwrap().free_inodes;
    assert_eq!(free, 60, "of 64, less the root and two realtime inodes");
}

/// Threads create, write, rename and remove files while the volume is frozen and thawed again and
/// again. Checks that each copy taken while the volume is frozen is consistent: a file has all of
/// its bytes or, if it was just created, none.
#[test]
fn writers_wait_and_every_copy_is_consistent() {
    let device = make();
    let volume = open(&device);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |thread: usize| {
        let file = |number: usize| format!("/{thread}.{number}");
        for number in 0.. {
            volume.write(file(number), vec![thread as u8; BUFFERED_BYTES]).unwrap();
            volume.rename(file(number), format!("/moved.{thread}.{number}")).unwrap();
            if number > 2 {
                volume.remove_file(format!("/moved.{thread}.{}", number - 2)).unwrap();
            }
            done.fetch_add(1, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || work(thread));
        }
        for _ in 0..8 {
            let before = done.load(Ordering::Relaxed);
            while done.load(Ordering::Relaxed) < before + THREADS {
                thread::yield_now();
            }
            volume.freeze().unwrap();
            let copied = copy(&device);
            for entry in copied.read_dir("/").unwrap() {
                let entry = entry.unwrap();
                let size = entry.node().unwrap().metadata().size;
                assert!([0, BUFFERED_BYTES as u64].contains(&size), "{size} bytes");
            }
            assert_eq!(copied.space().unwrap(), volume.space().unwrap());
            volume.thaw().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    volume.close().unwrap();
    assert!(is_clean(&device));
}

/// The holder of a delegation may have to write before it returns the delegation. On a frozen
/// volume such a write waits for the thaw. Checks that the freeze therefore does not wait for the
/// holder.
#[test]
fn freeze_does_not_wait_for_a_delegation() {
    let volume = open(&make());
    volume.write("/file", b"bytes").unwrap();
    let file = volume.lookup("/file").unwrap().open_read_only().unwrap();
    let (tell, told) = mpsc::channel();
    let notify = Arc::new(move |left| tell.send(left).unwrap_or_default());
    file.set_lease(LeaseKind::Delegation, LeaseMode::Read, notify).unwrap();
    thread::scope(|scope| {
        let removing = scope.spawn(|| volume.remove_file("/file"));
        told.recv().unwrap();
        volume.freeze().unwrap();
        file.release_lease(LeaseKind::Delegation).unwrap();
        thread::sleep(A_WHILE);
        assert!(!removing.is_finished(), "removed before the thaw");
        volume.thaw().unwrap();
        removing.join().unwrap().unwrap();
    });
    drop(file);
    volume.close().unwrap();
}

#[test]
fn close_thaws_and_drop_leaves_the_volume_as_it_is() {
    let device = make();
    let volume = open(&device);
    volume.create_dir("/directory").unwrap();
    volume.freeze().unwrap();
    volume.close().unwrap();
    assert!(is_clean(&device));

    let volume = open(&device);
    volume.write("/doomed", b"bytes").unwrap();
    let doomed = volume.lookup("/doomed").unwrap();
    volume.remove_file("/doomed").unwrap();
    volume.freeze().unwrap();
    // A thread waits for the thaw to free the file.
    drop(doomed);
    thread::sleep(A_WHILE);
    drop(volume);
    assert!(!is_clean(&device));
    assert!(copy(&device).lookup("/directory").is_ok());
}

#[test]
fn shutdown_of_a_frozen_volume_fails_waiters_after_the_thaw() {
    let volume = open(&make());
    volume.freeze().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| volume.create_dir("/directory"));
        thread::sleep(A_WHILE);
        assert!(!waiting.is_finished());
        volume.shut_down(Shutdown::Now).unwrap();
        volume.thaw().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Shutdown)));
    });
    assert!(matches!(volume.freeze(), Err(Error::Shutdown)));
}

#[test]
fn freeze_of_a_read_only_volume_is_refused() {
    let volume = OpenOptions::new().open_device(make()).unwrap();
    for refused in [volume.freeze(), volume.thaw()] {
        assert!(matches!(refused, Err(Error::Posix(PosixError::ReadOnly))));
    }
}
