//! `cargo xtask test`: every check and every test of the project, in one run.
//!
//! All checks run even if an early one fails, so that one run shows every fault. The last line
//! printed has the counts of passed, failed and skipped tests. The tests of the workspace and the
//! other parts run at the same time (`parts.rs`).

mod binaries;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::c;
use crate::command;
use crate::console::QuietConsole;
use crate::demo;
use crate::dependencies;
use crate::disk;
use crate::dist;
use crate::error::Error;
use crate::minimum_rust::MinimumRust;
use crate::oracles;
use crate::packages;
use crate::parts::{self, Part};
use crate::publish;
use crate::python;
use crate::query;
use crate::report::Report;
use crate::tidy;
use binaries::TestBinary;

/// Arguments of `cargo test` that run all tests which count atomic writes and lock acquisitions:
/// tests of single crates and of whole operations. One call for all of them compiles the crates
/// that they use only once.
const COUNTING: [&str; 19] = [
    "--lib",
    "--test",
    "counted",
    "-p",
    "xfs-log",
    "-p",
    "xfs-sync",
    "-p",
    "xfs-buffer",
    "-p",
    "xfs-trans",
    "-p",
    "xfs-alloc",
    "-p",
    "ferroxfs",
    "-p",
    "xfs-workload",
    "--features",
    "xfs-sync/count,xfs-buffer/count,xfs-log/count,xfs-trans/count,xfs-alloc/count,\
     ferroxfs/count,xfs-workload/count",
];

/// Arguments of `cargo test` for the model tests, in which the schedule explorer shuttle tries many
/// schedules of the threads.
const MODELS: [&str; 10] =
    ["--lib", "-p", "xfs-sync", "-p", "xfs-locks", "-p", "xfs-log", "-p", "xfs-icache", "model::"];

/// The test binaries of the part [`Part::Oracles`], by the names of their targets.
const ORACLES: [&str; 11] = [
    "agreement",
    "crash",
    "damage",
    "guest",
    "kernel",
    "mount",
    "oracle",
    "recovery",
    "repair",
    "replay",
    "work",
];

/// The target of the test that counts instructions. It counts the build of [`Part::Program`] only.
const INSTRUCTIONS: &str = "instructions";

/// The number of cases that a long-running test tries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cases {
    /// A few cases, which take so little time that every run can include them.
    Some,
    /// Many more cases, for a run with `--long`.
    Many,
}

/// The options of `cargo xtask test`: which tests run, and how many cases they try.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Run many more cases of the tests that take long
    #[arg(long)]
    long: bool,
    /// Run only this part
    #[arg(long, value_enum, value_name = "PART")]
    part: Option<Part>,
    /// Print the report as JSON, for the run that started this part
    #[arg(long, hide = true, requires = "part")]
    json: bool,
}

/// Runs all checks and tests, or one part of them, and prints the report.
pub(crate) fn run(root: &Path, options: Options) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(Error::file(root))?;
    command::keep_no_state_in_a_fresh_clone(root)?;
    let cases = if options.long { Cases::Many } else { Cases::Some };
    let mut report = Report::default();
    if let Some(part) = options.part {
        run_part(root, &mut report, part, cases);
    } else {
        disk::check_first_run(root)?;
        packages::install(&mut report);
        let _quiet = QuietConsole::new();
        let flags: &[&str] = if options.long { &["--long"] } else { &[] };
        parts::run_beside(
            root,
            &mut report,
            &parts::BESIDE_TESTS,
            flags,
            |report, beside, built| {
                install_oracles(root, report, cases);
                let binaries = build(root, report);
                // The receiver waits until the sender is dropped.
                drop(built);
                let binaries = binaries.unwrap_or_default();
                tests_of_ours(root, report, &binaries, cases);
                while let Some(part) = beside.take_last() {
                    match part {
                        // Without cargo, which may be building another part.
                        Part::Oracles => tests_of_oracles(root, report, &binaries, cases),
                        part => report.add(beside.run(part)),
                    }
                }
            },
        );
    }
    if options.json {
        parts::print_report(&report);
    } else {
        println!("\n{report}");
    }
    if report.failed() == 0 { Ok(()) } else { Err(Error::TestsFailed) }
}

