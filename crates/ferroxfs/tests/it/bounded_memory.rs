//! Tests of the memory that changes of metadata take until they are in place.

use std::sync::Arc;
use std::thread;

use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenOptions, Volume};
use xfs_trans::testing::make_sized;

/// Number of extents of the file that is truncated. Their btrees have some 4,000 blocks of 1 KiB.
const EXTENTS: u64 = 40_000;
const BLOCK: u64 = 1024;

/// The memory in bytes that metadata may take until it is in place, and that cached buffers take.
const BOUND: usize = 512 << 10;

/// The most items that a checkpoint of 256 KiB has: each logs more than 200 bytes.
const CHECKPOINT_ITEMS: u64 = (256 << 10) / 200;

/// The largest values of the counters of a volume while an operation ran.
#[derive(Debug, Default)]
struct Peak {
    unplaced_items: u64,
    buffer_bytes: u64,
}

/// Makes a volume with the file `/file`, whose blocks are extents of their own.
fn fragmented() -> SharedDevice {
    let device = make_sized(512 << 20, "-b size=1024");
    let options = OpenOptions::new().write(true).join_writes(false);
    let volume = options.open_device(Arc::clone(&device)).unwrap();
    volume.write("/file", b"").unwrap();
    let file = volume.open_file("/file").unwrap();
    for number in 0..EXTENTS {
        file.write_at(&[1; BLOCK as usize], 2 * BLOCK * number).unwrap();
    }
    drop(file);
    volume.close().unwrap();
    device
}

/// Truncates the file, and looks at the counters of the volume meanwhile.
fn truncate(volume: &Volume) -> Peak {
    let mut peak = Peak::default();
    thread::scope(|scope| {
        let work = scope.spawn(|| volume.open_file("/file").unwrap().set_len(0).unwrap());
        while !work.is_finished() {
            let now = volume.statistics().unwrap();
            peak.unplaced_items = peak.unplaced_items.max(now.write_back.unplaced_items);
            peak.buffer_bytes = peak.buffer_bytes.max(now.buffers.memory_bytes);
        }
    });
    peak
}

#[test]
fn truncation_of_many_extents_keeps_to_its_memory() {
    let device = fragmented();
    let options = OpenOptions::new().write(true).cache_bytes(BOUND).unwritten_bytes(BOUND);
    let volume = options.open_device(Arc::clone(&device)).unwrap();
    let peak = truncate(&volume);
    volume.close().unwrap();
    // Items that are written in place only when a checkpoint is complete.
    let most_items = BOUND as u64 / BLOCK + 2 * CHECKPOINT_ITEMS;
    assert!(peak.unplaced_items <= most_items, "{peak:?}, not {most_items} items");
    let most_bytes = BOUND as u64 + (most_items + CHECKPOINT_ITEMS) * 2 * BLOCK;
    assert!(peak.buffer_bytes <= most_bytes, "{peak:?}, not {most_bytes} bytes");
}
