//! A load on a mount of the kernel: threads create, change, move and remove files until they are
//! stopped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::XattrFlags;
use xfs_oracle::Random;

use crate::freeze::Freeze;

/// The number of different names in each directory of a thread. It is small, so that names of
/// removed files are used again.
const NAMES: u64 = 200;

/// The least number of operations that the load must complete between two commands of a test.
const MORE: u64 = 100;

/// The threads of a running load.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    done: AtomicU64,
}

impl Load {
    /// Starts this number of threads, each in its own directory below `root`.
    pub(crate) fn start(root: &Path, threads: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |seed: u64| {
            let (shared, directory) = (Arc::clone(&shared), root.join(format!("thread-{seed}")));
            thread::spawn(move || work(&shared, &directory, seed))
        };
        let threads = (0..threads).map(start).collect();
        Self { shared, threads }
    }

    /// Makes the kernel write its changes in place, again and again. Otherwise the kernel might
    /// keep the changes in the log until the end, and a reader of the device would not see them in
    /// place.
    pub(crate) fn keep_settling(&mut self, mount: &Path) {
        let (shared, mount) = (Arc::clone(&self.shared), mount.to_owned());
        self.threads.push(thread::spawn(move || {
            while !shared.stop.load(Ordering::Relaxed) {
                drop(Freeze::new(&mount));
                shared.wait_for_more();
            }
        }));
    }

    /// Waits until the load has done `MORE` operations after this call.
    pub(crate) fn wait_for_more(&self) {
        self.shared.wait_for_more();
    }

    /// Stops the load after `operations` operations in all.
    pub(crate) fn stop_after(self, operations: u64) {
        self.shared.wait_until(operations);
    }
}

impl Shared {
    fn wait_for_more(&self) {
        self.wait_until(self.done.load(Ordering::Relaxed) + MORE);
    }

    fn wait_until(&self, operations: u64) {
        let start = Instant::now();
        while self.done.load(Ordering::Relaxed) < operations && !self.stop.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(300), "the kernel does nothing");
            thread::yield_now();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("a thread of the load has panicked");
            }
        }
    }
}

fn work(shared: &Shared, directory: &Path, seed: u64) {
    fs::create_dir_all(directory).expect("a directory");
    let mut random = Random::new(seed);
    while !shared.stop.load(Ordering::Relaxed) {
        // Many operations fail by chance: the name exists already, or not yet.
        drop(step(directory, &mut random));
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn step(directory: &Path, random: &mut Random) -> io::Result<()> {
    let name = |random: &mut Random| -> PathBuf {
        directory.join(format!("a-name-of-some-length-{}", random.below(NAMES)))
    };
    let (path, other) = (name(random), name(random));
    match random.below(12) {
        0..=2 => File::create(&path)?.write_all_at(&random.bytes(3000), random.below(1 << 20)),
        3 => fs::create_dir(&path),
        4 => fs::rename(&path, &other),
        5 => fs::hard_link(&path, &other),
        6 => symlink("x".repeat(1 + random.below(1000) as usize), &path),
        7 => fs::remove_file(&path),
        8 => fs::remove_dir_all(&path),
        9 => {
            let length = random.below(4000) as usize;
            let value = random.bytes(length);
            let name = format!("user.{}", random.below(20));
            Ok(rustix::fs::setxattr(&path, name, &value, XattrFlags::empty())?)
        }
        10 => OpenOptions::new().write(true).open(&path)?.set_len(random.below(1 << 21)),
        _ => File::open(&path)?.sync_all(),
    }
}
