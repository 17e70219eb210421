//! Tests of what `sync_data` makes durable, and of its cost.

use std::sync::Arc;
use std::thread;

use ferroxfs::admin::Upkeep;
use ferroxfs::contents::ForkKind;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::{Error, File, OpenOptions, SetAttributes, Volume};
use xfs_testkit::{
    Atomicity, FailingDevice, Fault, Persistence, PowerCuts, RecordingDevice, Request, RequestKind,
    ScheduledDevice,
};
use xfs_trans::testing::{make_with, superblock};

const LENGTH: usize = 20_000;

/// Opens a volume whose changes become durable only on request.
fn open(device: &SharedDevice) -> Volume {
    let seldom = Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST);
    let options = OpenOptions::new().write(true).upkeep(seldom);
    options.open_device(Arc::clone(device)).unwrap()
}

/// Returns the device of a closed volume with a file that is full of bytes with value 1.
fn volume_with_files() -> SharedDevice {
    let device = make_with("-m reflink=1");
    let volume = open(&device);
    volume.write("/file", [1; LENGTH]).unwrap();
    volume.close().unwrap();
    device
}

/// Returns the byte ranges on the device where the contents of a file lie.
fn places(file: &File) -> Vec<std::ops::Range<u64>> {
    let extents = file.node().extents(ForkKind::Data);
    let place = |extent: ferroxfs::Result<ferroxfs::contents::FileExtent>| {
        let extent = extent.unwrap();
        extent.device_offset_bytes..extent.device_offset_bytes + extent.length_bytes
    };
    extents.map(place).collect()
}

/// Opens the file, changes it, and calls `sync_data`. Then cuts the power in several ways, and
/// checks that the file has the `expected` bytes after each cut.
fn check(change: impl FnOnce(&Volume, &File), expected: &[u8]) {
    let device = volume_with_files();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice));
    let file = volume.open_file("/file").unwrap();
    change(&volume, &file);
    file.sync_data().unwrap();
    let synced = recording.position();
    drop(file);
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    for cut in cuts.at(synced, 8) {
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        let found = open(&cut_off).read("/file").unwrap();
        assert!(found == expected, "cut {cut}: {} bytes", found.len());
    }
}

fn ones(patch: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![1; LENGTH];
    patch(&mut bytes);
    bytes
}

#[test]
fn sync_of_an_overwritten_file_costs_one_flush() {
    let device = volume_with_files();
    let recorder = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recorder) as SharedDevice));
    let file = volume.open_file("/file").unwrap();
    let (places, before) = (places(&file), recorder.position());
    for round in 0..3 {
        file.write_at(&[2; 5000], round * 4000).unwrap();
        file.sync_data().unwrap();
    }
    let is_contents = |offset| places.iter().any(|place| place.contains(&offset));
    let shown = |request: &Request| match request {
        Request::Write { offset, .. } if is_contents(*offset) => "contents",
        Request::Write { .. } => "elsewhere",
        Request::Flush => "flush",
        _ => "other",
    };
    let requests = |from: usize| -> Vec<&str> {
        recorder.recording().requests()[from..].iter().map(shown).collect()
    };
    assert_eq!(requests(before), ["contents", "flush"].repeat(3));
    // The times are still written by a full sync.
    let before = recorder.position();
    file.sync_all().unwrap();
    assert!(requests(before).contains(&"elsewhere"));
    drop(file);
    volume.close().unwrap();
}

#[test]
fn overwritten_bytes_survive_after_sync_data() {
    let overwrite = |_: &Volume, file: &File| {
        file.write_at(&[2; 9000], 100).unwrap();
    };
    check(overwrite, &ones(|bytes| bytes[100..9100].fill(2)));
}

