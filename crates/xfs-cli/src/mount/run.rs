//! `run`: runs a program in a volume that is mounted only as long as the program runs.
//!
//! Owns: the order of the steps, and the directory of the mount. Does **not** own: the serving
//! process ([`background`](super::background)), how a mount ends ([`umount`](super::umount)).
//!
//! ```text
//!  mkdir --> mount --> program --> sync --> unmount --> image closed --> rmdir
//!              |          '--cannot run------^  |  ^
//!              '--failed: rmdir                 '--'busy: wait, or detach after a signal
//! ```
//!
//! If this process is killed, the serving process unmounts, because its standard input ends. An
//! empty directory is left then.
//!
//! # Invariants
//!
//! - **I1** The directory is removed by rmdir(2) only. A volume that is still mounted there keeps
//!   its files.

pub(crate) mod program;
mod signals;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xfs_fuse::{FuseMountOptions, Unmount, is_mount_point, unmount};

use super::background::{ServerCommand, ServerLife, StartedServer};
use super::mount::{option_failure, option_lists};
use super::umount::{Ending, Umount, is_busy};
use super::users;
use crate::cli::{GlobalOptions, RunArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use program::ProgramEnd;
use signals::ForwardedSignals;

/// The beginning of the name of the temporary directory.
const PREFIX: &str = "ferroxfs-";
/// The interval between two attempts to unmount a volume that is in use.
const INTERVAL: Duration = Duration::from_millis(100);

struct RunProgram {
    server: ServerCommand,
    /// The directory of the mount; `None` for a temporary one.
    at: Option<PathBuf>,
    words: Vec<OsString>,
    is_lazy: bool,
}

/// The directory of the mount.
struct MountFolder {
    path: PathBuf,
    is_temporary: bool,
}

/// Parses the mount options, and returns the command, ready to run.
pub(crate) fn open(
    arguments: RunArguments,
    global: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if global.live || global.image.is_some() {
        return Err(Failure::usage("--live and --image are not for mounts"));
    }
    let RunArguments { device, at, read_only, options: given, lazy, command } = arguments;
    let mut lists = option_lists(&given, global)?;
    lists.extend(read_only.then(|| "ro".to_owned()));
    let mut options = FuseMountOptions::default();
    for list in &lists {
        if list.split(',').any(|option| option == "remount") {
            return Err(Failure::usage("-o remount is for mount"));
        }
        options.add(list).map_err(|error| option_failure(&error))?;
    }
    options.open_options().map_err(|error| option_failure(&error))?;
    let server = ServerCommand::new(&device, &lists, &options, global);
    Ok(Box::new(RunProgram { server, at, words: command, is_lazy: lazy }))
}

impl Run for RunProgram {
    fn reach(&self) -> Reach<'_> {
        self.server.reach()
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(Exit::Failed, format!("run: {error}"));
        // Before the directory and the mount exist, which a signal must not leave behind.
        let signals = ForwardedSignals::catch().map_err(failed)?;
        let folder = MountFolder::make(self.at.as_deref())?;
        let step = console.step("mounting");
        let started = self.server.start(&folder.path, ServerLife::WithStarter);
        drop(step);
        let ended = started.and_then(|server| {
            let ended = match signals.kept() {
                Some(signal) => Ok(ProgramEnd::Signal(signal)),
                None => program::run(&self.words, &folder.path, &signals),
            };
            let unmounted = self.unmount(server, &folder.path, &signals, console);
            both(ended, unmounted, console)
        });
        let removed = folder.remove();
        match (both(ended, removed, console), signals.kept()) {
            (Ok(end), _) => end.conclude(),
            // The same signal of the terminal has ended the server before it was ready.
            (Err(failure), Some(signal)) if failure.is_silent() => {
                ProgramEnd::Signal(signal).conclude();
            }
            (Err(failure), _) => return Err(failure),
        }
        Ok(())
    }
}

