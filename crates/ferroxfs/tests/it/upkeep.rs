//! Tests of the background work of a writable volume.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferroxfs::admin::Upkeep;
use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenOptions, Volume};
use xfs_trans::testing::{crashed, make};

const SOON: Duration = Upkeep::SHORTEST;
/// The longest time that a test waits for background work before it fails.
const LIMIT: Duration = Duration::from_secs(60);

fn options() -> OpenOptions {
    OpenOptions::new().write(true).upkeep(Upkeep::new(SOON, SOON))
}

fn open(device: &SharedDevice, options: &OpenOptions) -> Volume {
    options.open_device(Arc::clone(device)).unwrap()
}

/// Returns whether a file would exist after a crash at this moment.
fn survives(device: &SharedDevice, path: &str) -> bool {
    let copy = OpenOptions::new().open_device(crashed(device));
    // The copy may be taken while a record is being written, as a crash may come then.
    copy.is_ok_and(|volume| volume.lookup(path).is_ok())
}

#[test]
fn unsynced_file_survives_a_crash_after_upkeep() {
    let device = make();
    let volume = open(&device, &options());
    volume.write("/file", b"contents").unwrap();
    let end = Instant::now() + LIMIT;
    while !survives(&device, "/file") {
        assert!(Instant::now() < end);
        thread::sleep(SOON);
    }
    volume.close().unwrap();
}

/// Checks I1 of `ferroxfs::volume_ref`: the last handle frees everything.
#[test]
fn dropped_volume_releases_its_device() {
    let device = make();
    for round in 0..10 {
        let volume = open(&device, &options());
        volume.write(format!("/{round}"), b"contents").unwrap();
        thread::sleep(SOON);
        drop(volume);
        assert_eq!(Arc::strong_count(&device), 1, "the thread has ended");
    }
}
