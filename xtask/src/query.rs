//! `cargo xtask query`: checks `ferroxfs-query` with clippy, builds and tests it, and tries its
//! reports in four engines.
//!
//! Owns: the virtual environment, the programs in it, the steps. Does **not** own: the tests and
//! the trial (`crates/ferroxfs-query/tests`).

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::command;
use crate::error::Error;
use crate::minimum_rust::MinimumRust;
use crate::packages;

/// The package of the program, which is a workspace of its own.
const FOLDER: &str = "crates/ferroxfs-query";
/// The folder under target/ for everything that this chore makes.
const TARGET: &str = "target/query";
/// The engines of the trial, and the library that reads Parquet. Each is at a version that is known
/// to work, or a newer one with the same interface.
const PACKAGES: [&str; 4] = ["chdb>=4", "duckdb>=1.4", "pyarrow>=21", "pyspark>=4"];

/// The options of `cargo xtask query`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The seed of the trial: its volumes, changes and killed workers
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Installs Java, which Spark needs, as root. Without root, the error names the package.
pub(crate) fn install() -> Result<(), Error> {
    const JAVA: &str = "default-jre-headless";
    if command::is_in_path("java") {
        return Ok(());
    }
    if !command::is_root() {
        return Err(Error::Missing { program: "java", package: JAVA });
    }
    packages::apt_get_install(&[JAVA])
}

/// Builds, tests and tries the program.
pub(crate) fn run(root: &Path, options: Options) -> Result<(), Error> {
    install()?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = command::cargo();
        cargo.args(arguments).current_dir(root.join(FOLDER));
        cargo.env("CARGO_TARGET_DIR", root.join(TARGET).join("build"));
        command::run(&mut cargo)
    };
    cargo(&["fmt", "--check"])?;
    MinimumRust::install()?.clippy_in(&root.join(FOLDER), &root.join(TARGET))?;
    cargo(&["build", "--quiet"])?;
    cargo(&["test", "--quiet"])?;
    let mut ferroxfs = command::cargo();
    command::run(ferroxfs.args(["build", "--quiet", "-p", "ferroxfs-cli"]).current_dir(root))?;
    trial(root, options)
}

/// Makes a dataset, and runs every report in every engine.
fn trial(root: &Path, options: Options) -> Result<(), Error> {
    let target = root.join(TARGET);
    let environment = target.join("environment");
    let mut python = Command::new("python3");
    // Packages that are installed there already stay.
    command::run(python.args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command::run(pip.args(PACKAGES))?;
    let mut trial = Command::new(&python);
    trial.arg(root.join(FOLDER).join("tests/engines/trial.py"));
    trial.arg(root.join("target/debug/ferroxfs"));
    trial.arg(target.join("build/debug/ferroxfs-query"));
    command::run(trial.arg(target.join("trial")).arg(options.seed.to_string()))
}
