//! Threads: a system that does not give those that a volume asks for, and what any of them may use.

use std::sync::Arc;

use ferroxfs::{OpenError, OpenOptions};
use xfs_testkit::run_with_threads;
use xfs_trans::testing::{is_clean, make};

/// What a volume that is written to has besides the log's: it keeps up the log, frees inodes and
/// writes back.
const OTHER_THREADS: u64 = 3;

/// What the log has if it can: some write checkpoints, one writes in place.
fn log_threads() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 4 { 2 } else { 3 }
}

#[test]
fn a_volume_without_its_threads_is_not_opened_for_writing() {
    run_with_threads("threads::a_volume_without_its_threads_is_not_opened_for_writing", |limit| {
        let device = make();
        let devices = OpenOptions::new().writable(true).with_devices(Arc::clone(&device), None);
        let all = log_threads() + OTHER_THREADS;
        // The log does with fewer, and leaves the others no more than it has to.
        for most in 0..all {
            limit.allow(most);
            let refused = devices.writable_volume().err();
            assert!(matches!(&refused, Some(OpenError::Threads(_))), "{most}: {refused:?}");
            assert!(refused.is_some_and(|error| error.hint().is_some()));
            assert!(is_clean(&device));
        }
        limit.allow(all);
        let volume = devices.writable_volume().unwrap();
        for file in 0..100 {
            volume.write(format!("/{file}"), b"contents").unwrap();
        }
        assert!(volume.cache_counts().unwrap().total() > 100);
        // What is dropped by many threads is dropped by this one where there are no others.
        volume.drop_caches().unwrap();
        assert!(volume.cache_counts().unwrap().total() < 100, "{:?}", volume.cache_counts());
        assert_eq!(volume.read("/99").unwrap(), b"contents");
        volume.close().unwrap();
        assert!(is_clean(&device));
    });
}

/// Told by the compiler.
#[test]
fn everything_may_be_used_from_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<ferroxfs::Volume>();
    check::<ferroxfs::Node>();
    check::<ferroxfs::File>();
    check::<ferroxfs::Watch>();
    check::<ferroxfs::ScratchVolume>();
}
