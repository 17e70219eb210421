//! Examples for administrators, from `packaging/examples`: units of systemd, a line for fstab and
//! rules for udev. The Debian package has them among its documents.
//!
//! Owns: the list of the examples, and the check by systemd-analyze and udevadm. Does **not** own:
//! the check that the line for fstab mounts (`xtask/src/dist/debian.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Dist, write};
use crate::command;
use crate::error::Error;

/// The folder of the examples in the checkout.
const FOLDER: &str = "packaging/examples";
/// The path of the program in the examples.
const PROGRAM: &str = "/usr/bin/ferroxfs";
/// The instance of template units that is checked: the path `/srv/disk.img`.
const INSTANCE: &str = "@srv-disk.img.";

/// Returns the paths of all examples, in the order of their names.
pub(super) fn paths(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = root.join(FOLDER);
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
        paths.push(entry.map_err(Error::file(&folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Checks the units and the rules, with the programs that this machine has.
pub(super) fn check(root: &Path, dist: &Dist) -> Result<(), Error> {
    let folder = dist.folder.join("examples");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let mut units = Vec::new();
    let mut rules = Vec::new();
    for path in paths(root)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        // The package is not installed on this machine, so the units name the program of `dist`.
        let program = dist.program.to_string_lossy();
        write(&folder.join(&name), &text.replace(PROGRAM, &program))?;
        match name.rsplit_once('.') {
            Some((_, "rules")) => rules.push(name),
            Some(_) => units.push(name),
            None => {}
        }
    }
    check_units(&folder, &units)?;
    check_rules(&folder, &rules)?;
    fs::remove_dir_all(&folder).map_err(Error::file(&folder))
}

/// Lets systemd-analyze check the units. A message is a fault, also where the exit code is 0.
fn check_units(folder: &Path, units: &[String]) -> Result<(), Error> {
    if !command::is_in_path("systemd-analyze") {
        println!("left out: the check of units: systemd-analyze is not installed");
        return Ok(());
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["verify", "--man=no"]).current_dir(folder);
    for unit in units {
        analyze.arg(format!("./{}", unit.replace("@.", INSTANCE)));
    }
    silent(&mut analyze, "units")
}

/// Lets udevadm check the rules, if this udevadm can: it can since version 254 of systemd.
fn check_rules(folder: &Path, rules: &[String]) -> Result<(), Error> {
    if !command::succeeds(Command::new("udevadm").args(["verify", "--help"])) {
        println!("left out: the check of rules of udev: this machine has no `udevadm verify`");
        return Ok(());
    }
    let mut udevadm = Command::new("udevadm");
    udevadm
        .args(["verify", "--no-summary", "--resolve-names=never"])
        .args(rules)
        .current_dir(folder);
    silent(&mut udevadm, "rules")
}

/// Runs a program that prints a line for each fault, and nothing else.
fn silent(program: &mut Command, what: &str) -> Result<(), Error> {
    let Output { status, stdout, stderr } = command::whole_output(program)?;
    let printed = [stdout, stderr].concat();
    if status.success() && printed.is_empty() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&printed).trim().to_owned();
    Err(Error::Dist(format!("the {what} in {FOLDER}: {status}: {printed}")))
}
