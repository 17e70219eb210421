//! `cargo xtask demo`: the main job, on volumes made here and now, as an ordinary user.
//!
//! Owns: what is shown, and that it came out right. Every command is printed before it runs, so that a
//! reader can type it. Only `xfs_repair`, the judge, is not ours.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::{oracles, packages};

/// The command line that is built here.
const FERROXFS: &str = "target/debug/ferroxfs";
/// Where the demo leaves what it makes.
const FOLDER: &str = "target/demo";
/// With this in the environment two runs give the same bytes.
const EPOCH: (&str, &str) = ("SOURCE_DATE_EPOCH", "1700000000");

/// Options of mkfs for volumes that an xfs_repair of some years knows.
const KNOWN: [&str; 4] = ["-i", "exchange=0", "-n", "parent=0"];

/// Makes a volume of a tree, twice; has it judged; looks at it, changes it, takes it out and compares.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(Error::file(root))?;
    command::run(command::cargo().args([
        "build",
        "--target-dir",
        "target",
        "--package",
        "xfs-cli",
    ]))?;
    let folder = Path::new(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::file(folder))?;
    }
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    build()?;
    look()?;
    change()?;
    mount()?;
    check(root)?;
    take_out()?;
    convert()
}

/// The documents become a volume, twice, with the same bytes.
fn build() -> Result<(), Error> {
    say(&format!(
        "Make a volume of a tree, without root. {}={} makes it the same each time.",
        EPOCH.0, EPOCH.1
    ));
    for image in ["target/demo/first.xfs", "target/demo/second.xfs"] {
        let source = ["-L", "demo", "-d", "size=300m", "--all-root", "--from", "docs", image];
        ferroxfs(&[&["mkfs", "-q"][..], &KNOWN, &source].concat())?;
    }
    command::run(Command::new("cmp").args(["target/demo/first.xfs", "target/demo/second.xfs"]))?;
    println!("the same, byte for byte");
    Ok(())
}

fn look() -> Result<(), Error> {
    say("Look at it.");
    ferroxfs(&["info", "target/demo/first.xfs"])?;
    ferroxfs(&["tree", "target/demo/first.xfs"])?;
    let columns = "ino,type,mode,size,blocks,paths";
    ferroxfs(&["scan", "--format", "table", "--fields", columns, "target/demo/first.xfs"])
}

fn change() -> Result<(), Error> {
    say("Change it: each command is a transaction, durable on exit.");
    let inside = |path: &str| format!("target/demo/first.xfs:{path}");
    ferroxfs(&["mkdir", "-p", &inside("/var/made")])?;
    ferroxfs(&["cp", "README.md", &inside("/var/made")])?;
    ferroxfs(&["ln", "-s", "made/README.md", &inside("/var/read-me-first")])?;
    ferroxfs(&["setfattr", "-n", "user.origin", "-v", "docs", &inside("/var/made/README.md")])?;
    ferroxfs(&["setfacl", "-m", "u:1000:rw", &inside("/var/made/README.md")])?;
    ferroxfs(&["mv", &inside("/adr"), &inside("/decisions")])?;
    ferroxfs(&["ls", "-la", &inside("/"), &inside("/var/made")])?;
    ferroxfs(&["getfacl", &inside("/var/made/README.md")])
}

/// Works on it as on any filesystem, where the machine lets us mount.
fn mount() -> Result<(), Error> {
    say("Mount it, work on it, and unmount it.");
    if let Some(reason) = no_mount() {
        println!("left out: {reason}");
        return Ok(());
    }
    let point = Path::new("target/demo/mnt");
    fs::create_dir(point).map_err(Error::file(point))?;
    // What is in the volume belongs to root; on the mount it belongs to whoever runs this.
    let owner = fs::metadata(point).map_err(Error::file(point))?;
    let options = format!("uid={},gid={}", owner.uid(), owner.gid());
    ferroxfs(&["mount", "-o", &options, "target/demo/first.xfs", "target/demo/mnt"])?;
    let worked = work_on_mount();
    ferroxfs(&["umount", "target/demo/mnt"])?;
    worked?;
    ferroxfs(&["ls", "-l", "target/demo/first.xfs:/var/copied"])
}

/// Why there is no mounting here, if so.
fn no_mount() -> Option<String> {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        return Some(format!("/dev/fuse: {error}"));
    }
    let has_helper = command::succeeds(Command::new("fusermount3").arg("-V"));
    (!command::is_root() && !has_helper).then(|| "fusermount3 is not installed".to_owned())
}

fn work_on_mount() -> Result<(), Error> {
    command::run(Command::new("cp").args(["-r", "docs", "target/demo/mnt/var/copied"]))?;
    command::run(Command::new("diff").args(["-r", "docs", "target/demo/mnt/var/copied"]))?;
    command::run(Command::new("df").args(["-h", "target/demo/mnt"]))?;
    ferroxfs(&["stats", "target/demo/mnt"])
}

/// Has the program of those who made XFS judge the volume that was changed.
fn check(root: &Path) -> Result<(), Error> {
    say("Have it checked by xfs_repair.");
    command::run(repair(root)?.args(["-n", "target/demo/first.xfs"]))
}

fn take_out() -> Result<(), Error> {
    say("Take everything out again, and compare.");
    ferroxfs(&["cp", "-r", "target/demo/second.xfs", "target/demo/back"])?;
    command::run(Command::new("diff").args(["-r", "docs", "target/demo/back"]))?;
    println!("what went in came out the same");
    Ok(())
}

/// Through an archive into another volume.
fn convert() -> Result<(), Error> {
    say("Make a tar archive of it, and a volume of that.");
    ferroxfs(&["tar", "-o", "target/demo/first.tar", "target/demo/first.xfs"])?;
    let source = ["-d", "size=300m", "--from", "target/demo/first.tar", "target/demo/third.xfs"];
    ferroxfs(&[&["mkfs", "-q"][..], &KNOWN, &source].concat())?;
    ferroxfs(&["cat", "target/demo/third.xfs:/decisions/0001-layers.md"])
}

fn say(text: &str) {
    println!("\n# {text}");
}

fn ferroxfs(arguments: &[&str]) -> Result<(), Error> {
    command::run(Command::new(FERROXFS).args(arguments).env(EPOCH.0, EPOCH.1))
}

/// xfs_repair of this machine, installed if need be; where we may not install it, one that is only
/// unpacked.
fn repair(root: &Path) -> Result<Command, Error> {
    if let Some(installed) = installed_repair() {
        return Ok(installed);
    }
    if command::is_root() && packages::apt_get_install(&["xfsprogs"]).is_ok() {
        return installed_repair().ok_or(Error::NoRepair);
    }
    oracles::run(root)?;
    Ok(oracles::program(root, "xfs_repair"))
}

/// An ordinary user's PATH may not lead to it.
fn installed_repair() -> Option<Command> {
    let elsewhere = "/usr/sbin/xfs_repair";
    let program = if command::is_in_path("xfs_repair") { "xfs_repair" } else { elsewhere };
    let runs = command::succeeds(Command::new(program).arg("-V"));
    runs.then(|| Command::new(program))
}
