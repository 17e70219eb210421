//! Smoke runs of all fuzz targets, and the hand-made attacks, each in a process with limits.

mod attacks;
mod checked;
mod corpus;
mod dumped;
mod kinds;
mod planned;
mod salvaged;
mod structures;
mod volume;

use xfs_hostile::attacks::{Attack, all};
use xfs_testkit::{Limits, run_limited};

/// The limits of every process, whatever its input. A valid image needs far less.
const LIMITS: Limits = Limits { memory_bytes: 256 << 20, cpu_seconds: 120 };

/// Runs `problem_with` on each hand-made attack of a group, in a process with limits. Fails with
/// the problems that `problem_with` returns. `test` is the name of the calling test, which runs
/// again in that process.
fn check_attacks(test: &str, group: &str, problem_with: impl Fn(&Attack) -> Option<String>) {
    run_limited(test, LIMITS, || {
        let groups = all();
        let attacks = groups.iter().filter(|(name, _)| *name == group);
        let attacks: Vec<_> = attacks.flat_map(|(_, attacks)| *attacks).collect();
        assert!(!attacks.is_empty(), "{group}");
        let with_name = |attack: &&Attack| println!("{}", attack.name);
        let problems: Vec<String> =
            attacks.into_iter().inspect(with_name).filter_map(&problem_with).collect();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    });
}
