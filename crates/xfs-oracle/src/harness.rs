//! A test harness for tests that may find out at run time that the machine lacks a requirement.
//!
//! The harness replaces Rust's own one (`harness = false`) and prints the same lines. For each test
//! that the machine cannot run, the harness also prints `skipped: NAME: REASON` and counts the test
//! as ignored. The tests whose names contain one of the arguments are run. Options are ignored.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::error::OracleError;

/// One test.
pub struct Trial {
    name: String,
    body: Box<dyn Fn() -> Result<(), TrialError> + Send>,
}

/// The reason why a test did not pass.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The test machinery failed, or the machine lacks what the test needs.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// ferroxfs is wrong, as this message describes.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for TrialError {
    fn from(difference: String) -> Self {
        Self::Failed(difference)
    }
}

impl Trial {
    /// Creates a test from its name and body.
    pub fn new(
        name: impl Into<String>,
        body: impl Fn() -> Result<(), TrialError> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), body: Box::new(body) }
    }

    fn run(&self) -> Result<(), TrialError> {
        catch_unwind(AssertUnwindSafe(&self.body))
            .unwrap_or_else(|_| Err(TrialError::Failed("panicked".to_owned())))
    }
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

/// Runs the tests whose names contain one of the program's arguments, several in parallel, and
/// prints their results.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let parts: Vec<_> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let all = trials.len();
    let chosen = |trial: &Trial| parts.is_empty() || parts.iter().any(|p| trial.name.contains(p));
    let trials: Vec<_> = trials.into_iter().rev().filter(chosen).collect();
    let filtered = all - trials.len();
    println!("\nrunning {} tests", trials.len());
    let waiting = Mutex::new(trials);
    let counts = Mutex::new(Counts::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(trial) = next(&waiting) {
                    let outcome = trial.run();
                    if let Ok(mut counts) = counts.lock() {
                        tell(&trial.name, outcome, &mut counts);
                    }
                }
            });
        }
    });
    let Counts { passed, failed, ignored } = counts.into_inner().unwrap_or_default();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         {filtered} filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the seeds of a run: those of `FERROXFS_SEED=N` or `FERROXFS_SEED=N..M`, or the first
/// `count` seeds from 0 on if the variable is not set.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let given = std::env::var("FERROXFS_SEED").ok().and_then(|words| parse_seeds(&words));
    given.unwrap_or(0..count)
}

fn parse_seeds(words: &str) -> Option<Range<u64>> {
    match words.split_once("..") {
        Some((first, end)) => Some(first.parse().ok()?..end.parse().ok()?),
        None => words.parse().ok().map(|seed| seed..seed + 1),
    }
}

/// Retries an action for some seconds, because it may fail temporarily. There are two reasons for
/// such failures. A parallel test that starts a program duplicates all open files, and with them
/// their locks. The kernel also releases devices with a delay.
///
/// # Errors
///
/// The error of the last attempt.
pub fn patiently<T, E>(open: impl Fn() -> Result<T, E>) -> Result<T, E> {
    const ATTEMPTS: usize = 1000;
    const PAUSE: Duration = Duration::from_millis(5);
    let tried = (1..ATTEMPTS).find_map(|_| {
        let outcome = open().ok();
        if outcome.is_none() {
            std::thread::sleep(PAUSE);
        }
        outcome
    });
    tried.map_or_else(open, Ok)
}

fn next(waiting: &Mutex<Vec<Trial>>) -> Option<Trial> {
    waiting.lock().ok()?.pop()
}

fn tell(name: &str, outcome: Result<(), TrialError>, counts: &mut Counts) {
    match outcome {
        Ok(()) => {
            counts.passed += 1;
            println!("test {name} ... ok");
        }
        Err(TrialError::Oracle(OracleError::Unavailable(reason))) => {
            counts.ignored += 1;
            println!("test {name} ... ignored");
            println!("skipped: {name}: {reason}");
        }
        Err(error) => {
            counts.failed += 1;
            println!("{error}");
            println!("test {name} ... FAILED");
        }
    }
}
