//! Damages copies of a volume, and compares our repair with that of xfs_repair.
//!
//! Each damage is done to two copies. Our repair and xfs_repair each repair one of them in one run.
//! Then every name of the undamaged volume is looked for: in its place with its contents and
//! attributes, elsewhere, or nowhere. In no trial may our repair keep less than xfs_repair, and
//! after one run our copy must be clean by the checker and by `xfs_repair -n`. A name must be in
//! its place if its inode and those of the directories above it, with their parent pointers,
//! survive the damage.
//!
//! A name must also be there with its type if the directory block with its entry is undamaged. The
//! kernel mounts each of our clean copies, and must list the same names and accept a new file.
//!
//! A salvage of the damaged copy must deliver at least the names and contents that our repair
//! leaves in their place, and its reports must be true.
//!
//! The volume is damaged in several states: clean, with quota, with a dirty log, and marked
//! NEEDSREPAIR. The name of a trial has the state.
//!
//! A usual run has a few damages of each kind on small volumes. `FERROXFS_LONG=1` has more, and the
//! clean volume then has some 47,000 names. `FERROXFS_SEED=N` selects other damages.
//!
//! `FERROXFS_TRIALS` runs the trials with the given numbers only, such as `48`, `48..60` or
//! `48,54..56`. `FERROXFS_SHOW=1` prints each damage and the actions of each repair. The kernel
//! places blocks differently from run to run, so a number can stand for the damage of another
//! field.
//!
//! `FERROXFS_SALVAGE=1` judges the salvages only. The repairs are then not checked, and xfs_repair
//! does not run.

mod base;
#[path = "../damage/contents.rs"]
mod contents;
#[path = "../damage/damage.rs"]
#[allow(dead_code, reason = "the trials of the checker use the rest")]
mod damage;
mod judge;
mod kernel;
mod kinds;
mod salvage;
mod states;
#[path = "../damage/structures.rs"]
mod structures;
mod tree;
mod undelete;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::process::ExitCode;

use xfs_oracle::harness::{Trial, TrialError, run, seeds};
use xfs_oracle::ready_with_programs;

use base::Base;
use judge::{Judge, Outcome, RepairOutcomes, TrialOutcomes};
use kinds::{Kinds, SUPERBLOCKS};
use salvage::SalvageOutcome;
use states::VolumeState;

/// Number of damages of a volume in a usual run, and in a long run.
const COUNTS: (u64, u64) = (16, 260);
/// Number of damages in a usual run of a volume that is not clean.
const USUAL_COUNT_OF_STATES: u64 = 10;

fn main() -> ExitCode {
    let trials = seeds(1).flat_map(|seed| {
        VolumeState::ALL.map(|state| {
            let state_name = state.name();
            let name = format!("repair_keeps_at_least_as_much_as_xfs_repair::{state_name}::{seed}");
            Trial::new(name, move || check_repairs(state, seed))
        })
    });
    let name = "files_that_the_kernel_removed_come_back".to_owned();
    run(trials.chain([Trial::new(name, undelete::check_undelete)]).collect())
}

fn text(error: impl fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

/// Returns the ranges of the numbers of the trials: those in `FERROXFS_TRIALS`, or else all `count`
/// trials and the one that zeroes all superblocks.
fn chosen_trials(count: u64) -> Vec<Range<u64>> {
    let all = || format!("0..{count},{SUPERBLOCKS}");
    let words = std::env::var("FERROXFS_TRIALS").unwrap_or_else(|_| all());
    let number = |word: &str| word.parse::<u64>().ok();
    let range = |words: &str| match words.split_once("..") {
        Some((first, end)) => Some(number(first)?..number(end)?),
        None => number(words).map(|first| first..first + 1),
    };
    let ranges: Option<Vec<Range<u64>>> = words.split(',').map(range).collect();
    ranges.expect("FERROXFS_TRIALS holds N, N..M, or several of them with commas between")
}

fn is_long() -> bool {
    std::env::var_os("FERROXFS_LONG").is_some()
}

/// The results of one tool (our repair or xfs_repair), summed over all trials of a class of
/// damages.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    trials: u64,
    whole: u64,
    clean: u64,
    gone: u64,
    found: u64,
    displaced: u64,
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.whole += u64::from(outcome.kept.is_whole());
        self.clean += u64::from(outcome.is_clean());
        self.gone += outcome.kept.gone;
        self.found += outcome.kept.moved;
        self.displaced += outcome.displaced.len() as u64;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trials, whole, clean, gone, found, displaced } = self;
        write!(
            f,
            "{trials} trials: {whole} whole, {clean} clean after one run, {gone} names gone, \
             {found} names in lost+found, {displaced} names with a witness not in their place"
        )
    }
}

