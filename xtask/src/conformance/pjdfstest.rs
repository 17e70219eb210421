//! Runs of pjdfstest, a suite of tests of POSIX filesystem calls, on a mount of a fresh volume. The
//! suite runs as root and as an ordinary user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::record::RunResult;
use crate::command;
use crate::demo;
use crate::error::Error;

/// The version of pjdfstest that is installed if there is none under target/.
const VERSION: &str = "0.2.2";
/// The user id that runs the suite as an ordinary user.
const USER: &str = "65534";

/// The settings file of the suite. It names two users with their groups, and the features of XFS
/// that the suite does not test by default.
const SETTINGS: &str = r#"[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
stat_st_birthtime = {}

[settings]
naptime = 0.001
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Runs the suite twice, and returns a result for each user.
pub(super) fn run(root: &Path, program: Option<&Path>) -> Result<Vec<RunResult>, Error> {
    if !command::is_root() {
        return Err(Error::NotRoot("pjdfstest changes users"));
    }
    let program = match program {
        Some(program) => fs::canonicalize(program).map_err(Error::file(program))?,
        None => demo::build(root)?,
    };
    let suite = install(root)?;
    let place = std::env::temp_dir().join(format!("ferroxfs-pjdfstest-{}", std::process::id()));
    fs::create_dir(&place).map_err(Error::file(&place))?;
    let outcome = run_in(&place, &program, &suite);
    fs::remove_dir_all(&place).map_err(Error::file(&place))?;
    outcome
}

/// Returns the path of the suite. Installs the suite under target/ if it is not there.
fn install(root: &Path) -> Result<PathBuf, Error> {
    let tools = root.join("target/tools");
    let suite = tools.join("bin/pjdfstest");
    if !suite.exists() {
        let mut cargo = command::cargo();
        cargo.args(["install", "pjdfstest", "--locked", "--version", VERSION, "--root"]);
        command::run(cargo.arg(&tools))?;
    }
    Ok(suite)
}

/// Mounts a fresh volume, runs the suite on it as root and as an ordinary user, and unmounts the
/// volume even if the suite fails.
fn run_in(place: &Path, program: &Path, suite: &Path) -> Result<Vec<RunResult>, Error> {
    // The user must reach the suite, which may be below a folder that only root may enter.
    let own_suite = place.join("pjdfstest");
    fs::copy(suite, &own_suite).map_err(Error::file(suite))?;
    let settings = place.join("settings.toml");
    fs::write(&settings, SETTINGS).map_err(Error::file(&settings))?;
    let mount = place.join("mnt");
    fs::create_dir(&mount).map_err(Error::file(&mount))?;
    let image = place.join("volume.xfs");
    let ferroxfs = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    command::run(ferroxfs(&["mkfs", "-q", "-d", "size=2g"]).arg(&image))?;
    let options = "allow_other,suid,dev";
    command::run(ferroxfs(&["mount", "-o", options]).args([&image, &mount]))?;
    let results = on_mount(place, &mount);
    command::run(ferroxfs(&["umount"]).arg(&mount))?;
    results
}

fn on_mount(place: &Path, mount: &Path) -> Result<Vec<RunResult>, Error> {
    let own = mount.join("user");
    fs::create_dir(&own).map_err(Error::file(&own))?;
    let number = USER.parse().ok();
    std::os::unix::fs::chown(&own, number, number).map_err(Error::file(&own))?;
    let mut as_root = Command::new(place.join("pjdfstest"));
    let root = one(as_root.args(["-p".as_ref(), mount]).current_dir(place), place, "root")?;
    let mut as_user = Command::new("setpriv");
    as_user.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}"));
    as_user.args(["--clear-groups", "--inh-caps=-all"]).arg(place.join("pjdfstest"));
    let user = one(as_user.args(["-p".as_ref(), own.as_path()]), place, "a user")?;
    Ok(vec![root, user])
}

/// Runs the suite once, as `user`. Tests of the suite that need a second filesystem use `place`,
/// the folder that has the mount point.
fn one(suite: &mut Command, place: &Path, user: &str) -> Result<RunResult, Error> {
    suite.arg("-c").arg(place.join("settings.toml")).arg("-s").arg(place);
    let mut summary = None;
    let status = command::run_lines(suite, |line| summary = parse(line).or(summary))?;
    let line = format!("pjdfstest as {user}");
    let (failed, skipped, passed) = summary.ok_or(Error::Command { line, status })?;
    let run = format!("pjdfstest {VERSION}, {user}");
    Ok(RunResult { run, passed, skipped, failed, note: String::new() })
}

/// Returns the numbers of failed, skipped and passed tests in the summary line of the suite, or
/// `None` for another line.
fn parse(line: &str) -> Option<(u64, u64, u64)> {
    let counts = line.strip_prefix("Summary: ")?;
    let mut numbers = counts.split(", ").map(|part| {
        let (number, word) = part.split_once(' ')?;
        Some((number.parse::<u64>().ok()?, word))
    });
    let mut next = |wanted: &str| {
        let (number, word) = numbers.next()??;
        (word == wanted).then_some(number)
    };
    Some((next("failed")?, next("skipped")?, next("passed")?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn counts_are_read_from_the_summary() {
        let line = "Summary: 1 failed, 14 skipped, 384 passed, 0 expected failures, 399 total";
        assert_eq!(parse(line), Some((1, 14, 384)));
        assert_eq!(parse("Summary: none"), None);
        assert_eq!(parse("chmod::ctime ok"), None);
    }
}
