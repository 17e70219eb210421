//! `cargo xtask package`: packs every published crate as `cargo publish` would.
//!
//! Owns: the list of files that each package must or must not have. The crates are packed in the
//! order of their dependencies, and each finds the others among the packed ones. Tests stay out of
//! the packages: they need crates and data that are not published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::command;
use crate::error::Error;

/// Files that every package must contain.
const REQUIRED: [&str; 5] =
    ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "Cargo.toml.orig"];

/// Fields of `cargo metadata` that must not be empty for a published crate.
const FIELDS: [&str; 6] =
    ["categories", "description", "keywords", "license", "readme", "rust_version"];

/// How thoroughly the packages are checked.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Also compile each package as users get it; takes minutes
    #[arg(long)]
    pub(crate) long: bool,
    /// Also install the program from its package, as users do, and run it; takes minutes
    #[arg(long)]
    pub(crate) install: bool,
}

/// The package of the program.
const PROGRAM: &str = "ferroxfs-cli";

/// Packs every published crate in target/package and checks the packages.
pub(crate) fn run(root: &Path, options: Options) -> Result<(), Error> {
    let metadata = command::output(
        command::cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root),
    )?;
    let packages = published(&serde_json::from_str(&metadata)?);
    let mut findings = Vec::new();
    for package in &packages {
        findings.extend(package.missing.iter().map(|field| (package, format!("no {field}"))));
    }
    let mut cargo = command::cargo();
    // Uncommitted changes are packed too: the chore checks the tree as it is.
    cargo.args(["package", "--quiet", "--allow-dirty"]).current_dir(root);
    if !options.long {
        cargo.args(["--no-verify", "--offline"]);
    }
    for package in &packages {
        cargo.args(["--package", &package.name]);
    }
    command::run(&mut cargo)?;
    for package in &packages {
        let files = files(&root.join("target/package").join(package.archive()))?;
        findings.extend(check(&files).into_iter().map(|finding| (package, finding)));
    }
    for (package, finding) in &findings {
        println!("{}: {finding}", package.name);
    }
    println!("{} packages, {} finding(s)", packages.len(), findings.len());
    if !findings.is_empty() {
        return Err(Error::Unpublishable(findings.len()));
    }
    if options.install { install(root, &packages) } else { Ok(()) }
}

/// Installs the program from its package, and makes a volume with it. The packages replace those of
/// crates.io, where they need not be published yet. The sources of the workspace are not used.
fn install(root: &Path, packages: &[Package]) -> Result<(), Error> {
    let folder = root.join("target/package/install");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let mut patches = String::from("[patch.crates-io]\n");
    for package in packages {
        let archive = root.join("target/package").join(package.archive());
        command::run(Command::new("tar").arg("-xzf").arg(archive).current_dir(&folder))?;
        let unpacked = folder.join(package.folder());
        if package.name != PROGRAM {
            patches.push_str(&format!("{} = {{ path = {unpacked:?} }}\n", package.name));
        }
    }
    let config = folder.join("patches.toml");
    fs::write(&config, patches).map_err(Error::file(&config))?;
    let program = packages.iter().find(|package| package.name == PROGRAM);
    let program = program.expect("the program is published");
    let mut cargo = command::cargo();
    cargo.args(["install", "--debug", "--path"]).arg(folder.join(program.folder()));
    cargo.arg("--config").arg(&config).arg("--root").arg(&folder);
    // Debug information would take a gigabyte.
    cargo.args(["--config", "profile.dev.debug=false", "--target-dir"]).arg(folder.join("build"));
    command::run(cargo.current_dir(&folder))?;
    let program = folder.join("bin/ferroxfs");
    let mut mkfs = Command::new(&program);
    command::run(mkfs.args(["mkfs", "-q", "-d", "size=300m", "new.img"]).current_dir(&folder))?;
    command::run(Command::new(&program).args(["check", "new.img"]).current_dir(&folder))?;
    fs::remove_dir_all(&folder).map_err(Error::file(&folder))
}

/// A crate that is published.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    /// The fields of the list [`FIELDS`] that are empty for this crate.
    missing: Vec<&'static str>,
}

impl Package {
    /// Returns the name of the folder that the package unpacks to.
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns the file name that cargo gives the package.
    fn archive(&self) -> String {
        format!("{}.crate", self.folder())
    }
}

/// Returns the crates that are published: all without `publish = false`.
fn published(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        value => value.as_str().is_some_and(str::is_empty),
    };
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        version: text(&package["version"]),
        missing: FIELDS.into_iter().filter(|field| is_empty(&package[*field])).collect(),
    };
    published.map(package).collect()
}

/// Returns the files of a package, relative to its folder.
fn files(archive: &PathBuf) -> Result<Vec<String>, Error> {
    let list = command::quiet_output(Command::new("tar").arg("-tzf").arg(archive))?;
    let below = |line: &str| line.split_once('/').map(|(_, path)| path.to_owned());
    Ok(list.lines().filter_map(below).collect())
}

/// Returns a message for each required file that is missing from these files of a package, and for
/// each file of tests among them.
fn check(files: &[String]) -> Vec<String> {
    let is_absent = |required: &&str| !files.iter().any(|file| file == required);
    let absent = REQUIRED.into_iter().filter(is_absent).map(|file| format!("{file} is missing"));
    let is_test = |file: &&String| {
        file.split('/').any(|part| ["tests", "tests.rs", "benches", "testdata"].contains(&part))
    };
    let tests = files.iter().filter(is_test).map(|file| format!("{file} belongs to tests"));
    absent.chain(tests).collect()
}

#[cfg(test)]
mod tests;
