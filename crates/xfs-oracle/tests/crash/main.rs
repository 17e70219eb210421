//! Simulated power failures and device failures while the library works. They come at any request,
//! and any part of the unflushed data is lost.
//!
//! A history of one thread, or of several, runs on a device that records its requests. For each
//! power cut the image is recovered twice, by ferroxfs and by the kernel. Then xfs_repair must find
//! nothing in either image, and the two images must show the same inodes. They must show a state of
//! the history that keeps every promise of the syncs that had returned
//! ([`CrashHistory`](xfs_oracle::CrashHistory)). ferroxfs's recovery is also cut, and the result is
//! judged in the same way.
//!
//! - [`random`]: long histories of all operations, cut anywhere.
//! - [`single`]: one operation, one sync, and a cut, for every pair.
//! - [`threads`]: four threads on the same directories and files, cut anywhere.
//! - [`failing`]: the n-th request fails, in a script of every operation.
//! - [`guest`]: cuts of volumes with realtime sections, which a guest recovers too.
//! - [`silent`]: many cuts of one history, after each of which only our checker is asked.
//!
//! `FERROXFS_SEED=N` runs the trials of one seed, and `FERROXFS_SEED=N..M` those of several. A seed
//! selects one of the volumes; `FERROXFS_GEOMETRY=NAME` selects it for all. Background threads
//! write the log, so the order of requests differs from run to run. The image of a failing cut is
//! kept, and named in the report. `cargo xtask test --long`, or `FERROXFS_LONG=1`, runs long
//! histories of 2,000 seeds. The first hundred of these also run all other trials, on more volumes.

mod disks;
mod failing;
mod fragments;
mod guest;
mod history;
mod judge;
#[path = "../agreement/library.rs"]
#[allow(dead_code, reason = "a volume that loses power is not closed")]
mod library;
#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;
mod random;
mod resumed;
mod script;
mod sections;
mod silent;
mod single;
mod threads;
mod usage;
#[path = "../agreement/volumes.rs"]
mod volumes;
mod zones;

use std::process::ExitCode;

use xfs_oracle::Geometry;
use xfs_oracle::harness::{Trial, TrialError, run, seeds};

/// The geometry on which every seed runs. It has parent pointers, a reverse map, and the feature
/// that exchanges ranges of files.
const ALWAYS: &str = "parent-exchange";

/// The geometry with separate devices for data and log, each with flushes of its own. Long
/// histories run on it and are cut anywhere.
const TWO_DEVICES: &str = "external-log";

/// The share of seeds that also use a volume with fragmented free space: one in this number.
const FRAGMENTED_SHARE: usize = 4;

type Check = fn(&Geometry, u64) -> Result<(), TrialError>;

const CHECKS: [(&str, Check); 5] = [
    ("crash_keeps_every_promise", random::check),
    ("crash_after_one_operation_keeps_its_promise", single::check),
    ("threads_that_share_break_no_promise", threads::check),
    ("failing_device_breaks_no_promise", failing::check),
    ("recovered_crash_states_have_no_finding", silent::check),
];

/// Number of seeds that run on a volume with quota: in a long run, and in a short run.
const COUNTED: (u64, u64) = (500, 2);

/// Number of seeds that run on volumes with a realtime section: in a long run, and in a short run.
const IN_SECTIONS: (u64, u64) = (100, 2);

/// The first seed that does not run all trials in a long run. This seed and all later ones run one
/// long history each, on the volume that the seed selects.
const FIRST_ALONE: u64 = 100;

fn main() -> ExitCode {
    let histories = if is_long() { 2_000 } else { 1 };
    let counted = seeds(if is_long() { COUNTED.0 } else { COUNTED.1 });
    let counted = counted.map(|seed| trial(Geometry::QUOTA, CHECKS[0], seed));
    let in_sections = seeds(if is_long() { IN_SECTIONS.0 } else { IN_SECTIONS.1 });
    let in_sections = in_sections.flat_map(sections_of);
    let guests = guest::trials();
    let seeds = seeds(histories);
    let are_all = seeds == (0..histories);
    let trials = seeds.flat_map(|seed| match are_all && seed >= FIRST_ALONE {
        true => volumes::of_seed(seed)
            .map(|volume| trial(volume, CHECKS[0], seed))
            .into_iter()
            .collect(),
        false => trials_of(seed),
    });
    run(trials.chain(counted).chain(in_sections).chain(guests).collect())
}

/// Returns all trials of a seed.
fn trials_of(seed: u64) -> Vec<Trial> {
    // The first seed, which every short run has, uses none of them.
    let number = (seed as usize + 2) % FRAGMENTED_SHARE;
    let fragmented = Geometry::FRAGMENTED.into_iter().nth(number);
    let geometries = [volumes::named(ALWAYS), volumes::of_seed(seed), fragmented];
    let on_one = geometries.into_iter().flatten();
    let on_two = volumes::named(TWO_DEVICES).map(|volume| trial(volume, CHECKS[0], seed));
    on_one.flat_map(|volume| CHECKS.map(|check| trial(volume, check, seed))).chain(on_two).collect()
}

/// Returns the trials of a seed on volumes with a realtime section: on all of them in a long run,
/// and on every second one in a short run.
fn sections_of(seed: u64) -> Vec<Trial> {
    let all = Geometry::REALTIME.into_iter().enumerate();
    let is_chosen = |number: usize| is_long() || number as u64 % 2 == seed % 2;
    let chosen = all.filter(|(number, _)| is_chosen(*number));
    chosen.map(|(_, geometry)| trial(geometry, CHECKS[0], seed)).collect()
}

fn trial(geometry: Geometry, (what, check): (&str, Check), seed: u64) -> Trial {
    let name = format!("{what}::{}::{seed}", geometry.name);
    Trial::new(name, move || check(&geometry, seed))
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("FERROXFS_LONG").is_some()
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