fn run_part(root: &Path, report: &mut Report, part: Part, cases: Cases) {
    match part {
        Part::Tests => {
            install_oracles(root, report, cases);
            let binaries = build(root, report);
            tests_of_ours(root, report, &binaries.unwrap_or_default(), cases);
        }
        Part::Oracles => {
            // They are there already if this part runs beside the tests.
            install_oracles(root, report, cases);
            let binaries = build(root, report);
            tests_of_oracles(root, report, &binaries.unwrap_or_default(), cases);
        }
        Part::Style => style(root, report),
        Part::Program => {
            program(root, report, cases);
            if cases == Cases::Many {
                let began = Instant::now();
                report.check("c", c::run(root, &c::Options::quick()));
                report.took("cargo xtask c --quick", began.elapsed());
                let began = Instant::now();
                report.check("python", python::run(root, python::Options::default()));
                report.took("cargo xtask python", began.elapsed());
                query(root, report);
            }
        }
        Part::Package => {
            let began = Instant::now();
            let options = publish::Options { install: cases == Cases::Many, long: false };
            report.check("package", publish::run(root, options));
            report.took("cargo xtask package", began.elapsed());
        }
        Part::Counted => tests(root, report, &COUNTING, Cases::Some),
        Part::Models => models(root, report),
    }
}

/// Installs the programs and guests that tests compare with.
fn install_oracles(root: &Path, report: &mut Report, cases: Cases) {
    if let Err(error) = oracles::run(root, oracles::Options { s3: cases == Cases::Many }) {
        let which = "tests that need the newest xfsprogs or a guest";
        report.skip(which, &error.to_string());
    }
}

/// Builds all tests of the workspace. Returns their binaries, or `None` if that failed.
fn build(root: &Path, report: &mut Report) -> Option<Vec<TestBinary>> {
    let began = Instant::now();
    let built = binaries::build(root);
    report.took("building the tests", began.elapsed());
    built.map_err(|error| report.check("building the tests", Err(error))).ok()
}

/// Runs the test binaries of the workspace that do not ask oracles, and the tests in documents.
fn tests_of_ours(root: &Path, report: &mut Report, binaries: &[TestBinary], cases: Cases) {
    let is_ours = |binary: &&TestBinary| !asks_oracles(binary) && binary.target != INSTRUCTIONS;
    for binary in binaries.iter().filter(is_ours) {
        run_binary(root, report, binary, cases);
    }
    tests(root, report, &["--workspace", "--doc"], cases);
}

/// Runs the test binaries of the workspace that ask oracles.
fn tests_of_oracles(root: &Path, report: &mut Report, binaries: &[TestBinary], cases: Cases) {
    let began = Instant::now();
    for binary in binaries.iter().filter(|binary| asks_oracles(binary)) {
        run_binary(root, report, binary, cases);
    }
    report.took("the tests that ask oracles", began.elapsed());
}

fn asks_oracles(binary: &TestBinary) -> bool {
    ORACLES.contains(&binary.target.as_str())
}

fn run_binary(root: &Path, report: &mut Report, binary: &TestBinary, cases: Cases) {
    let mut command = binary.command();
    set_environment(root, &mut command, cases);
    count(report, &mut command, &binary.to_string());
}

/// Tells tests where the oracles are, and how many cases they try.
fn set_environment(root: &Path, command: &mut Command, cases: Cases) {
    command.env("FERROXFS_ORACLES", oracles::folder(root));
    if cases == Cases::Many {
        command.env("FERROXFS_LONG", "1");
    }
}

/// Builds and tries `ferroxfs-query`, if the engines can be installed.
fn query(root: &Path, report: &mut Report) {
    let began = Instant::now();
    match query::install() {
        Err(error) => report.skip("ferroxfs-query", &error.to_string()),
        Ok(()) => report.check("query", query::run(root, query::Options::default())),
    }
    report.took("cargo xtask query", began.elapsed());
}

