use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;

/// Time after which the test concludes that a wakeup was lost, and fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a flusher thread with the shortest interval. An atomic variable stands for the tag that
/// marks a file for the flusher. Checks that no pass runs while the thread sleeps, and that each
/// new tag wakes the thread. Checks I1 of `xfs_vfs::flusher`: no wakeup is lost.
#[test]
fn idle_flusher_sleeps_and_misses_no_wakeup() {
    let flusher = Flusher::new(Upkeep::new(Upkeep::SHORTEST, Upkeep::LONGEST));
    let tags = AtomicU64::new(0);
    let await_that = |is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while flusher.wait(false) {
                flusher.begin_pass();
                tags.store(0, std::sync::atomic::Ordering::SeqCst);
            }
        });
        for round in 0..1000 {
            if round % 2 == 0 {
                await_that(&|| flusher.phase.load(Ordering::SeqCst) == ASLEEP);
                let passes = flusher.passes();
                thread::yield_now();
                assert_eq!(flusher.passes(), passes, "a pass while the flusher sleeps");
            }
            tags.store(1, std::sync::atomic::Ordering::SeqCst);
            flusher.begin();
            await_that(&|| tags.load(std::sync::atomic::Ordering::SeqCst) == 0);
        }
        flusher.close();
    });
}
