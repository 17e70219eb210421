//! Holds the instructions of each operation to a committed table.
//!
//! The test runs its own program under valgrind, which counts instructions. How many there are
//! depends on the options of the compiler, on the C library and on its choice of functions for the
//! processor, so only one kind of build is counted: `cargo xtask test --part program` compiles this
//! program as it compiles the static binary, with less optimisation than a release. The figures
//! catch work that was added, and they have to be recorded again when work was removed:
//! `UPDATE_EXPECT=1` writes the table. Another compiler needs another number of instructions, so
//! each has a table of its own, and the test is skipped with a compiler that has none.
//! `xfs-bench price --operations` shows where the instructions go.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use xfs_workload::{Caches, OperationAccount, WorkloadError, account, run_operations};

// The memcpy of the static binary.
extern crate xfs_memcpy as _;

/// The allocator of the command, whose instructions do not depend on the C library.
#[global_allocator]
static ALLOCATOR: xfs_mimalloc::Mimalloc = xfs_mimalloc::Mimalloc;

/// Number of files. With this number, work that does not depend on it has a small part.
const FILES: u64 = 1000;

/// The largest difference from the table, in percent.
const TOLERANCE_PERCENT: u64 = 5;

const NAME: &str = "instructions_of_operations";

/// Path of the folder of the tables, below the folder of the crate. The table of a compiler is
/// named after its version.
const TABLES: &str = "tests/instructions";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [command, files] = arguments.as_slice()
        && command == "run"
    {
        return run(files);
    }
    let parts: Vec<_> = arguments.iter().filter(|part| !part.starts_with('-')).collect();
    if !parts.is_empty() && !parts.iter().any(|part| NAME.contains(part.as_str())) {
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n");
        return ExitCode::SUCCESS;
    }
    println!("\nrunning 1 tests");
    let (word, [passed, failed, ignored]) = match check() {
        Outcome::Passed => ("ok", [1, 0, 0]),
        Outcome::Skipped(reason) => {
            println!("skipped: {NAME}: {reason}");
            ("ignored", [0, 0, 1])
        }
        Outcome::Failed(difference) => {
            println!("{difference}");
            ("FAILED", [0, 1, 0])
        }
    };
    println!("test {NAME} ... {word}");
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         0 filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Performs the operations, for valgrind.
fn run(files: &str) -> ExitCode {
    let files = files.parse().expect("the number of files is a number");
    for count in run_operations(files).expect("the operations succeed") {
        println!("{count}");
    }
    ExitCode::SUCCESS
}

/// The outcome of the test.
enum Outcome {
    Passed,
    /// The machine cannot count, for this reason.
    Skipped(String),
    Failed(String),
}

fn check() -> Outcome {
    if cfg!(not(all(target_arch = "x86_64", target_env = "musl", not(debug_assertions)))) {
        let why = "the table is of the build of `cargo xtask test --part program`";
        return Outcome::Skipped(why.to_owned());
    }
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let Some(own) = compiler_version() else {
        return Outcome::Skipped("rustc cannot be asked for its version".to_owned());
    };
    let version = own.split(' ').nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLES);
    let table = folder.join(format!("rustc-{version}.txt"));
    let (compiler, expected) = match std::fs::read_to_string(&table) {
        Ok(text) => decode(&text),
        Err(_) if is_update => (String::new(), BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Outcome::Skipped(format!("there is no table for {own}"));
        }
        Err(error) => return Outcome::Failed(format!("{}: {error}", table.display())),
    };
    if own != compiler && !is_update {
        return Outcome::Skipped(format!("the table is of {compiler}, and this is {own}"));
    }
    let counted = match count() {
        Ok(counted) => counted,
        Err(WorkloadError::Unavailable { why, .. }) => return Outcome::Skipped(why),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    if is_update {
        return match std::fs::write(&table, encode(&own, &counted)) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{}: {error}", table.display())),
        };
    }
    let differences: Vec<_> = counted.iter().filter_map(|one| difference(one, &expected)).collect();
    match differences.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(format!(
            "{}\nIf the change is wanted, UPDATE_EXPECT=1 records these counts:\n{}",
            differences.join("\n"),
            encode(&own, &counted)
        )),
    }
}

/// Returns the version of the compiler that cargo uses here; `None` if it cannot be run.
fn compiler_version() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn count() -> Result<Vec<OperationAccount>, WorkloadError> {
    let program = std::env::current_exe().map_err(WorkloadError::file(Path::new("the test")))?;
    let folder = tempfile::tempdir().map_err(WorkloadError::file(Path::new("a folder")))?;
    let mut command = Command::new(program);
    command.args(["run", &FILES.to_string()]);
    account(&command, folder.path(), Caches::Ignored)
}

/// Returns how an operation differs from the table by more than the tolerance, or `None`.
fn difference(one: &OperationAccount, expected: &BTreeMap<String, u64>) -> Option<String> {
    let (name, counted) = (one.operation.name(), one.instructions());
    let Some(expected) = expected.get(name).copied() else {
        return Some(format!("{name}: not in the table"));
    };
    let is_near = counted.abs_diff(expected) * 100 <= expected * TOLERANCE_PERCENT;
    (!is_near).then(|| format!("{name}: {counted} instructions, the table has {expected}"))
}

fn encode(compiler: &str, counted: &[OperationAccount]) -> String {
    let mut text = format!("{compiler}\n");
    for one in counted {
        let _ = writeln!(text, "{}: {}", one.operation.name(), one.instructions());
    }
    text
}

/// Returns the compiler of a table, and the instructions of each operation.
fn decode(text: &str) -> (String, BTreeMap<String, u64>) {
    let (compiler, rows) = text.split_once('\n').unwrap_or((text, ""));
    let rows = rows.lines().filter_map(|line| line.split_once(": "));
    let counts = rows.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    (compiler.to_owned(), counts.collect())
}
