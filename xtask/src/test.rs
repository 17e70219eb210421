//! `cargo xtask test`: every check and every test of the project, in one run.
//!
//! All checks run even when an early one fails, so that one run shows everything there is to
//! mend. The last line printed is the count, alone on its line.

use std::path::Path;
use std::process::Command;

use crate::command;
use crate::demo;
use crate::error::Error;
use crate::oracles;
use crate::packages;
use crate::report::Report;
use crate::tidy;

/// What is tested once more with atomic writes and locks counted by scope.
const COUNTING: [&str; 15] = [
    "--lib",
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
    "--features",
    "xfs-sync/count,xfs-buffer/count,xfs-log/count,xfs-trans/count,xfs-alloc/count,ferroxfs/count",
];

/// Whole operations, of which as much is counted.
const COUNTING_OPERATIONS: [&str; 7] =
    ["-p", "xfs-workload", "--test", "it", "--features", "count", "counted::"];

/// What is tested under a schedule explorer.
const MODELS: [&str; 10] =
    ["--lib", "-p", "xfs-sync", "-p", "xfs-locks", "-p", "xfs-log", "-p", "ferroxfs", "model::"];

/// The oldest Rust that builds the workspace.
const MINIMUM_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// How many cases are tried where each takes long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cases {
    /// As many as every run can afford.
    Some,
    /// As many as it takes to believe.
    Many,
}

/// Runs everything and prints the report.
pub(crate) fn run(root: &Path, cases: Cases) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(Error::file(root))?;
    let mut report = Report::default();
    packages::install(&mut report);
    report.check("tidy", tidy::run(root));
    report.check("format", command::run(command::cargo().args(["fmt", "--all", "--check"])));
    report.check("clippy", clippy());
    report.check("doc", doc());
    if let Err(error) = oracles::run(root) {
        report.skip("tests that need the newest xfsprogs", &error.to_string());
    }
    tests(root, &mut report, &["--workspace"], cases);
    report.check("demo", demo::run(root));
    tests(root, &mut report, &COUNTING, Cases::Some);
    tests(root, &mut report, &COUNTING_OPERATIONS, Cases::Some);
    models(&mut report);
    minimum_rust(&mut report);
    println!();
    println!("{report}");
    if report.failed() == 0 { Ok(()) } else { Err(Error::TestsFailed) }
}

/// Warnings are errors with the oldest Rust that Cargo.toml promises. A newer one may warn of more than
/// anybody could know.
fn clippy() -> Result<(), Error> {
    let mut clippy = command::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--quiet"]);
    if is_minimum_rust() {
        clippy.args(["--", "-D", "warnings"]);
    }
    command::run(&mut clippy)
}

fn doc() -> Result<(), Error> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
    let flags = if is_minimum_rust() { "-D warnings" } else { "" };
    command::run(command::cargo().args(arguments).env("RUSTDOCFLAGS", flags))
}

/// Whether the toolchain that runs us is the oldest one that Cargo.toml promises.
fn is_minimum_rust() -> bool {
    let running = command::output(command::cargo().arg("--version")).unwrap_or_default();
    let running = running.split(' ').nth(1).unwrap_or_default();
    let rest = running.strip_prefix(MINIMUM_RUST);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn tests(root: &Path, report: &mut Report, which: &[&str], cases: Cases) {
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(which);
    cargo.env("FERROXFS_ORACLES", oracles::folder(root));
    if cases == Cases::Many {
        cargo.env("FERROXFS_LONG", "1");
    }
    count(report, &mut cargo, which);
}

/// The tests that try the schedules of real code: every lock belongs to the schedule explorer, so
/// they are a build of their own.
fn models(report: &mut Report) {
    let mut cargo = command::cargo();
    cargo.args(["test", "--target-dir", "target/model"]).args(MODELS);
    cargo.env("RUSTFLAGS", "--cfg shuttle");
    count(report, &mut cargo, &MODELS);
}

fn count(report: &mut Report, cargo: &mut Command, which: &[&str]) {
    let failed_before = report.failed();
    let outcome = command::run_lines(cargo, |line| report.test_line(line));
    match outcome {
        Err(error) => report.check("cargo test", Err(error)),
        // A test that does not build, or a binary that dies, prints no counts of its own.
        Ok(status) if !status.success() && report.failed() == failed_before => {
            let line = format!("cargo test {}", which.join(" "));
            report.check("cargo test", Err(Error::Command { line, status }));
        }
        Ok(_) => {}
    }
}

/// The oldest Rust that Cargo.toml promises must build the workspace. Where the toolchain that
/// runs us is that very version, clippy has just shown it.
fn minimum_rust(report: &mut Report) {
    if is_minimum_rust() {
        println!("this toolchain is the minimum one, Rust {MINIMUM_RUST}");
        report.check("minimum Rust", Ok(()));
        return;
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", MINIMUM_RUST, "--profile", "minimal"]);
    if let Err(error) = command::run(&mut install) {
        report.skip("minimum Rust", &error.to_string());
        return;
    }
    let mut check = Command::new("rustup");
    check.args(["run", MINIMUM_RUST, "cargo", "check", "--workspace", "--quiet"]);
    // Cargo's own variables name the running toolchain and would win over the one asked for.
    check.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    check.args(["--target-dir", "target/minimum-rust"]);
    report.check("minimum Rust", command::run(&mut check));
}
