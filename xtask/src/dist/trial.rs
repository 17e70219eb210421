//! Tries the Debian package in a root directory that holds nothing else: no shell, no library, no
//! /proc.
//!
//! dpkg installs the package there, each command runs with that directory as its root, and dpkg
//! removes the package again. For an ordinary user, the commands run in a user namespace in which
//! that user is root.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Dist, VERSION, package};
use crate::command;
use crate::error::Error;

/// Commands that make a volume, fill it, list it and recover it. The second part of each pair is a
/// text that the command must print.
const COMMANDS: [(&[&str], &str); 9] = [
    (&["--version"], VERSION),
    (&["mkfs", "-q", "-d", "size=300m", "/volume.xfs"], ""),
    (&["mkdir", "-p", "/volume.xfs:/a/b"], ""),
    (&["cp", "-r", "/usr/share", "/volume.xfs:/a/b"], ""),
    (&["ls", "/volume.xfs:/a/b/share/man/man8"], "mount.fuse.ferroxfs.8.gz"),
    (&["find", "/volume.xfs:/", "-name", "copyright"], "/a/b/share/doc/ferroxfs/copyright"),
    (&["scan", "--format", "csv", "/volume.xfs"], "/a/b/share/doc/ferroxfs/copyright"),
    (&["scan", "--format", "parquet", "-o", "/table.parquet", "/volume.xfs"], ""),
    (&["recover", "/volume.xfs"], "the log is clean"),
];

/// Installs the Debian package in an empty root directory, runs the commands in `COMMANDS` there,
/// and removes the package.
pub(super) fn run(dist: &Dist) -> Result<(), Error> {
    if !command::succeeds(as_root("true").stdin(Stdio::null())) {
        println!("left out: trying the package: this user gets no user namespace");
        return Ok(());
    }
    let root = dist.folder.join("root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "volumes"] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    dpkg(&root, &["--install"], Some(&dist.package))?;
    dpkg(&root, &["--verify", "ferroxfs"], None)?;
    for (arguments, expected) in COMMANDS {
        tried(&root, "/usr/bin/ferroxfs", arguments, expected)?;
    }
    helper(&root)?;
    dpkg(&root, &["--purge", "ferroxfs"], None)?;
    let left = root.join("usr");
    if left.exists() {
        return Err(Error::Dist(format!("{} is left of a removed package", left.display())));
    }
    fs::remove_dir_all(&root).map_err(Error::file(&root))
}

/// Mounts a volume through the helper of mount(8), if this machine allows mounting.
fn helper(root: &Path) -> Result<(), Error> {
    if !command::is_root() || !Path::new("/dev/fuse").exists() {
        println!("left out: mounting in the empty root: needs root and /dev/fuse");
        return Ok(());
    }
    // The kernel's interfaces are there in a mount namespace of this shell alone.
    let script = format!(
        "set -e; mkdir -p dev proc mnt; mount -t proc none proc; touch dev/fuse dev/null\n\
         for device in fuse null; do mount --bind /dev/$device dev/$device; done\n\
         chroot . /{} /volume.xfs /mnt -o rw -t fuse.ferroxfs\n\
         trap 'umount -l mnt' EXIT\n\
         test -d mnt/a/b/share && echo kept > mnt/file && test \"$(cat mnt/file)\" = kept\n\
         trap - EXIT; chroot . /usr/bin/ferroxfs umount /mnt",
        package::HELPER
    );
    let mut unshare = Command::new("unshare");
    command::run(unshare.args(["--mount", "sh", "-c", &script]).current_dir(root))?;
    tried(root, "/usr/bin/ferroxfs", &["cat", "/volume.xfs:/file"], "kept")
}

/// Runs a program with `root` as its root directory. Checks that the output contains `expected`.
fn tried(root: &Path, program: &str, arguments: &[&str], expected: &str) -> Result<(), Error> {
    let printed = command::output(as_root("chroot").arg(root).arg(program).args(arguments))?;
    if printed.contains(expected) {
        return Ok(());
    }
    let line = arguments.join(" ");
    Err(Error::Dist(format!("{program} {line} in an empty root does not print {expected}")))
}

/// Runs dpkg with a package database in `root` that contains no other package.
fn dpkg(root: &Path, action: &[&str], package: Option<&Path>) -> Result<(), Error> {
    let mut dpkg = as_root("dpkg");
    // The packages that every Debian has are not in this root.
    dpkg.arg(format!("--root={}", root.display())).args(["--log=/dev/null", "--force-depends"]);
    let path = std::env::var("PATH").unwrap_or_default();
    // An ordinary user's PATH may not lead to the programs that dpkg looks for.
    dpkg.args(action).args(package).env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command::run(&mut dpkg)
}

/// Returns a command that runs as root. An ordinary user is root in a user namespace.
fn as_root(program: &str) -> Command {
    if command::is_root() {
        return Command::new(program);
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", program]);
    unshare
}
