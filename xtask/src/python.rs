//! `cargo xtask python`: checks the Python module with clippy, builds it as a wheel, installs that
//! in a fresh virtual environment, and runs its tests.
//!
//! Owns: the virtual environment, the tools and libraries in it, the steps. Does **not** own: the
//! tests (`crates/ferroxfs-py/tests`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::command;
use crate::dist;
use crate::error::Error;
use crate::minimum_rust::MinimumRust;

/// The package of the module, which is a workspace of its own.
const FOLDER: &str = "crates/ferroxfs-py";
/// The folder under target/ for everything that this chore makes.
const TARGET: &str = "target/python";
/// Packages that the tests need. Each is at a version that is known to work, or a newer one with
/// the same interface.
const PACKAGES: [&str; 8] = [
    "maturin>=1.9,<2",
    "pytest>=8",
    "pyarrow>=21",
    "polars>=1.30",
    "duckdb>=1.3",
    "fsspec>=2025.5",
    "matplotlib>=3.9",
    "mypy>=1.16",
];

/// The options of `cargo xtask python`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Build the wheel as users get it, which takes many minutes
    #[arg(long)]
    release: bool,
    /// Whether no path of this machine may be in the wheel
    #[arg(skip)]
    hides_paths: bool,
}

/// Builds, installs and tests the module.
pub(crate) fn run(root: &Path, options: Options) -> Result<(), Error> {
    let mut format = command::cargo();
    command::run(format.args(["fmt", "--check"]).current_dir(root.join(FOLDER)))?;
    MinimumRust::install()?.clippy_in(&root.join(FOLDER), &root.join(TARGET))?;
    let bin = environment(root, &PACKAGES)?;
    let wheel = build(root, &bin, options)?;
    let wheel = wheel.to_string_lossy();
    pip(&bin, &["--no-deps", wheel.as_ref()])?;
    test(root, &bin)
}

/// Builds a wheel that is handed out, without testing it. Returns its path.
pub(crate) fn wheel(root: &Path, dist: dist::Options) -> Result<PathBuf, Error> {
    let bin = environment(root, &PACKAGES[..1])?;
    build(root, &bin, Options { release: !dist.quick, hides_paths: true })
}

/// Makes a fresh virtual environment with these packages. Returns the folder of its programs.
fn environment(root: &Path, packages: &[&str]) -> Result<PathBuf, Error> {
    let environment = root.join(TARGET).join("environment");
    if environment.exists() {
        fs::remove_dir_all(&environment).map_err(Error::file(&environment))?;
    }
    let mut python = Command::new("python3");
    command::run(python.args(["-m", "venv"]).arg(&environment))?;
    let bin = environment.join("bin");
    pip(&bin, packages)?;
    Ok(bin)
}

/// Installs packages in the virtual environment with the programs `bin`.
fn pip(bin: &Path, arguments: &[&str]) -> Result<(), Error> {
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command::run(pip.args(arguments))
}

/// Builds the wheel. Returns its path.
fn build(root: &Path, bin: &Path, options: Options) -> Result<PathBuf, Error> {
    let wheels = root.join(TARGET).join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(Error::file(&wheels))?;
    }
    let profile = if options.release { "release" } else { "quick" };
    let mut maturin = Command::new(bin.join("maturin"));
    maturin.args(["build", "--quiet", "--profile", profile, "--out"]).arg(&wheels);
    maturin.arg("--interpreter").arg(bin.join("python"));
    maturin.env("CARGO_TARGET_DIR", root.join(TARGET).join("build"));
    if options.hides_paths {
        dist::hide_paths(&mut maturin, root)?;
    }
    command::run(maturin.current_dir(root.join(FOLDER)))?;
    let found = fs::read_dir(&wheels).map_err(Error::file(&wheels))?;
    let found = found.filter_map(|entry| Some(entry.ok()?.path())).next();
    found.ok_or_else(|| Error::Python(format!("maturin made no wheel in {}", wheels.display())))
}

/// Runs the tests, the examples in the documentation, and the check of types.
fn test(root: &Path, bin: &Path) -> Result<(), Error> {
    let folder = root.join(FOLDER);
    let mut pytest = Command::new(bin.join("python"));
    pytest.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "tests"]);
    command::run(pytest.current_dir(&folder))?;
    let mut doctests = Command::new(bin.join("python"));
    let program = "import doctest, sys, ferroxfs, ferroxfs.fsspec as fsspec\n\
                   failed = [doctest.testmod(it).failed for it in (ferroxfs, fsspec)]\n\
                   sys.exit(sum(failed))";
    command::run(doctests.args(["-c", program]).current_dir(root.join(TARGET)))?;
    let mut guide = Command::new(bin.join("python"));
    guide.arg(folder.join("tests/guide.py")).arg(root.join("docs/guide/python.md"));
    command::run(guide.current_dir(root.join(TARGET)))?;
    let mut mypy = Command::new(bin.join("mypy"));
    mypy.args(["--no-error-summary", "--cache-dir"]).arg(root.join(TARGET).join("mypy"));
    command::run(
        mypy.args(["--config-file", "pyproject.toml", "python/ferroxfs"]).current_dir(folder),
    )
}
