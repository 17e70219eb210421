//! Volumes with a dirty log from the kernel: a workload changes them through the kernel until a
//! forced shutdown.
//!
//! There are two workloads. The first one creates, links, renames, changes and removes names, and
//! sets small attributes. It writes no contents and frees no inode, so its log has no intents
//! without completions and no unlinked inodes. The second one performs every operation, and
//! unlinked files are open at the shutdown.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, XattrFlags};

use crate::agreement::AgreementRun;
use crate::error::{Context, OracleError};
use crate::geometry::{Image, sparse};
use crate::model::Features;
use crate::populate::Random;
use crate::run::run;
use crate::subject::Kernel;
use crate::xfsprogs::Xfsprogs;

/// Number of different names that the workload uses per directory.
const NAMES: usize = 40;
const DIRECTORIES: usize = 12;

/// The workload before the shutdown.
#[derive(Clone, Copy, Debug)]
pub enum CrashLoad {
    /// Names only: creates, links, renames and removes names, and sets small attributes. Frees no
    /// inode.
    Names,
    /// Operations of every kind that volumes with these features support, from a seeded history.
    Everything(Features),
}

/// A recipe for a volume with a dirty log: its mkfs options, the workload, and the kind of
/// shutdown.
#[derive(Clone, Copy, Debug)]
pub struct CrashRecipe {
    /// Name of the recipe for reports.
    pub name: &'static str,
    /// Options of mkfs.xfs.
    pub options: &'static str,
    /// Whether the log has a device of its own.
    pub external_log: bool,
    /// The workload before the shutdown.
    pub load: CrashLoad,
    /// Number of operations of the workload.
    pub operations: usize,
    /// Number of operations between two syncs.
    pub sync_every: usize,
    /// Whether the shutdown writes the log to disk first.
    pub flushes: bool,
}

impl CrashRecipe {
    /// Makes the volume in `folder`. `seed` determines the operations of the workload.
    pub fn make(&self, folder: &Path, seed: u64) -> Result<Image, OracleError> {
        let data = sparse(folder.join("crashed.xfs"), 400 << 20)?;
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.arg("-q").args(self.options.split_whitespace());
        // mkfs.xfs creates logs small enough to wrap soon only for its own tests.
        mkfs.envs(["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"].map(|name| (name, "1")));
        let log = if self.external_log {
            let log = sparse(folder.join("crashed.log"), 64 << 20)?;
            let mut option = std::ffi::OsString::from("logdev=");
            option.push(&log);
            mkfs.arg("-l").arg(option);
            Some(log)
        } else {
            None
        };
        run(mkfs.arg(&data))?;
        let image = Image { data, log, realtime: None };
        let mount = image.mount(&[])?;
        match self.load {
            CrashLoad::Names => self.change_names(mount.path(), seed)?,
            CrashLoad::Everything(features) => {
                self.change_everything(mount.path(), seed, features)?
            }
        }
        mount.unmount()?;
        Ok(image)
    }

    fn change_names(&self, path: &Path, seed: u64) -> Result<(), OracleError> {
        let root = File::open(path).context(|| path.display().to_string())?;
        let mut names = NamesLoad { root: path.to_owned(), random: Random::new(seed) };
        names.prepare()?;
        for operation in 1..=self.operations {
            names.step()?;
            if operation % self.sync_every == 0 {
                rustix::fs::syncfs(&root).context(|| "syncfs".to_owned())?;
            }
        }
        drop(root);
        self.go_down(path)
    }

    /// Performs operations of every kind, then shuts the volume down. Files that are open at that
    /// time may have been unlinked.
    fn change_everything(
        &self,
        path: &Path,
        seed: u64,
        features: Features,
    ) -> Result<(), OracleError> {
        let (mut kernel, mut run) = (Kernel::new(path), AgreementRun::new(seed, features));
        run.perform(self.operations, &mut kernel)
            .map_err(|disagreement| OracleError::Disagreement(disagreement.to_string()))?;
        self.go_down(path)
    }

    fn go_down(&self, path: &Path) -> Result<(), OracleError> {
        let how = if self.flushes { "shutdown -f" } else { "shutdown" };
        run(Command::new("xfs_io").args(["-x", "-c", how]).arg(path)).map(drop)
    }
}

struct NamesLoad {
    root: PathBuf,
    random: Random,
}

impl NamesLoad {
    fn prepare(&self) -> Result<(), OracleError> {
        for directory in 0..DIRECTORIES {
            let path = self.root.join(format!("directory-{directory}"));
            fs::create_dir(&path).context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    /// Returns the path of a random name. Names are so long that directories need blocks outside of
    /// their inodes.
    fn name(&mut self) -> PathBuf {
        let (directory, name) = (self.below(DIRECTORIES), self.below(NAMES));
        let tail = "x".repeat(name);
        self.root.join(format!("directory-{directory}/name-{name}-{tail}"))
    }

    /// Performs one operation. Many operations fail because a name exists or is missing, which does
    /// not matter.
    fn step(&mut self) -> Result<(), OracleError> {
        let (path, other) = (self.name(), self.name());
        let chosen = self.below(16);
        let value = [b'v'; 100];
        let value = value.get(..self.below(100)).unwrap_or_default();
        let mode = Mode::from_raw_mode(self.below(0o1000) as u32);
        let outcome = match chosen {
            0..=3 => rustix::fs::mknodat(CWD, &path, FileType::RegularFile, mode, 0),
            4 => rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0),
            5 => rustix::fs::symlink("a target that is in the inode", &path),
            6 => rustix::fs::mkdir(&path, mode),
            7..=8 => rustix::fs::link(&path, &other),
            9..=10 => rustix::fs::renameat_with(CWD, &path, CWD, &other, RenameFlags::NOREPLACE),
            11..=12 => rustix::fs::chmod(&path, mode),
            13 => rustix::fs::lsetxattr(&path, "user.small", value, XattrFlags::empty()),
            // The name is removed, and the file stays.
            14 => rustix::fs::link(&path, &other).and_then(|()| rustix::fs::unlink(&path)),
            _ => rustix::fs::lremovexattr(&path, "user.small"),
        };
        match outcome {
            Err(error) if is_fatal(error) => Err(error).context(|| path.display().to_string()),
            _ => Ok(()),
        }
    }
}

/// Returns whether a workload must end with this error. Errors that are only the result of random
/// names (a name exists or is missing) are not fatal.
fn is_fatal(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::IO | Errno::NOSPC | Errno::ROFS)
}
