//! Changes files from several threads on one volume, each thread its own files. Checks that no
//! operation fails and that the volume is consistent afterwards.

use std::sync::Arc;
use std::thread;

use xfs_testkit::Prng;

use super::volume::{Volume, now};
use crate::live::{LiveInode, SharedRange};

const THREADS: u64 = 4;
const STEPS: usize = 60;

fn work(volume: &Volume, files: [&Arc<LiveInode>; 2], seed: u64) {
    let (journal, mut random) = (&volume.journal, Prng::new(seed));
    for _ in 0..STEPS {
        let start = random.within(0..200) as u64 * 4096;
        let end = start + random.within(1..20) as u64 * 4096;
        let [left, right] = files;
        match random.within(0..5) {
            0 | 1 => {
                let bytes = vec![seed as u8; (end - start) as usize];
                left.write_at(journal, start, &bytes, now()).unwrap();
            }
            2 => left.punch(journal, start..end, now()).unwrap(),
            3 => right.truncate(journal, start, now()).unwrap(),
            _ => {
                let length_bytes = left.inode().core().size / 4096 * 4096;
                let shared = SharedRange { from: 0, to: 0, length_bytes };
                LiveInode::reflink(journal, left, right, shared, now()).unwrap();
            }
        }
    }
}

#[test]
fn files_changed_by_four_threads_leave_a_consistent_volume() {
    for options in ["-b size=1024 -l size=16m", "-d agcount=2 -l size=16m"] {
        let volume = Volume::new(options);
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let volume = &volume;
                scope.spawn(move || {
                    let files = [volume.file(), volume.file()];
                    work(volume, [&files[0], &files[1]], seed);
                    files[0].inactivate(&volume.journal).unwrap();
                });
            }
        });
        volume.unmount();
    }
}
