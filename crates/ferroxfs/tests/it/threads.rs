//! Tests of a volume that gets no threads from the system, and of types that threads may share.

use std::sync::Arc;

use ferroxfs::{OpenError, OpenOptions};
use xfs_testkit::run_with_threads;
use xfs_trans::testing::{is_clean, make};

/// Number of threads that a writable volume has in addition to those of its log: one each for log
/// upkeep, inactivation and write-back.
const OTHER_THREADS: u64 = 3;

/// Returns the number of threads that the log of a writable volume has: one writes metadata in
/// place, and the others write checkpoints.
fn log_threads() -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 4 { 2 } else { 3 }
}

#[test]
fn volume_without_its_threads_is_not_opened_for_writing() {
    run_with_threads("threads::volume_without_its_threads_is_not_opened_for_writing", |limit| {
        let device = make();
        let devices = OpenOptions::new().write(true).with_devices(Arc::clone(&device), None);
        let all = log_threads() + OTHER_THREADS;
        // The log makes do with fewer threads, but takes as many as it can get.
        for most in 0..all {
            limit.allow(most);
            let refused = devices.open().err();
            assert!(matches!(&refused, Some(OpenError::Threads(_))), "{most}: {refused:?}");
            assert!(refused.is_some_and(|error| error.hint().is_some()));
            assert!(is_clean(&device));
        }
        limit.allow(all);
        let volume = devices.open().unwrap();
        for file in 0..100 {
            volume.write(format!("/{file}"), b"contents").unwrap();
        }
        assert!(volume.cache_counts().unwrap().total() > 100);
        // Without more threads, the calling thread alone drops the caches.
        volume.drop_caches().unwrap();
        assert!(volume.cache_counts().unwrap().total() < 100, "{:?}", volume.cache_counts());
        assert_eq!(volume.read("/99").unwrap(), b"contents");
        volume.close().unwrap();
        assert!(is_clean(&device));
    });
}

/// Handles can be sent to and shared with other threads. The compiler checks this.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<ferroxfs::Volume>();
    check::<ferroxfs::Node>();
    check::<ferroxfs::File>();
    check::<ferroxfs::watch::Watch>();
    check::<ferroxfs::scratch::ScratchVolume>();
}
