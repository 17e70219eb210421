//! Tests that run all walks over inodes, and all changes of the set of inodes, in parallel threads.
//! At the end, each test closes the volume while watches still hold some inodes.
//!
//! With `FERROXFS_LONG=1` each test runs for a minute.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferroxfs::admin::{BulkPath, CacheCounts, WalkFilter};
use ferroxfs::scratch::ScratchVolume;
use ferroxfs::watch::{Scope, WatchEvents};
use ferroxfs::{Error, InodeNumber, NewKind, OpenOptions, PosixError, Volume};
use xfs_testkit::Prng;
use xfs_trans::testing::{is_clean, make};

/// Number of files that no thread removes.
const KEPT: usize = 150;
/// Number of names that threads create and remove.
const NAMES: usize = 200;
/// Number of times that a volume is opened and closed in a test.
const ROUNDS: u32 = 3;

/// Returns how long each of the two tests of this file runs.
fn duration() -> Duration {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    if is_long { Duration::from_secs(60) } else { Duration::from_millis(900) }
}

/// Runs each closure of `work` in a thread of its own. A thread calls its closure again and again
/// until `duration` is over, and at least once.
fn at_once(duration: Duration, work: &[&(dyn Fn(&mut Prng) + Sync)]) {
    let (is_over, end) = (AtomicBool::new(false), Instant::now() + duration);
    thread::scope(|scope| {
        for (seed, work) in work.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut prng = Prng::new(seed as u64);
                while !is_over.load(Ordering::Relaxed) {
                    work(&mut prng);
                    // A failure ends the other threads, which would only hide it.
                    is_over.fetch_or(Instant::now() >= end, Ordering::Relaxed);
                }
            });
        }
    });
}

fn kept_number(volume: &Volume, file: usize) -> InodeNumber {
    volume.lookup(format!("/kept{file}")).unwrap().number()
}

/// Creates, writes or removes one random file. Another thread may have the file open.
fn churn(volume: &Volume, prng: &mut Prng) {
    let name = format!("/name{}", prng.within(0..NAMES));
    let held = volume.lookup(&name).ok();
    match prng.within(0..3) {
        0 => {
            let written = volume.write(&name, b"some bytes");
            assert!(written.is_ok(), "{written:?}");
        }
        1 => match volume.remove_file(&name) {
            Ok(()) | Err(Error::Posix(PosixError::NotFound)) => {}
            Err(error) => panic!("{name}: {error}"),
        },
        _ => drop(volume.metadata(&name)),
    }
    drop(held);
}

fn bulkstat(volume: &Volume, path: BulkPath, kept: &BTreeSet<InodeNumber>) {
    let mut seen = BTreeSet::new();
    let done = volume.bulkstat(InodeNumber(0), path, |number, metadata| {
        let metadata = metadata.unwrap_or_else(|error| panic!("{path:?} {number:?}: {error}"));
        assert_eq!(metadata.number, number);
        assert!(seen.insert(number), "{number:?} is shown again");
        ControlFlow::Continue(())
    });
    assert!(done.unwrap().is_continue() && seen.is_superset(kept), "{path:?}");
}

fn walk(volume: &Volume, which: WalkFilter, held: &BTreeSet<InodeNumber>) {
    let mut seen = BTreeSet::new();
    let done = volume.iter_inodes(which, |node| {
        assert!(node.metadata().number == node.number() && seen.insert(node.number()));
        ControlFlow::Continue(())
    });
    assert!(done.unwrap().is_continue());
    assert!(which == WalkFilter::NeedsFlush || seen.is_superset(held), "{which:?}");
}

/// Watches a file, checks that a change gives an event, and ends the watch.
fn watch(volume: &Volume, prng: &mut Prng) {
    let node = volume.lookup(format!("/kept{}", prng.within(0..KEPT))).unwrap();
    let watch = node.watch(WatchEvents::all(), Scope::Inode).unwrap();
    node.touch().unwrap();
    assert!(watch.try_next().is_some_and(|event| event.inode == node.number()));
    assert!(!watch.is_closed());
}