impl RunProgram {
    /// Unmounts the volume, and waits until its image is closed. While other processes use the
    /// volume, waits for them; with `--lazy` and after a signal detaches the mount instead.
    fn unmount(
        &self,
        mut server: StartedServer,
        folder: &Path,
        signals: &ForwardedSignals,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let umount = Umount { folder: folder.to_owned(), when: Unmount::Now, force: true };
        // The program may have unmounted it, or the server may have ended.
        if is_mounted(folder) {
            if !self.server.reads_only()
                && let Err(failure) = umount.sync(console)
            {
                console.report(&failure);
            }
            let step = console.step("unmounting");
            let detached = self.detach(&umount, signals, console)?;
            drop(step);
            if detached == Unmount::WhenUnused {
                server.release();
                return Ok(());
            }
        }
        let step = console.step("closing the image");
        let status = server.process.wait().map_err(|error| umount.failed(&error))?;
        drop(step);
        umount.judge(&if status.success() { Ending::Well } else { Ending::Badly(status) }, console)
    }

    /// Takes the mount out of the tree of files. Returns whether it still has users.
    fn detach(
        &self,
        umount: &Umount,
        signals: &ForwardedSignals,
        console: &mut Console,
    ) -> Result<Unmount, Failure> {
        let shown = names::in_message(umount.folder.as_os_str().as_bytes()).into_owned();
        let mut is_told = false;
        loop {
            match unmount(&umount.folder, Unmount::Now) {
                Ok(()) => return Ok(Unmount::Now),
                Err(error) if is_busy(&error) => {}
                Err(error) => return Err(umount.failed(&error)),
            }
            let users = match users::describe(&umount.folder) {
                found if found.is_empty() => "no visible process".to_owned(),
                found => found,
            };
            if self.is_lazy || signals.kept().is_some() {
                unmount(&umount.folder, Unmount::WhenUnused)
                    .map_err(|error| umount.failed(&error))?;
                console.note(format!(
                    "{shown}: detached while in use: {users}; its image is closed when the last \
                     of them is done"
                ));
                return Ok(Unmount::WhenUnused);
            }
            if !is_told {
                console.note(format!(
                    "{shown}: waiting for its users to end: {users}; a signal detaches the mount"
                ));
                is_told = true;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Returns whether a mount of ferroxfs is at `folder`. Sends no request to its server.
fn is_mounted(folder: &Path) -> bool {
    xfs_fuse::mounts().iter().any(|mount| mount.folder == folder)
}

/// Returns the end of the program if the next step also succeeded. If both failed, reports the
/// first failure.
fn both(
    ended: Result<ProgramEnd, Failure>,
    next: Result<(), Failure>,
    console: &mut Console,
) -> Result<ProgramEnd, Failure> {
    match (ended, next) {
        (Err(ended), Err(next)) => {
            console.report(&ended);
            Err(next)
        }
        (ended, next) => next.and(ended),
    }
}

impl MountFolder {
    /// Returns the existing directory `at`, or makes a temporary one that only this user can enter.
    fn make(at: Option<&Path>) -> Result<Self, Failure> {
        if let Some(at) = at {
            let failed = |error: io::Error| Failure::host(at.as_os_str(), &error);
            let path = at.canonicalize().map_err(failed)?;
            if is_mount_point(&path) {
                let shown = names::in_message(at.as_os_str().as_bytes());
                let failure = Failure::new(Exit::Failed, "is a mount point already").about(&shown);
                return Err(failure.hint("choose another directory"));
            }
            return Ok(Self { path, is_temporary: false });
        }
        let place = std::env::temp_dir();
        let failed = |error: io::Error| Failure::host(place.as_os_str(), &error);
        let place = place.canonicalize().map_err(failed)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place).map_err(failed)?;
        // I1: the guard would remove everything below the directory.
        Ok(Self { path: made.keep(), is_temporary: true })
    }

    /// Removes a temporary directory.
    fn remove(&self) -> Result<(), Failure> {
        if !self.is_temporary {
            return Ok(());
        }
        // I1: rmdir(2) fails if the volume is still mounted there.
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::host(self.path.as_os_str(), &error))
            }
            _ => Ok(()),
        }
    }
}
