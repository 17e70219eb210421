//! Guards and helpers for tests on a mount. Dropping the guard of a mount unmounts it.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{FuseRings, Geometry, Image, OracleError, ready};

/// The time limit for one run of the program, in seconds: longer than any trial takes on any
/// machine.
const PATIENCE_SECONDS: &str = "120";
const PATIENCE: Duration = Duration::from_secs(120);
/// The size of a large volume, in bytes. The unused part of the volume takes no space on the host.
const ROOM: u64 = 16 << 30;

thread_local! {
    /// Whether mounts of this thread are served through rings of io_uring.
    static RINGS: Cell<bool> = const { Cell::new(false) };
}

/// A guard: while it exists, mounts of this thread are served through rings of io_uring.
pub(crate) struct ThroughRings(());

impl ThroughRings {
    pub(crate) fn rings() -> Self {
        RINGS.set(true);
        Self(())
    }
}

impl Drop for ThroughRings {
    fn drop(&mut self) {
        RINGS.set(false);
    }
}

/// A volume in a folder of its own, and the mount point beside it.
pub(crate) struct Mounted {
    pub(crate) image: Image,
    folder: TempDir,
    /// Whether the volume is mounted, and has to be unmounted at the end.
    pub(crate) is_mounted: bool,
}

/// Makes an empty volume of the geometry `name`, without mounting it.
pub(crate) fn volume(name: &str) -> Result<Mounted, TrialError> {
    ready()?;
    if !Path::new("/dev/fuse").exists() {
        return Err(OracleError::Unavailable("the machine has no /dev/fuse".to_owned()).into());
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let geometry = Geometry::ALL.into_iter().find(|geometry| geometry.name == name).unwrap();
    let image = geometry.make(folder.path())?;
    fs::create_dir(folder.path().join("mnt")).unwrap();
    Ok(Mounted { image, folder, is_mounted: false })
}

/// Makes an empty volume of 16 GiB with ferroxfs `mkfs`, without mounting it. Every user may reach
/// its mount point.
pub(crate) fn roomy() -> Result<Mounted, TrialError> {
    let mut volume = volume("parent-exchange")?;
    // Other users may be unable to enter the folders above the build.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("mnt")).unwrap();
    volume.image.data = folder.path().join("roomy.xfs");
    File::create(&volume.image.data).unwrap().set_len(ROOM).unwrap();
    run(ferroxfs(&["mkfs", "-q"]).arg(&volume.image.data));
    volume.folder = folder;
    Ok(volume)
}

/// Returns whether long runs are wanted (`FERROXFS_LONG`). A usual run leaves them out.
pub(crate) fn is_long() -> bool {
    std::env::var_os("FERROXFS_LONG").is_some()
}

/// Skips the test if this machine does not have `program`. The message names `package`, which
/// contains the program.
pub(crate) fn needs(program: &str, package: &str) -> Result<(), TrialError> {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(OracleError::Unavailable(format!("{package} is not installed")).into())
}

/// Makes an empty volume with parent pointers, and mounts it with these options.
pub(crate) fn mounted(options: &str) -> Result<Mounted, TrialError> {
    let mut mounted = volume("parent-exchange")?;
    mounted.mount(options);
    Ok(mounted)
}

/// Returns a command that runs ferroxfs, and that is killed if it hangs.
pub(crate) fn ferroxfs(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args([PATIENCE_SECONDS, env!("CARGO_BIN_EXE_ferroxfs")]).args(arguments);
    command
}

/// Runs a command, checks that it succeeds, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Unmounts, and tries again while the mount is in use. A child process that another trial has just
/// forked may keep the mount in use: until the child executes its program, it has copies of the
/// open descriptors of this process.
pub(crate) fn umount(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = ferroxfs(&["umount"]).arg(path).output().unwrap();
        if output.status.success() {
            return;
        }
        let said = said(&output);
        assert!(said.contains("busy") && Instant::now() < deadline, "{said}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

impl Mounted {
    /// Returns the path of the mount point.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// Returns the path of the file `name` on the mount.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the path of the file `name` in the folder around the mount point. That file is not
    /// on the volume.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn mount_command(&self, options: &str) -> Command {
        let rings = if RINGS.get() { ",io_uring" } else { "" };
        let mut command = ferroxfs(&["mount", "-o", &format!("{options}{rings}")]);
        command.arg(&self.image.data).arg(self.path());
        command
    }

    pub(crate) fn mount(&mut self, options: &str) {
        let is_ringed = RINGS.get() || options.contains("io_uring");
        let _offered = is_ringed.then(|| FuseRings::on().unwrap());
        run(&mut self.mount_command(options));
        self.is_mounted = true;
    }

    pub(crate) fn unmount(&mut self) {
        umount(&self.path());
        self.is_mounted = false;
    }

    /// Kills the server, as a crash would, and removes the dead mount.
    pub(crate) fn kill(&mut self) {
        let pid = self.server();
        run(Command::new("kill").args(["-KILL", &pid]));
        self.detach();
        await_end(&pid);
    }

    /// Unmounts without waiting for the server or for users of open files.
    pub(crate) fn detach(&mut self) {
        run(Command::new("umount").arg("--lazy").arg(self.path()));
        self.is_mounted = false;
    }

    /// Returns the PID of the server.
    pub(crate) fn server(&self) -> String {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(self.path(), "ferroxfs.pid", &mut value).unwrap();
        String::from_utf8_lossy(&value[..length]).into_owned()
    }

    /// Unmounts the volume, if it is mounted, and checks it with xfs_repair.
    pub(crate) fn check(mut self) -> Result<(), TrialError> {
        if self.is_mounted {
            self.unmount();
        }
        match self.image.findings()? {
            Some(findings) => Err(TrialError::Failed(format!("xfs_repair: {findings}"))),
            None => Ok(()),
        }
    }
}

/// Waits until a ferroxfs mount is on a folder.
pub(crate) fn await_mount(folder: &Path) {
    let mut value = [0; 16];
    for _ in 0..1000 {
        if rustix::fs::getxattr(folder, "ferroxfs.pid", &mut value).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} is not mounted", folder.display());
}

/// Waits until at least `wanted` files are below a folder. The folder need not exist yet.
pub(crate) fn await_files(folder: &Path, wanted: usize) {
    let end = Instant::now() + PATIENCE;
    let mut found = 0;
    while Instant::now() < end {
        found = files(folder);
        if found >= wanted {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{found} of {wanted} files are below {}", folder.display());
}

/// Counts the files below a folder, which may change meanwhile. A directory that cannot be read
/// counts as empty.
fn files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ => 1,
    };
    entries.flatten().map(count).sum()
}

/// Waits until the process with this PID is gone.
pub(crate) fn await_end(pid: &str) {
    let folder = Path::new("/proc").join(pid);
    for _ in 0..1000 {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        // Its parent may reap it late. A process whose first thread has ended keeps its files open
        // as long as another thread runs.
        let threads = fs::read_dir(folder.join("task")).map_or(0, Iterator::count);
        if !folder.exists() || stat.contains(") Z ") && threads <= 1 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("process {pid} does not end");
}

/// A guard: while it exists, a process is stopped.
pub(crate) struct Stopped(String);

impl Stopped {
    /// Stops the process with this PID, and waits until all its threads have stopped, which is some
    /// time after the signal.
    pub(crate) fn new(process: String) -> Self {
        run(Command::new("kill").args(["-STOP", &process]));
        let stopped = Self(process);
        let tasks = Path::new("/proc").join(&stopped.0).join("task");
        let is_stopped = |task: io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        let end = Instant::now() + PATIENCE;
        while !fs::read_dir(&tasks).unwrap().all(is_stopped) {
            assert!(Instant::now() < end, "process {} does not stop", stopped.0);
            thread::sleep(Duration::from_millis(10));
        }
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // A process that has ended needs no signal.
        _ = Command::new("kill").args(["-CONT", &self.0]).stderr(Stdio::null()).status();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            let mut umount = Command::new("umount");
            // A test that failed may have left files open.
            _ = umount.arg("--lazy").arg(self.path()).stderr(Stdio::null()).status();
        }
    }
}