/// Builds the package that users install, but with less optimisation, and installs and runs the
/// package in an empty root directory. Then plays the demo with its program, as root and as an
/// ordinary user.
fn program(root: &Path, report: &mut Report, cases: Cases) {
    let program = quick_dist(root, report, cases);
    match program {
        Some(_) => instructions(root, report),
        None => report.skip("instructions of operations", "there is no static binary"),
    }
    let began = Instant::now();
    // Where there is no static binary the demo builds its own.
    let options = demo::Options { program: program.clone(), folder: None };
    report.check("demo", demo::run(root, &options));
    match program {
        _ if !command::is_root() => report.skip("demo as root", "not root"),
        None => report.skip("demo as an ordinary user", "there is no static binary"),
        Some(program) => {
            report.check("demo as an ordinary user", demo::run_as_nobody(&program));
        }
    }
    report.took("cargo xtask demo", began.elapsed());
}

/// Runs `cargo xtask dist --quick`. With many cases, also builds a second time and uses the package
/// in a minimal Debian. Returns the path of the static binary, or `None` if the build failed or was
/// skipped.
fn quick_dist(root: &Path, report: &mut Report, cases: Cases) -> Option<PathBuf> {
    if let Err(error) = dist::install() {
        report.skip("dist", &error.to_string());
        return None;
    }
    let began = Instant::now();
    let twice = cases == Cases::Many;
    let options =
        dist::Options { quick: true, twice, libraries: twice, ..dist::Options::default() };
    let outcome = dist::run(root, options);
    report.took("cargo xtask dist --quick", began.elapsed());
    let dist = match outcome {
        Ok(dist) => dist,
        Err(error) => {
            report.check("dist", Err(error));
            return None;
        }
    };
    report.check("dist", Ok(()));
    if cases == Cases::Many {
        let began = Instant::now();
        match dist::install_debian() {
            Err(error) => report.skip("package in a minimal Debian", &error.to_string()),
            Ok(()) => report.check("package in a minimal Debian", dist::try_in_debian(&dist)),
        }
        report.took("package in a minimal Debian", began.elapsed());
    }
    Some(dist.program)
}

/// Counts the instructions of operations, in a program that is compiled as the static binary is.
fn instructions(root: &Path, report: &mut Report) {
    match dist::count_instructions(root) {
        Err(error) => report.check("instructions", Err(error)),
        Ok(mut cargo) => count(report, &mut cargo, "instructions of operations"),
    }
}

fn style(root: &Path, report: &mut Report) {
    report.check("tidy", tidy::run(root));
    dependencies::check(root, report);
    let began = Instant::now();
    match MinimumRust::install() {
        Err(error) => report.skip("format, clippy and doc", &error.to_string()),
        Ok(rust) => {
            report.check("format", rust.format());
            report.check("clippy", rust.clippy());
            report.check("doc", rust.doc());
        }
    }
    report.took("format, clippy and doc", began.elapsed());
}

fn tests(root: &Path, report: &mut Report, which: &[&str], cases: Cases) {
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(which);
    set_environment(root, &mut cargo, cases);
    count(report, &mut cargo, &format!("cargo test {}", which.join(" ")));
}

/// Runs the model tests, which try many schedules of the threads of production code. In these
/// tests, a lock of the schedule explorer replaces every lock, so our crates are built separately
/// for them.
fn models(root: &Path, report: &mut Report) {
    let mut cargo = command::cargo();
    cargo.arg("test").args(MODELS);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", root.join("xtask/rustc-shuttle"));
    count(report, &mut cargo, &format!("cargo test {}", MODELS.join(" ")));
}

/// Runs a command that prints results of tests, and adds them to the report. `name` names it there.
fn count(report: &mut Report, command: &mut Command, name: &str) {
    let failed_before = report.failed();
    let began = Instant::now();
    let outcome = command::run_lines(command, |line| report.test_line(line));
    report.took(name, began.elapsed());
    match outcome {
        Err(error) => report.check(name, Err(error)),
        // A test that does not build, or a binary that dies, prints no counts of its own.
        Ok(status) if !status.success() && report.failed() == failed_before => {
            report.check(name, Err(Error::Command { line: name.to_owned(), status }));
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests;