/// Runs all walks and changes in parallel on one opened volume, then closes the volume. Handles and
/// watches hold 20 inodes meanwhile. The walks must find these inodes.
fn check_round(volume: Volume, duration: Duration) {
    let kept: BTreeSet<_> = (0..KEPT).map(|file| kept_number(&volume, file)).collect();
    let nodes: Vec<_> =
        (0..20).map(|file| volume.lookup(format!("/kept{file}")).unwrap()).collect();
    let held: BTreeSet<_> = nodes.iter().map(|node| node.number()).collect();
    let watches: Vec<_> = nodes[..10]
        .iter()
        .map(|node| node.watch(WatchEvents::all(), Scope::Inode).unwrap())
        .collect();
    nodes[..5].iter().for_each(|node| node.keep_in_memory().unwrap());
    at_once(
        duration,
        &[
            &|prng| churn(&volume, prng),
            &|prng| churn(&volume, prng),
            &|prng| watch(&volume, prng),
            &|_| volume.sync().unwrap(),
            &|_| assert!(volume.drop_caches().is_ok()),
            &|_| assert!(volume.cache_counts().unwrap().live >= held.len() as u64),
            &|_| bulkstat(&volume, BulkPath::ThroughCache, &kept),
            &|_| bulkstat(&volume, BulkPath::PastCache, &kept),
            &|_| walk(&volume, WalkFilter::Cached, &held),
            &|_| walk(&volume, WalkFilter::Referenced, &held),
            &|_| walk(&volume, WalkFilter::NeedsFlush, &held),
        ],
    );
    // Without the nodes only watches and pins hold the inodes. The close of the volume releases
    // those.
    drop(nodes);
    volume.drop_caches().unwrap();
    // Waiting inodes count as neither: the background thread frees them at any time.
    let CacheCounts { live, reclaimable, reclaiming, .. } = volume.cache_counts().unwrap();
    assert_eq!([live, reclaimable, reclaiming], [watches.len() as u64, 0, 0]);
    let ending = thread::spawn({
        let waits = watches.iter().map(|watch| watch.is_closed()).filter(|closed| *closed).count();
        move || {
            assert_eq!(waits, 0);
            // During the close, either side may end a watch.
            watches.into_iter().step_by(2).for_each(drop);
        }
    });
    volume.close().unwrap();
    ending.join().unwrap();
}

#[test]
fn concurrent_walks_over_a_volume_miss_no_held_inode() {
    let device = make();
    let open = || {
        // The bound is so small that reclaim runs too.
        let options = OpenOptions::new().write(true).cached_inodes(100);
        options.open_device(Arc::clone(&device)).unwrap()
    };
    let volume = open();
    (0..KEPT).for_each(|file| volume.write(format!("/kept{file}"), b"kept").unwrap());
    volume.close().unwrap();
    for _ in 0..ROUNDS {
        check_round(open(), duration() / ROUNDS);
        assert!(is_clean(&device));
    }
    let volume = open();
    for file in 0..KEPT {
        assert_eq!(volume.read(format!("/kept{file}")).unwrap(), b"kept", "{file}");
    }
    volume.close().unwrap();
}

#[test]
fn concurrent_walks_over_a_scratch_volume_miss_no_held_inode() {
    let volume = ScratchVolume::new(1 << 30);
    let root = volume.root();
    let folders = ["one", "two"].map(|name| root.create(name, &NewKind::Directory).unwrap());
    let kept: BTreeSet<_> = (0..KEPT)
        .map(|file| root.create(format!("kept{file}"), &NewKind::Regular).unwrap().number())
        .collect();
    let churn = |prng: &mut Prng| {
        let (from, to) = (&folders[prng.within(0..2)], &folders[prng.within(0..2)]);
        let name = format!("name{}", prng.within(0..NAMES));
        let done = match prng.within(0..4) {
            0 | 1 => from.create(&name, &NewKind::Regular).and_then(|node| node.write_at(b"x", 9)),
            2 => from.rename(&name, to, format!("name{}", prng.within(0..NAMES))),
            _ => from.remove(&name),
        };
        let usual = [PosixError::Exists, PosixError::NotFound];
        assert!(!matches!(&done, Err(Error::Posix(it)) if !usual.contains(it)), "{done:?}");
    };
    let walk = |which| {
        let mut seen = BTreeSet::new();
        let done = volume.iter_inodes(which, |node| {
            assert!(seen.insert(node.number()));
            drop(node.clone());
            ControlFlow::Continue(())
        });
        assert!(done.is_continue() && seen.is_superset(&kept), "{which:?}");
    };
    at_once(
        duration(),
        &[
            &churn,
            &churn,
            &|_| walk(WalkFilter::Cached),
            &|_| walk(WalkFilter::Referenced),
            &|_| assert!(volume.cache_counts().live >= KEPT as u64 + 3),
        ],
    );
    for folder in &folders {
        for entry in folder.entries().unwrap() {
            folder.remove(&entry.name).unwrap();
        }
    }
    // The root, two directories and the kept files.
    assert_eq!(volume.cache_counts().total(), KEPT as u64 + 3);
}