#[test]
fn changes_needed_by_contents_survive_after_sync_data() {
    let append = |_: &Volume, file: &File| {
        file.write_at(&[2; 300], LENGTH as u64).unwrap();
    };
    check(append, &ones(|bytes| bytes.extend([2; 300])));
    check(|_, file| file.set_len(5000).unwrap(), &ones(|bytes| bytes.truncate(5000)));
    check(
        |_, file| file.change_range(4096..12_288, RangeMode::Punch).unwrap(),
        &ones(|bytes| bytes[4096..12_288].fill(0)),
    );
    let fill_unwritten = |_: &Volume, file: &File| {
        file.change_range(0..100_000, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
        file.sync_all().unwrap();
        file.write_at(&[2; 5000], 50_000).unwrap();
    };
    check(
        fill_unwritten,
        &ones(|bytes| {
            bytes.resize(100_000, 0);
            bytes[50_000..55_000].fill(2);
        }),
    );
    let write_shared = |volume: &Volume, file: &File| {
        let clone = volume.create_file("/clone").unwrap();
        clone.clone_range(0, file, 0, LENGTH as u64).unwrap();
        clone.sync_all().unwrap();
        file.write_at(&[2; 4096], 4096).unwrap();
    };
    check(write_shared, &ones(|bytes| bytes[4096..8192].fill(2)));
}

/// The inode of a file is changed, and then the file is overwritten, which changes only its times.
/// `sync_data` must make the earlier change durable, although it need not make changes of times
/// durable.
#[test]
fn change_before_new_times_survives_after_sync_data() {
    let change = |_: &Volume, file: &File| {
        file.set_len(15_000).unwrap();
        file.write_at(&[2; 100], 0).unwrap();
        file.node().set_attributes(&SetAttributes::new().mode(0o600)).unwrap();
        file.write_at(&[2; 100], 5000).unwrap();
    };
    let expected = ones(|bytes| {
        bytes.truncate(15_000);
        bytes[..100].fill(2);
        bytes[5000..5100].fill(2);
    });
    check(change, &expected);
}

/// A checkpoint that is being written has already flushed the device. File bytes that are written
/// after this flush are not covered by it, although the checkpoint holds the last metadata change
/// that these bytes need. So `sync_data` must flush again.
#[test]
fn flush_before_the_write_is_not_relied_on() {
    let recorder = Arc::new(RecordingDevice::new(volume_with_files()));
    let held = [RequestKind::Flush];
    let (device, mut scheduler) =
        ScheduledDevice::new(Arc::clone(&recorder) as SharedDevice, &held, 0);
    let volume = open(&(Arc::new(device) as SharedDevice));
    let file = volume.open_file("/file").unwrap();
    file.set_len(15_000).unwrap();
    let written = thread::scope(|scope| {
        let first = scope.spawn(|| file.sync_data());
        scheduler.wait_for(1);
        file.write_at(&[2; 5000], 0).unwrap();
        let written = recorder.position();
        let second = scope.spawn(|| file.sync_data());
        while !(first.is_finished() && second.is_finished()) {
            if scheduler.release_any().is_none() {
                thread::yield_now();
            }
        }
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
        written
    });
    let flushes = recorder.recording().requests()[written..].to_vec();
    let flushes = flushes.iter().filter(|request| matches!(request, Request::Flush)).count();
    assert!(
        flushes > 1,
        "the flush of the first checkpoint may have begun before the bytes were written"
    );
    drop(scheduler);
    drop(file);
    volume.close().unwrap();
}

#[test]
fn failed_flush_shuts_the_volume_down() {
    let device = Arc::new(FailingDevice::new(volume_with_files(), 7));
    let volume = open(&(Arc::clone(&device) as SharedDevice));
    let file = volume.open_file("/file").unwrap();
    file.write_at(&[2; 5000], 0).unwrap();
    let fault = Fault { kind: RequestKind::Flush, nth: 1, persistence: Persistence::Once };
    device.set_fault(Some(fault));
    file.sync_data().unwrap_err();
    assert_eq!(device.failures(), 1);
    for again in [file.sync_data(), file.sync_all(), volume.sync()] {
        assert!(
            matches!(again, Err(Error::Shutdown)),
            "{again:?}: lost bytes are reported as durable"
        );
    }
}
