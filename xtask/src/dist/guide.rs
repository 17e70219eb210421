//! The profile that guides the compiler: how often each branch of the program runs.
//!
//! Owns: an instrumented program, the work that it does, and the profile of that work. Does **not**
//! own: the build that the profile guides ([`super::binary`]).
//!
//! ```text
//!  instrumented program ─ work ─→ raw counts ─ llvm-profdata ─→ profile ─→ guided build
//! ```
//!
//! The compiler lays code out by the profile, and inlines what runs often (docs/adr/0019). Counts
//! differ from run to run, so only builds with one profile are the same byte for byte. The profile
//! is therefore one of the files that `dist` makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Options, binary};
use crate::command;
use crate::error::Error;

/// The folder of the profile, below `target`.
const FOLDER: &str = "guide";

/// The name of the profile in its folder.
const PROFILE: &str = "ferroxfs.profdata";

/// The component of the toolchain that contains `llvm-profdata`.
const COMPONENT: &str = "llvm-tools";

/// The work that the instrumented program does. `TREE` stands for a folder with files. The files
/// that it makes are in a folder of their own. The program gives up no rights: it writes its counts
/// when it ends.
const WORK: [&[&str]; 9] = [
    &["bench", WORKLOADS, "--files", "20000", "--threads", "2", "--runs", "1", "--no-before"],
    &["mkfs", "--from", "TREE", "-d", "size=auto", "tree.img"],
    &["check", "tree.img"],
    &["scan", "tree.img", "--output", "tree.parquet"],
    &["scan", "tree.img", "--output", "tree.ndjson"],
    &["tar", "tree.img", "--output", "tree.tar"],
    &["mkfs", "--from", "tree.tar", "-d", "size=1g", "again.img"],
    &["cp", "--archive", "again.img:/", "copy"],
    &["rm", "--recursive", "again.img:/xfs-format"],
];

const WORKLOADS: &str = "create,walk,chmod,bulkstat,unlink,open,commit,fsmark";

/// Returns the path of the profile in the checkout `root`.
pub(super) fn path(root: &Path) -> PathBuf {
    root.join("target").join(FOLDER).join(PROFILE)
}

/// Returns the profile for a build with these options: a new one, or that of the last call. `None`
/// if no profile guides this build.
pub(super) fn profile(root: &Path, options: Options) -> Result<Option<PathBuf>, Error> {
    let path = path(root);
    if options.quick || options.unguided {
        return Ok(None);
    }
    if options.same_profile {
        return match path.is_file() {
            true => Ok(Some(path)),
            false => Err(Error::Dist(format!("{}: does not exist", path.display()))),
        };
    }
    measure(root, &path)?;
    Ok(Some(path))
}

/// Builds the instrumented program, lets it work, and merges its counts into `profile`.
fn measure(root: &Path, profile: &Path) -> Result<(), Error> {
    let tool = profdata()?;
    let program = binary::build_instrumented(root, &root.join("target").join(FOLDER))?;
    let place = root.join("target").join(FOLDER).join("work");
    if place.exists() {
        fs::remove_dir_all(&place).map_err(Error::file(&place))?;
    }
    fs::create_dir_all(&place).map_err(Error::file(&place))?;
    let counts = place.join("counts");
    let tree = root.join("crates");
    for arguments in WORK {
        let mut command = Command::new(&program);
        for argument in arguments {
            match *argument {
                "TREE" => command.arg(&tree),
                argument => command.arg(argument),
            };
        }
        command.args(["--sandbox", "never"]);
        command.env("LLVM_PROFILE_FILE", counts.join("%p-%m.profraw"));
        command::output(command.current_dir(&place))?;
    }
    check_counts(&counts)?;
    let mut merge = Command::new(tool);
    command::run(merge.arg("merge").arg("--output").arg(profile).arg(&counts))?;
    fs::remove_dir_all(&place).map_err(Error::file(&place))
}

/// Checks that each run of the program has written its counts.
fn check_counts(counts: &Path) -> Result<(), Error> {
    let mut written = 0;
    for entry in fs::read_dir(counts).map_err(Error::file(counts))? {
        let file = entry.and_then(|entry| entry.metadata()).map_err(Error::file(counts))?;
        written += usize::from(file.len() > 0);
    }
    match written >= WORK.len() {
        true => Ok(()),
        false => Err(Error::Dist(format!("{written} of {} runs wrote their counts", WORK.len()))),
    }
}

/// Returns the path of the toolchain's `llvm-profdata`. Only the one of the compiler's own version
/// can surely read the counts.
fn profdata() -> Result<PathBuf, Error> {
    let printed = command::output(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let libraries = PathBuf::from(printed.trim());
    let tool = libraries.join("../bin/llvm-profdata");
    if !tool.exists() {
        command::run(Command::new("rustup").args(["component", "add", COMPONENT]))?;
    }
    match tool.exists() {
        true => Ok(tool),
        false => Err(Error::Dist(format!(
            "{}: does not exist; --unguided builds without it",
            tool.display()
        ))),
    }
}

/// Copies the profile of the checkout `root` into another checkout.
pub(super) fn copy(root: &Path, other: &Path) -> Result<(), Error> {
    let (from, to) = (path(root), path(other));
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    fs::copy(&from, &to).map(drop).map_err(Error::file(&from))
}
