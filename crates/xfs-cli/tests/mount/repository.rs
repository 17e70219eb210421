//! A test of Git on a mount whose server is killed: data that was committed and synced must be
//! there after the next mount.
//!
//! Git syncs every file but no directory. So the last change of a name becomes durable only with
//! the sync of the next file, and the last acknowledged commit may be missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use xfs_oracle::harness::TrialError;

use crate::mounted::{Mounted, await_files, is_long, needs, roomy, run};

/// The folder whose files are the initial contents of the repository.
const TREE: &str = "/usr/share/perl";
/// The numbers of commits that are acknowledged before the server is killed, one for each round.
const COMMITS: [u64; 5] = [11, 3, 27, 50, 8];

pub(crate) fn repository_keeps_its_commits() -> Result<(), TrialError> {
    needs("git", "git")?;
    let mut volume = roomy()?;
    volume.mount("rw");
    let source = volume.outside("source");
    run(Command::new("cp").arg("-a").arg(TREE).arg(&source));
    run(git(&source).args(["init", "-q"]));
    run(git(&source).args(["add", "."]));
    run(git(&source).args(["commit", "-q", "-m", "all"]));
    let clone = volume.at("clone");
    run(git(&source).args(["clone", "-q", "--no-local", "."]).arg(&clone));
    run(git(&clone).args(["fsck", "--strict"]));
    run(git(&clone).args(["repack", "-adq"]));
    run(git(&clone).args(["fsck", "--strict"]));
    run(Command::new("sync").arg(clone.join(".git/objects/pack")));
    kill_a_clone(&mut volume, &source);
    for (round, until) in COMMITS.into_iter().take(if is_long() { 5 } else { 2 }).enumerate() {
        let before = commits(&clone);
        let acknowledged = commit_until_killed(&mut volume, &clone, until);
        volume.mount("rw");
        // The process that held these is gone.
        for lock in ["index.lock", "HEAD.lock", "refs/heads/master.lock", "gc.pid"] {
            let _ = fs::remove_file(clone.join(".git").join(lock));
        }
        run(git(&clone).args(["fsck", "--strict"]));
        let after = commits(&clone);
        let least = before + acknowledged - 1;
        assert!(after >= least, "round {round}: {after} of at least {least} commits are left");
        run(git(&clone).args(["reset", "-q", "--hard"]));
        assert_eq!(run(git(&clone).args(["status", "--porcelain"])), "");
    }
    volume.check()
}

/// Kills the server while the repository `source` is cloned to the mount. Checks that an earlier,
/// complete clone is still intact, and that a new clone succeeds.
fn kill_a_clone(volume: &mut Mounted, source: &Path) {
    let half = volume.at("half");
    let mut command = git(source);
    let child = command.args(["clone", "-q", "--no-local", "."]).arg(&half);
    let mut child = child.stderr(Stdio::null()).spawn().unwrap();
    await_files(&half, 15);
    volume.kill();
    child.wait().unwrap();
    volume.mount("rw");
    run(git(&volume.at("clone")).args(["fsck", "--strict"]));
    run(Command::new("rm").arg("-rf").arg(&half));
    run(git(source).args(["clone", "-q", "--no-local", "."]).arg(&half));
    run(git(&half).args(["fsck", "--strict"]));
}

/// Makes commits, and kills the server when `until` of them are acknowledged. Returns the number of
/// acknowledged commits.
fn commit_until_killed(volume: &mut Mounted, clone: &Path, until: u64) -> u64 {
    const SCRIPT: &str = "number=0; while number=$((number + 1)); do
        echo $number >> file$((number % 7)) && \"$@\" add . &&
        \"$@\" commit -q -m $number && echo $number || exit; done";
    let git = git(clone);
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT, "sh", "git"]).args(git.get_args()).current_dir(clone);
    let mut shell = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut acknowledged = 0;
    for line in BufReader::new(shell.stdout.take().unwrap()).lines() {
        acknowledged = line.unwrap().parse().unwrap();
        if acknowledged == until {
            volume.kill();
        }
    }
    shell.wait().unwrap();
    assert!(acknowledged >= until, "{acknowledged} commits");
    acknowledged
}

fn commits(clone: &Path) -> u64 {
    run(git(clone).args(["rev-list", "--count", "HEAD"])).trim().parse().unwrap()
}

/// Returns a command that runs Git with all syncs enabled, whatever the configuration of the
/// machine.
fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nonexistent");
    for setting in [
        "core.fsync=all",
        "core.fsyncMethod=fsync",
        "gc.auto=0",
        "init.defaultBranch=master",
        "user.name=Nobody",
        "user.email=nobody@localhost",
    ] {
        git.args(["-c", setting]);
    }
    git
}
