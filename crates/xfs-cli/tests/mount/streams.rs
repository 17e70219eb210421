//! Tests of large reads, for which the server passes data from the image to the kernel without a
//! copy.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use xfs_oracle::harness::TrialError;

use crate::mounted::mounted;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Opens a file for reading with O_DIRECT: each read asks the server instead of the page cache.
fn open_direct(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

/// Writes a file of a little more than 4 MiB, with preallocated blocks and a hole between its
/// written ranges. Returns its contents.
fn write_pieces(path: &std::path::Path) -> Vec<u8> {
    let mut expected: Vec<u8> = (0..4 * MIB + 1234).map(|at| (at / 509) as u8).collect();
    let file = File::create(path).unwrap();
    for piece in [0..MIB + 7 * KIB, 2 * MIB + 3 * KIB..expected.len()] {
        file.write_all_at(&expected[piece.clone()], piece.start as u64).unwrap();
    }
    expected[MIB + 7 * KIB..2 * MIB + 3 * KIB].fill(0);
    fallocate(&file, FallocateFlags::empty(), 1200 << 10, 100 << 10).unwrap();
    expected
}

pub(crate) fn large_reads_show_what_was_written() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let path = volume.at("pieces");
    let expected = write_pieces(&path);
    for options in ["rw", "ro"] {
        volume.unmount();
        volume.mount(options);
        assert!(fs::read(&path).unwrap() == expected, "{options}");
        let file = open_direct(&path);
        for length in [64 * KIB - 1, 64 * KIB, 128 * KIB, 1000 * KIB, MIB, 2 * MIB] {
            let mut bytes = vec![0xff; length];
            for offset in (0..expected.len()).step_by(MIB / 2 - 777) {
                let end = expected.len().min(offset + length);
                let read = file.read_at(&mut bytes, offset as u64).unwrap();
                assert_eq!(read, end - offset, "{options}: {length} at {offset}");
                assert!(bytes[..read] == expected[offset..end], "{options}: {length} at {offset}");
            }
        }
    }
    volume.check()
}

/// Returns the number of pipes that a process has open.
fn pipes_of(pid: &str) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let ends = targets.filter(|target| target.to_string_lossy().starts_with("pipe:"));
    // An inherited pipe has the same name at both ends.
    ends.collect::<HashSet<_>>().len()
}

/// Checks that the server opens only a few pipes. All processes of the user who has mounted the
/// volume share one limit on pipes.
pub(crate) fn pipes_are_few() -> Result<(), TrialError> {
    const READERS: usize = 12;
    let mut volume = mounted("rw")?;
    let path = volume.at("contents");
    fs::write(&path, vec![7; 4 * MIB]).unwrap();
    for options in ["rw,threads=16", "ro"] {
        volume.unmount();
        volume.mount(options);
        let server = volume.server();
        let before = pipes_of(&server);
        let small = open_direct(&path).read_at(&mut [0; 4 * KIB], 0).unwrap();
        assert_eq!((small, pipes_of(&server)), (4 * KIB, before), "{options}");
        thread::scope(|scope| {
            let read = || {
                let (file, mut bytes) = (open_direct(&path), vec![0; 512 * KIB]);
                for at in (0..4 * MIB).step_by(512 * KIB).cycle().take(80) {
                    assert_eq!(file.read_at(&mut bytes, at as u64).unwrap(), bytes.len());
                    assert!(bytes.iter().all(|byte| *byte == 7), "{options}: at {at}");
                }
            };
            let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        let opened = pipes_of(&server) - before;
        assert!((1..=4).contains(&opened), "{options}: {opened}");
    }
    volume.check()
}

/// Checks that a reader of one file never gets data of another file, while blocks are freed in one
/// of the files and reused in the other.
pub(crate) fn reader_sees_no_other_file() -> Result<(), TrialError> {
    const LENGTH: usize = 512 * KIB;
    let volume = mounted("rw")?;
    let (mine, other) = (volume.at("mine"), volume.at("other"));
    fs::write(&mine, vec![b'm'; LENGTH]).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            let file = open_direct(&mine);
            let (mut bytes, mut reads) = (vec![0; LENGTH], 0);
            while !is_over.load(Ordering::Relaxed) {
                let read = file.read_at(&mut bytes, 0).unwrap();
                let foreign = bytes[..read].iter().find(|byte| !matches!(byte, b'm' | 0));
                assert_eq!(foreign, None, "after {reads} reads");
                reads += 1;
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let file = OpenOptions::new().write(true).open(&mine).unwrap();
        for _ in 0..200 {
            file.set_len(0).unwrap();
            fs::write(&other, vec![b'o'; LENGTH]).unwrap();
            fs::remove_file(&other).unwrap();
            file.write_all_at(&vec![b'm'; LENGTH], 0).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    volume.check()
}