/// The results of the salvages, summed over all trials of a class of damages.
#[derive(Clone, Copy, Debug, Default)]
struct SalvageSums {
    trials: u64,
    delivered: u64,
    fewer: u64,
    untrue: u64,
}

impl SalvageSums {
    fn add(&mut self, outcome: &SalvageOutcome) {
        self.trials += 1;
        self.delivered += outcome.delivered;
        self.fewer += outcome.fewer.len() as u64;
        self.untrue += outcome.untrue.len() as u64;
    }
}

impl fmt::Display for SalvageSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trials, delivered, fewer, untrue } = self;
        write!(
            f,
            "{trials} trials: {delivered} names delivered, {fewer} names fewer than the repair \
             leaves, {untrue} untrue reports"
        )
    }
}

/// The summed results of both repair tools and of the salvages, for one class of damages.
#[derive(Clone, Copy, Debug, Default)]
struct ClassSums {
    ours: Sums,
    theirs: Sums,
    salvage: SalvageSums,
}

/// Damages a volume in many ways, one at a time, and repairs it with our repair and with
/// xfs_repair. Returns an error if our repair keeps less than xfs_repair, or leaves a volume that
/// is not clean. Also returns an error if a salvage delivers less than our repair, or has a wrong
/// report.
fn check_repairs(state: VolumeState, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let base = Base::make(state, folder.path())?;
    let judge = Judge::new(&base, folder.path());
    let structures = structures::all(&base)?;
    let count = match (is_long(), state) {
        (true, _) => COUNTS.1,
        (false, VolumeState::Clean) => COUNTS.0,
        (false, _) => USUAL_COUNT_OF_STATES,
    };
    let mut kinds = Kinds::new(&base, &structures, seed);
    let mut sums: BTreeMap<String, ClassSums> = BTreeMap::new();
    let mut failed = 0;
    let chosen = chosen_trials(count);
    let ends = chosen.iter().map(|range| range.end).filter(|end| *end <= SUPERBLOCKS);
    let end = ends.max().unwrap_or(0);
    let mut judged = 0;
    for number in (0..end).chain([SUPERBLOCKS]) {
        // The damages of a seed come from one random sequence, so those before the first trial are
        // made up too.
        let damage = kinds.next(number);
        if !chosen.iter().any(|range| range.contains(&number)) {
            continue;
        }
        if std::env::var_os("FERROXFS_SHOW").is_some() {
            println!("trial {} {number}: {damage}", state.name());
        }
        let Some(outcomes) = judge.judge(&damage)? else { continue };
        judged += 1;
        let TrialOutcomes { repairs, salvage } = outcomes;
        for class in [damage.class.clone(), "all".to_owned()] {
            let sums = sums.entry(class).or_default();
            sums.salvage.add(&salvage);
            if let Some(RepairOutcomes { ours, theirs }) = &repairs {
                sums.ours.add(ours);
                sums.theirs.add(theirs);
            }
        }
        let failures = repairs.map_or_else(Vec::new, |RepairOutcomes { ours, theirs }| {
            judge::failures(&ours, &theirs)
        });
        let lacks = salvage.failures();
        failed += u64::from(!failures.is_empty() || !lacks.is_empty());
        for failure in failures {
            println!("worse: {} {seed} {number}: {damage}: {failure}", state.name());
        }
        for lack in lacks {
            println!("salvage worse: {} {seed} {number}: {damage}: {lack}", state.name());
        }
    }
    let state = state.name();
    for (class, ClassSums { ours, theirs, salvage }) in &sums {
        if ours.trials > 0 {
            println!("repairs: {state}: {class}: ferroxfs: {ours}");
            println!("repairs: {state}: {class}: xfs_repair: {theirs}");
        }
        println!("salvage: {state}: {class}: {salvage}");
    }
    match failed {
        0 => Ok(()),
        failed => Err(text(format!("{failed} of {judged} trials are worse or not clean"))),
    }
}
