//! Tests of the discards that a volume sends for free blocks.

use std::sync::Arc;

use ferroxfs::contents::ForkKind;
use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenOptions, Volume};
use xfs_testkit::{RecordingDevice, Request};
use xfs_trans::testing::make_sized;

const VOLUME_BYTES: u64 = 128 << 20;
const PIECE: usize = 300_000;

fn open(device: &Arc<RecordingDevice>, discards: bool) -> Volume {
    let shared: SharedDevice = Arc::clone(device) as _;
    let options = OpenOptions::new().write(true).discard(discards);
    options.open_device(shared).unwrap()
}

fn device() -> Arc<RecordingDevice> {
    Arc::new(RecordingDevice::new(make_sized(VOLUME_BYTES, "-d agcount=4")))
}

/// Makes `count` files. Returns the extents of every second file: offset and length in bytes on the
/// device.
fn fill(volume: &Volume, count: usize) -> Vec<(u64, u64)> {
    let mut odd = Vec::new();
    for number in 0..count {
        let name = format!("file {number}");
        volume.write(&name, vec![number as u8 | 1; PIECE]).unwrap();
        let node = volume.lookup(&name).unwrap();
        if number % 2 == 1 {
            let extents = node.extents(ForkKind::Data).map(Result::unwrap);
            odd.extend(extents.map(|e| (e.device_offset_bytes, e.length_bytes)));
        }
    }
    odd
}

fn remove_odd(volume: &Volume, count: usize) {
    for number in (1..count).step_by(2) {
        volume.remove_file(format!("file {number}")).unwrap();
    }
}

fn check_even(volume: &Volume, count: usize) {
    for number in (0..count).step_by(2) {
        let bytes = volume.read(format!("file {number}")).unwrap();
        assert!(bytes == vec![number as u8 | 1; PIECE], "contents of {number}");
    }
}

fn discards(device: &RecordingDevice) -> Vec<(u64, u64)> {
    let discard = |request: &Request| match request {
        Request::Discard { offset, length } => Some((*offset, *length)),
        _ => None,
    };
    device.recording().requests().iter().filter_map(discard).collect()
}

fn covers(discards: &[(u64, u64)], (start, length): (u64, u64)) -> bool {
    let mut at = start;
    while at < start + length {
        let Some(next) =
            discards.iter().find(|(from, length)| (*from..from + length).contains(&at))
        else {
            return false;
        };
        at = next.0 + next.1;
    }
    true
}

#[test]
fn trim_discards_exactly_the_free_blocks() {
    let device = device();
    let volume = open(&device, false);
    let gone = fill(&volume, 40);
    remove_odd(&volume, 40);
    assert!(discards(&device).is_empty());
    let trimmed = volume.trim(0..u64::MAX, 0).unwrap();
    let free = volume.space().unwrap();
    let free_bytes = free.free_blocks * u64::from(free.block_size);
    assert!(trimmed <= free_bytes && trimmed > free_bytes * 9 / 10, "{trimmed} of {free_bytes}");
    let all = discards(&device);
    assert!(gone.iter().all(|extent| covers(&all, *extent)), "{gone:?} in {all:?}");
    check_even(&volume, 40);
    assert!(volume.trim(0..u64::MAX, 16 << 20).unwrap() < trimmed, "short extents were discarded");
    assert_eq!(volume.trim(0..4096, 0).unwrap(), 0, "the superblock was discarded");
    volume.close().unwrap();
    let again = OpenOptions::new().open_device(device).unwrap();
    check_even(&again, 40);
}

#[test]
fn freed_blocks_are_discarded_once_durable() {
    let device = device();
    let volume = open(&device, true);
    let gone = fill(&volume, 40);
    volume.sync().unwrap();
    let before = discards(&device).len();
    remove_odd(&volume, 40);
    volume.close().unwrap();
    let all = discards(&device).split_off(before);
    assert!(gone.iter().all(|extent| covers(&all, *extent)), "{gone:?} in {all:?}");
    let again = OpenOptions::new().open_device(device).unwrap();
    check_even(&again, 40);
}
