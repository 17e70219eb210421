//! A test that copies a tree to a mount and back with rsync, including everything that rsync can
//! copy, and kills the server in between.
//!
//! With `FERROXFS_LONG=1` all of /usr is copied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xfs_oracle::harness::TrialError;

use crate::mounted::{Mounted, await_files, is_long, needs, roomy, run};

/// The options with which rsync copies everything that it can.
const ALL: &str = "-aHAX";

pub(crate) fn rsync_finds_no_difference() -> Result<(), TrialError> {
    needs("rsync", "rsync")?;
    let mut volume = roomy()?;
    volume.mount("rw");
    let from = if is_long() { PathBuf::from("/usr") } else { tree(&volume) };
    let to = volume.at("copy");
    let mut copy = rsync(&["--fsync"], &from, &to);
    let mut copying = copy.stderr(Stdio::null()).spawn().unwrap();
    await_files(&to, if is_long() { 10_000 } else { 500 });
    volume.kill();
    assert!(!copying.wait().unwrap().success(), "it was copied before the server was killed");

    volume.mount("rw");
    // A file gets its name when it is synced.
    let said = run(&mut rsync(&["-n", "-i", "--checksum"], &from, &to));
    let torn: Vec<_> = said.lines().filter(|line| line.starts_with(">fc")).collect();
    assert!(torn.is_empty(), "{torn:#?}");
    let missing = said.lines().filter(|line| line.starts_with(">f+")).count();
    assert!(missing > 0, "nothing was left to copy");

    run(&mut rsync(&["--delete"], &from, &to));
    assert_same(&from, &to);
    volume.unmount();
    volume.mount("rw");
    assert_same(&from, &to);
    let back = volume.outside("back");
    run(&mut rsync(&[], &to, &back));
    assert_same(&from, &back);
    if !is_long() {
        // Not from elsewhere: on XFS root sees a list twice, the second time as
        // trusted.SGI_ACL_FILE.
        let second = volume.at("second");
        run(Command::new("setfacl").args(["-m", "u:1:rwx,g:2:r"]).arg(to.join("file")));
        run(&mut rsync(&[], &to, &second));
        assert_same(&to, &second);
    }
    volume.check()
}

/// Checks with rsync that two trees are the same. Contents are compared too, except in a long run,
/// where that would take too long.
fn assert_same(from: &Path, to: &Path) {
    let contents: &[&str] = if is_long() { &[] } else { &["--checksum"] };
    let options = [&["-n", "--delete", "-i"], contents].concat();
    assert_eq!(run(&mut rsync(&options, from, to)), "");
}

fn rsync(options: &[&str], from: &Path, to: &Path) -> Command {
    let mut rsync = Command::new("rsync");
    rsync.arg(ALL).args(options).arg(from.join("")).arg(to.join(""));
    rsync
}

/// Makes a tree with some thousand files, and with one file of each other kind.
fn tree(volume: &Mounted) -> PathBuf {
    let tree = volume.outside("tree");
    run(Command::new("cp").args(["-a", "/usr/share/perl"]).arg(&tree));
    let at = |name: &str| tree.join(name);
    fs::write(at("file"), "contents").unwrap();
    fs::hard_link(at("file"), at("second name")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
    File::create(at("sparse")).unwrap().set_len(4 << 20).unwrap();
    run(Command::new("mkfifo").arg(at("fifo")));
    run(Command::new("mknod").arg(at("device")).args(["c", "1", "3"]));
    run(Command::new("setfattr").args(["-n", "user.name", "-v", "value"]).arg(at("file")));
    run(Command::new("setfattr").args(["-n", "trusted.name", "-v", "value"]).arg(at("fifo")));
    run(Command::new("chmod").arg("6755").arg(at("sparse")));
    tree
}
