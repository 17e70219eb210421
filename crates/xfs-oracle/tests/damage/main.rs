//! Damages volumes and compares what our checker notices with what `xfs_repair -n` notices.
//!
//! xfs_db changes every field of every structure with each of its verbs and writes a right
//! checksum. Other damages change bytes, lose or misdirect writes, overwrite ranges, cut the device
//! or put noise into the log. Whatever xfs_repair notices, our checker must notice, apart from the
//! differences that [`known`] lists with reasons.
//!
//! A usual run takes a sample of the damages. `FERROXFS_LONG=1` takes many more of them, of every
//! field and of every kind. `FERROXFS_SEED=N` selects another sample.

mod alone;
mod base;
mod contents;
mod damage;
mod judge;
mod known;
mod structures;

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use xfs_oracle::harness::{Trial, TrialError, run, seeds};
use xfs_oracle::{Random, ready_with_programs};

use base::{Base, BaseKind, KINDS};
use damage::{ByteDamages, Damage};
use judge::{Judge, Verdict};

/// Numbers of damages of one volume in a usual run: of damages that change a single field, and of
/// damages that change other bytes.
const USUAL: (usize, u64) = (50, 18);
/// Numbers of damages of one volume in a long run: of damages that change a single field, and of
/// damages that change other bytes.
const LONG: (usize, u64) = (1600, 540);

/// Number of damages between two reports of progress in a long run.
const PROGRESS_EVERY: u64 = 100;

fn main() -> ExitCode {
    let trials = seeds(1).flat_map(|seed| {
        KINDS.map(|kind| {
            let name = format!("damage_that_repair_notices_is_noticed::{}::{seed}", kind.name);
            Trial::new(name, move || check_damages(kind, seed))
        })
    });
    let alone = Trial::new("damage_that_repair_misses_is_noticed", || {
        ready_with_programs()?;
        alone::check()
    });
    run(trials.chain([alone]).collect())
}

fn text(error: impl fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn is_long() -> bool {
    std::env::var_os("FERROXFS_LONG").is_some()
}

/// Counts of damages by the programs that noticed them: both, one or none.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    both: u64,
    ours: u64,
    theirs: u64,
    none: u64,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            both: self.both + other.both,
            ours: self.ours + other.ours,
            theirs: self.theirs + other.theirs,
            none: self.none + other.none,
        }
    }

    fn add(&mut self, verdict: &Verdict) {
        let count = match (verdict.check.is_empty(), verdict.repair.is_empty()) {
            (false, false) => &mut self.both,
            (false, true) => &mut self.ours,
            (true, false) => &mut self.theirs,
            (true, true) => &mut self.none,
        };
        *count += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { both, ours, theirs, none } = self;
        write!(
            f,
            "{} cases: both {both}, only check {ours}, only xfs_repair {theirs}, none {none}",
            both + ours + theirs + none
        )
    }
}

/// Damages a volume in many ways, one at a time. Returns an error if xfs_repair notices a damage
/// that our checker misses, and that is not a known difference.
fn check_damages(kind: BaseKind, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let base = Base::make(kind, folder.path())?;
    let judge = Judge::new(&base.image.data)?;
    let structures = structures::all(&base)?;
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let (mut missed, mut number) = (Vec::<String>::new(), 0_u64);
    for damage in chosen(&base, &structures, seed) {
        let path = &base.image.data;
        let patches = damage.apply(&base, path)?;
        // A field may already have the value, or the verb may not suit it.
        let is_changed = !patches.is_empty() || matches!(damage, Damage::Truncation { .. });
        if is_changed {
            let verdict = judge.verdict(path);
            let verdict = verdict.map_err(|error| text(format!("{damage}: {error}")))?;
            tallies.entry(damage.class()).or_default().add(&verdict);
            if verdict.check.is_empty() && !verdict.repair.is_empty() && !known::is_known(&damage) {
                let miss = format!("{damage}\n    {}", verdict.repair.join("\n    "));
                println!("missed: {}: {miss}", kind.name);
                missed.push(miss);
            }
        }
        damage.undo(&base, path, &patches)?;
        number += 1;
        if number % PROGRESS_EVERY == 0 {
            let all = tallies.values().fold(Tally::default(), |sum, tally| sum.plus(*tally));
            println!("progress: {} after {number} damages: {all}", kind.name);
        }
    }
    for (class, tally) in &tallies {
        println!("damages: {} {class}: {tally}", kind.name);
    }
    match missed.len() {
        0 => Ok(()),
        count => Err(text(format!("{}: {count} damages are missed", kind.name))),
    }
}

/// Returns the damages to `structures` and to other bytes that this run makes, selected by `seed`.
fn chosen(base: &Base, structures: &[structures::DiskStructure], seed: u64) -> Vec<Damage> {
    let mut random = Random::new(seed);
    let (fields, bytes) = if is_long() { LONG } else { USUAL };
    let mut all = damage::fields(structures);
    println!(
        "damages: {} has {} structures, {} damages of fields",
        base.kind.name,
        structures.len(),
        all.len()
    );
    let mut damages = ByteDamages { base, structures, random: random.clone() };
    let mut chosen: Vec<Damage> = (0..bytes).map(|number| damages.next(number)).collect();
    let most = chosen.len() + fields;
    while chosen.len() < most && !all.is_empty() {
        let index = random.below(all.len() as u64) as usize;
        chosen.push(all.swap_remove(index));
    }
    chosen
}
