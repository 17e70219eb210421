use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xfs_trans::testing::{crashed, make_sized};
use xfs_vfs::{Mount, Remaining};

use crate::device::SharedDevice;
use crate::{File, OpenOptions, Timestamp, Volume};

/// The time limit of each wait. A wait that takes longer fails the test.
const LIMIT: Duration = Duration::from_secs(60);
const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Opens a volume without background threads. The test runs each pass of the flusher itself.
fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true).fixed_time(Timestamp::default());
    options.open_device(Arc::clone(device)).unwrap()
}

fn make() -> (SharedDevice, Volume) {
    let device = make_sized(512 << 20, "");
    let volume = open(&device);
    (device, volume)
}

/// Returns the bytes that a file would have after a crash at this moment and a recovery. Empty if
/// the file would not exist.
fn survives(device: &SharedDevice, path: &str) -> Vec<u8> {
    let copy = OpenOptions::new().open_device(crashed(device)).unwrap();
    copy.read(path).unwrap_or_default()
}

fn mount(volume: &Volume) -> &Mount {
    volume.volume_ref().mount().unwrap()
}

/// Creates a file and makes its name durable.
fn create(volume: &Volume, path: &str) -> File {
    let file = volume.create_file(path).unwrap();
    volume.sync().unwrap();
    file
}

/// Writes to the file until blocks past its end have been preallocated.
fn stream(file: &File) {
    for at in (0..4 * MIB).step_by(100_000) {
        file.write_at(&[3; 100_000], at).unwrap();
    }
}

fn has_ahead(file: &File) -> bool {
    let metadata = file.metadata();
    metadata.blocks * 512 > metadata.size.next_multiple_of(BLOCK)
}

#[test]
fn write_to_an_open_file_is_durable_after_two_passes() {
    let (device, volume) = make();
    // However many passes were made before.
    for looks in 0..4 {
        let name = format!("file {looks}");
        let file = create(&volume, &name);
        let mut left = Remaining::Nothing;
        (0..looks).for_each(|_| left = mount(&volume).flush_pass(left));
        let contents = [7; 5000];
        file.write_at(&contents, 0).unwrap();
        left = mount(&volume).flush_pass(left);
        assert_eq!(left, Remaining::Bytes);
        assert_eq!(survives(&device, &name), [], "durable before the file has rested for a pass");
        left = mount(&volume).flush_pass(left);
        assert_eq!(survives(&device, &name), contents);
        assert_eq!(left, Remaining::Nothing);
    }
    volume.close().unwrap();
}

#[test]
fn bytes_flushed_by_a_reader_are_durable_after_one_pass() {
    for looks in 0..2 {
        let (device, volume) = make();
        let file = create(&volume, "file");
        file.write_at(&[7; 5000], 0).unwrap();
        let mut left = Remaining::Nothing;
        (0..looks).for_each(|_| left = mount(&volume).flush_pass(left));
        file.read_at(&mut [0; 10], 0).unwrap();
        assert_eq!(survives(&device, "file"), [], "the read has forced the log");
        assert_eq!(mount(&volume).flush_pass(left), Remaining::Nothing);
        assert_eq!(survives(&device, "file"), [7; 5000], "{looks}");
        drop(file);
        volume.close().unwrap();
    }
}

#[test]
fn busy_file_is_skipped_once_and_then_waited_for() {
    let (device, volume) = make();
    let [file, other] = ["file", "other"].map(|name| create(&volume, name));
    [&file, &other].iter().for_each(|file| assert_eq!(file.write_at(&[7; 5000], 0).unwrap(), 5000));
    let entry = file.node().writable().unwrap().1;
    let in_the_way = mount(&volume).contents(entry).unchanging();
    let mut left = Remaining::Nothing;
    (0..2).for_each(|_| left = mount(&volume).flush_pass(left));
    assert_eq!((survives(&device, "file").len(), left), (0, Remaining::Bytes));
    assert_eq!(survives(&device, "other"), [7; 5000]);
    other.write_at(&[8; 5000], 0).unwrap();
    other.read_at(&mut [0; 10], 0).unwrap();
    thread::scope(|scope| {
        let pass = scope.spawn(|| mount(&volume).flush_pass(left));
        // The other file is durable before the pass waits.
        let end = Instant::now() + LIMIT;
        while survives(&device, "other") != [8; 5000] {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        assert!(!pass.is_finished());
        drop(in_the_way);
        assert_eq!(pass.join().unwrap(), Remaining::Nothing);
    });
    assert_eq!(survives(&device, "file"), [7; 5000]);
    drop((file, other));
    volume.close().unwrap();
}

#[test]
fn idle_open_file_loses_its_preallocation() {
    let (_, volume) = make();
    let [idle, busy] = ["idle", "busy"].map(|name| create(&volume, name));
    let free = volume.space().unwrap().available_blocks;
    [&idle, &busy].into_iter().for_each(stream);
    assert!(has_ahead(&idle) && has_ahead(&busy));
    let until = mount(&volume).flusher.preallocation_passes();
    assert_eq!(until, 300, "five minutes");
    let mut left = Remaining::Nothing;
    for pass in 1..=until {
        if pass == until / 2 {
            busy.write_at(b"again", 0).unwrap();
        }
        left = mount(&volume).flush_pass(left);
        let is_over = pass == until;
        assert_eq!(has_ahead(&idle), !is_over, "{pass}");
    }
    assert_eq!((has_ahead(&busy), left), (true, Remaining::Ahead));
    (0..until).for_each(|_| left = mount(&volume).flush_pass(left));
    assert_eq!((has_ahead(&busy), left), (false, Remaining::Nothing));
    let taken = 2 * (4 * MIB).next_multiple_of(100_000).div_ceil(BLOCK);
    assert_eq!(volume.space().unwrap().available_blocks, free - taken);
    // Further writes preallocate again.
    let size = idle.metadata().size;
    (0..3).for_each(|piece| drop(idle.write_at(&vec![4; MIB as usize], size + piece * MIB)));
    assert!(has_ahead(&idle));
    drop((idle, busy));
    volume.close().unwrap();
}

#[test]
fn frozen_volume_keeps_preallocation() {
    let (_, volume) = make();
    let file = create(&volume, "file");
    stream(&file);
    volume.freeze().unwrap();
    let mut left = Remaining::Nothing;
    let until = mount(&volume).flusher.preallocation_passes();
    (0..=until).for_each(|_| left = mount(&volume).flush_pass(left));
    assert_eq!((has_ahead(&file), left), (true, Remaining::Ahead));
    volume.thaw().unwrap();
    assert_eq!(mount(&volume).flush_pass(left), Remaining::Nothing);
    assert!(!has_ahead(&file));
    drop(file);
    volume.close().unwrap();
}
