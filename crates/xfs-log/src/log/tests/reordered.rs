//! Tests that forced commits survive a power cut, with several threads that force, on a device that
//! reorders requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xfs_testkit::{
    Atomicity, PowerCuts, Recording, RecordingDevice, RequestKind, ScheduledDevice, Scheduler,
};

use super::durability::commit_large;
use super::first_cycle::check_first_cycle;
use super::rig::Rig;
use crate::log::{Log, LogConfig};
use crate::mutant::{ActiveMutant, Mutant};
use crate::state::find_head_and_tail;
use crate::testing::decode;
use crate::testing::item::{TestItem, number_at};

const LOG_BLOCKS: u32 = 2048;

/// The block number of the home location of the first item. It lies after the log.
const PLACE: u64 = LOG_BLOCKS as u64;

/// The length of an item in bytes. A checkpoint with one item of each thread fills more than one
/// record.
const ITEM_BYTES: usize = 16 << 10;

const THREADS: u64 = 4;

/// Number of times that a thread changes its item.
const ROUNDS: u64 = 30;

/// A forced commit: after every later power cut, the item must have the number that this commit has
/// logged, or a later number.
struct ForcedCommit {
    position: usize,
    at: u64,
    number: u64,
}

/// Returns the block number of the item of each thread.
fn places() -> impl Iterator<Item = u64> {
    (0..THREADS).map(|thread| PLACE + 64 * thread)
}

/// Releases the requests that the device holds back, one by one in an order that the scheduler
/// chooses, until `done` is set.
fn reorder(mut scheduler: Scheduler, done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        // Let more requests arrive first.
        for _ in 0..20 {
            thread::yield_now();
        }
        scheduler.release_any();
    }
}

/// Returns the number that each item has durably after a power cut: from the log, or from the
/// item's home location.
fn numbers_after(rig: &Rig) -> Result<BTreeMap<u64, u64>, String> {
    let log = rig.log_device();
    let state = find_head_and_tail(&log).map_err(|error| error.to_string())?;
    let mut numbers = BTreeMap::new();
    for at in places() {
        let mut in_place = [0; 512];
        rig.device.read_at(&mut in_place, at * 512).unwrap();
        numbers.insert(at, number_at(&in_place, 0));
    }
    for transaction in decode::transactions_of(&log, &state) {
        for (at, number) in transaction.numbers() {
            let last = numbers.entry(at).or_default();
            *last = number.max(*last);
        }
    }
    Ok(numbers)
}

/// A guard that, when it is dropped, sets the flag that ends the reordering. So the reordering also
/// ends if a thread that forces the log panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Changes an item `ROUNDS` times, and forces the log after every third change. The home location
/// of the item is block `at`. Returns the forced commits.
fn change_and_force(
    log: &Log,
    item: &Arc<TestItem>,
    at: u64,
    recorder: &RecordingDevice,
) -> Vec<ForcedCommit> {
    let mut promises = Vec::new();
    for number in 1..=ROUNDS {
        let sequence = commit_large(log, std::slice::from_ref(item), number);
        if number % 3 == 0 {
            log.force(sequence).unwrap();
            promises.push(ForcedCommit { position: recorder.position(), at, number });
        }
    }
    promises
}

/// Runs threads that change items and force the log while the device reorders their requests.
/// Returns the forced commits, each of which must survive a power cut.
fn promises(
    rig: &Rig,
    recorder: &Arc<RecordingDevice>,
    seed: u64,
    (usual, mutant): (&LogConfig, ActiveMutant),
) -> Vec<ForcedCommit> {
    let held = [RequestKind::Write, RequestKind::Flush];
    let (device, scheduler) = ScheduledDevice::new(recorder.clone(), &held, seed);
    let device = Arc::new(device);
    let rig = rig.on(device.clone());
    // Checkpoints are also written without a force, so that two threads write some at once.
    let (largest_bytes, checkpoint_bytes) = (32 << 10, 20 << 10);
    let config = LogConfig { threads: 2, largest_bytes, checkpoint_bytes, ..usual.clone() };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| reorder(scheduler, &done));
        let _end = StopOnDrop(&done);
        let log = rig.open_with(&config, mutant);
        let forcing: Vec<_> = places()
            .map(|at| {
                let item = TestItem::large_in_place(at, ITEM_BYTES, device.clone());
                let log = &log;
                move || change_and_force(log, &item, at, recorder)
            })
            .collect();
        thread::scope(|scope| {
            let forcing: Vec<_> = forcing.into_iter().map(|change| scope.spawn(change)).collect();
            forcing.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    })
}

/// Cuts the power at sampled moments. Returns an error that names a forced commit if one is missing
/// after recovery, and the recording of the device otherwise.
fn power_cuts(seed: u64, mutant: ActiveMutant) -> Result<Recording, String> {
    power_cuts_with(seed, mutant, |usual| usual)
}

/// Does the same as `power_cuts`, with the configuration of the log that `run` returns.
fn power_cuts_with(
    seed: u64,
    mutant: ActiveMutant,
    run: impl Fn(LogConfig) -> LogConfig,
) -> Result<Recording, String> {
    let start = Rig::new(LOG_BLOCKS);
    let recorder = Arc::new(RecordingDevice::new(Arc::clone(&start.device)));
    let config = run(start.config());
    let promises = promises(&start, &recorder, seed, (&config, mutant));
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default().torn(0..PLACE * 512));
    for seed in 0..150 {
        let cut = cuts.sample(seed);
        let found = numbers_after(&start.on(Arc::new(cuts.after(cut))))?;
        for ForcedCommit { at, number, .. } in
            promises.iter().filter(|promise| promise.position <= cut.point())
        {
            let last = found[at];
            if last < *number {
                return Err(format!(
                    "cut {cut}: {number} was promised at {at} and only {last} is there"
                ));
            }
        }
    }
    Ok(recording)
}

/// Returns `count` seeds from 0 on, or from the number in `FERROXFS_SEED` on.
fn seeds(count: u64) -> Range<u64> {
    let first = std::env::var("FERROXFS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    first..first + count
}

/// Checks that no forced commit is missing after a power cut, and that the first cycle is durable
/// before the second begins. The seed decides in which order the device makes the requests.
fn check(seed: u64, run: impl Fn(LogConfig) -> LogConfig) {
    let recording = power_cuts_with(seed, ActiveMutant::default(), run);
    let recording = recording.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    check_first_cycle(&recording, LOG_BLOCKS)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn forced_commits_survive_a_power_cut_on_a_reordering_device() {
    seeds(6).for_each(|seed| check(seed, |usual| usual));
}

#[test]
fn log_by_count_keeps_forced_commits_on_a_reordering_device() {
    let by_count = |usual| LogConfig { by_count: true, slots: 1, ..usual };
    seeds(4).for_each(|seed| check(seed, by_count));
}

/// Checks I5 in docs/internals/log.md: without the order of COMMITs the tests find a lost commit.
#[test]
fn commit_ordering_mutants_lose_forced_commits_on_a_reordering_device() {
    for mutant in [Mutant::NoPreflush, Mutant::CommitBeforeRecords] {
        let lost = (0..20).find_map(|seed| power_cuts(seed, ActiveMutant::with(mutant)).err());
        println!("{mutant:?}: {}", lost.unwrap_or_else(|| panic!("{mutant:?} is not found")));
    }
}
