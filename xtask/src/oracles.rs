//! `cargo xtask oracles`: a newer xfsprogs than the machine's own, unpacked under `target/`.
//!
//! apt-get does the work, in folders of our own. It knows the machine's mirror, checks the
//! signature of the suite's index, and checks the digest of every package against that index.
//! Nothing is installed: the packages are unpacked together with the C library for which they were
//! built, and the loader of that library runs the programs. This command therefore needs no root,
//! and uses only the mirror and the keys of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

/// The Debian suite whose xfsprogs is the newest.
const SUITE: &str = "sid";

/// Returns the folder of the unpacked programs, below the workspace.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("target/oracles")
}

/// Returns a command for an unpacked program, which is started through the unpacked loader.
pub(crate) fn program(root: &Path, name: &str) -> Command {
    let unpacked = folder(root).join(format!("xfsprogs-{SUITE}/usr"));
    let architecture = std::env::consts::ARCH;
    let libraries = unpacked.join(format!("lib/{architecture}-linux-gnu"));
    let loader = match architecture {
        "x86_64" => "ld-linux-x86-64.so.2",
        _ => "ld-linux-aarch64.so.1",
    };
    let mut command = Command::new(libraries.join(loader));
    command.arg("--library-path").arg(&libraries).arg(unpacked.join("sbin").join(name));
    command
}

/// Unpacks the newer programs, unless they are there already.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let unpacked = folder(root).join(format!("xfsprogs-{SUITE}"));
    if unpacked.exists() {
        println!("already unpacked: {}", unpacked.display());
        return Ok(());
    }
    let state = folder(root).join("apt");
    for folder in ["lists/partial", "cache/archives/partial"] {
        let folder = state.join(folder);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    write(&state.join("status"), "")?;
    let mirror = mirror()?;
    write(&state.join("sources.list"), &format!("deb {mirror} {SUITE} main\n"))?;
    command::run(apt_get(&state).arg("update"))?;
    let install = ["install", "--yes", "--download-only", "xfsprogs"];
    command::run(apt_get(&state).args(install))?;
    unpack(&state.join("cache/archives"), &unpacked)?;
    fs::remove_dir_all(&state).map_err(Error::file(&state))
}

/// Returns the address of the Debian mirror in this machine's apt configuration, which may name
/// other repositories too.
fn mirror() -> Result<String, Error> {
    let arguments = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let mirrors = command::output(Command::new("apt-get").args(arguments))?;
    let is_debian = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    mirrors.lines().find(is_debian).map(str::to_owned).ok_or(Error::NoMirror)
}

/// Returns a command for apt-get with a package database of its own, in which nothing is installed.
/// apt-get therefore fetches every library that the programs need.
fn apt_get(state: &Path) -> Command {
    let mut apt_get = Command::new("apt-get");
    let state = state.display();
    let options = [
        format!("Dir::Etc::SourceList={state}/sources.list"),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State::Lists={state}/lists"),
        format!("Dir::State::status={state}/status"),
        format!("Dir::Cache={state}/cache"),
        "APT::Install-Recommends=false".to_owned(),
        "APT::Sandbox::User=".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Debug::NoLocking=true".to_owned(),
    ];
    for option in options {
        apt_get.arg("-o").arg(option);
    }
    apt_get
}

/// Unpacks all packages of the folder `archives` into `unpacked`. That folder appears only when it
/// is complete.
fn unpack(archives: &Path, unpacked: &Path) -> Result<(), Error> {
    let partial = unpacked.with_extension("partial");
    for entry in fs::read_dir(archives).map_err(Error::file(archives))? {
        let package = entry.map_err(Error::file(archives))?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            command::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&partial))?;
        }
    }
    fs::rename(&partial, unpacked).map_err(Error::file(unpacked))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file(path))
}
