//! What is done for a volume that is open for writing while nobody asks.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferroxfs::{OpenOptions, SharedDevice, Upkeep, Volume};
use xfs_trans::testing::{crashed, make};

const SOON: Duration = Upkeep::SHORTEST;
/// Nothing takes that long.
const LIMIT: Duration = Duration::from_secs(60);

fn options() -> OpenOptions {
    OpenOptions::new().writable(true).upkeep(Upkeep::new(SOON, SOON))
}

fn open(device: &SharedDevice, options: &OpenOptions) -> Volume {
    options.with_devices(Arc::clone(device), None).writable_volume().unwrap()
}

/// What a crash would leave of a volume shows this file.
fn survives(device: &SharedDevice, path: &str) -> bool {
    let copy = OpenOptions::new().with_devices(crashed(device), None).volume();
    // A crash may come while a record is being written; this copy is taken while one is.
    copy.is_ok_and(|volume| volume.lookup(path).is_ok())
}

#[test]
fn what_nobody_syncs_survives_a_crash_all_the_same() {
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

#[test]
fn a_volume_that_is_dropped_lets_go_of_its_device() {
    let device = make();
    for round in 0..10 {
        let volume = open(&device, &options());
        volume.write(format!("/{round}"), b"contents").unwrap();
        thread::sleep(SOON);
        drop(volume);
        assert_eq!(Arc::strong_count(&device), 1, "the thread has ended");
    }
}
