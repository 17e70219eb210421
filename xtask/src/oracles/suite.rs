//! A Debian suite (a release such as `sid`), from which apt-get fetches packages without installing
//! them.
//!
//! apt-get knows the machine's mirror, checks the signature of the suite's index, and checks the
//! digest of every package against that index. Nothing is installed, and no root is needed.
//!
//! Owns: apt-get's state for one suite, which the drop removes. Does **not** own: the choice of
//! packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

/// A suite of the machine's Debian mirror, with its index.
pub(super) struct Suite {
    state: PathBuf,
}

impl Suite {
    /// Fetches the index of the suite `name`. apt-get keeps its state in the folder `state`.
    pub(super) fn open(name: &str, state: &Path) -> Result<Self, Error> {
        let suite = Self { state: state.to_path_buf() };
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = state.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        }
        write(&state.join("status"), "")?;
        write(&state.join("sources.list"), &format!("deb {} {name} main\n", mirror()?))?;
        command::run(suite.apt("apt-get").arg("update"))?;
        Ok(suite)
    }

    /// Returns the names of the packages that `package` depends on. Of several alternatives, only
    /// the last is returned.
    pub(super) fn dependencies(&self, package: &str) -> Result<Vec<String>, Error> {
        let output = command::output(self.apt("apt-cache").args(["depends", package]))?;
        let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    /// Unpacks a package and everything that it needs into `folder`.
    pub(super) fn unpack_closure(&self, package: &str, folder: &Path) -> Result<(), Error> {
        let install = ["install", "--yes", "--download-only", package];
        command::run(self.apt("apt-get").args(install))?;
        unpack(&self.state.join("cache/archives"), folder)
    }

    /// Unpacks these packages, without their dependencies, into `folder`.
    pub(super) fn unpack_alone(&self, packages: &[String], folder: &Path) -> Result<(), Error> {
        let archives = self.state.join("alone");
        fs::create_dir_all(&archives).map_err(Error::file(&archives))?;
        let mut download = self.apt("apt-get");
        command::run(download.arg("download").args(packages).current_dir(&archives))?;
        unpack(&archives, folder)
    }

    /// Returns a command of apt with a package database of its own, in which nothing is installed.
    /// apt-get therefore fetches every library that the programs need.
    fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        let state = self.state.display();
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
            apt.arg("-o").arg(option);
        }
        apt
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.state) {
            eprintln!("{}: {error}", self.state.display());
        }
    }
}

/// Returns the address of the Debian mirror in this machine's apt configuration, which may name
/// other repositories too.
pub(crate) fn mirror() -> Result<String, Error> {
    let arguments = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let mirrors = command::output(Command::new("apt-get").args(arguments))?;
    let is_debian = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    mirrors.lines().find(is_debian).map(str::to_owned).ok_or(Error::NoMirror)
}

/// Unpacks all packages of the folder `archives` into `folder`.
fn unpack(archives: &Path, folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(archives).map_err(Error::file(archives))? {
        let package = entry.map_err(Error::file(archives))?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            command::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file(path))
}
