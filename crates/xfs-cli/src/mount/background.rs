//! The start of a process that serves a mount in the background.
//!
//! The started process is ferroxfs itself. It reports on its standard output that the mount is
//! ready. If it fails, it prints the message itself, and the starting process exits with the same
//! code. The program starts a new process instead of forking, because a fork would lose threads
//! that may be running already.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xfs_fuse::FuseMountOptions;

use crate::cli::GlobalOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::sandbox::Reach;

/// The message with which the serving process reports that the mount is ready.
pub(super) const READY: &[u8] = b"ready\n";
/// The message with which the serving process reports that the mount is ready, and that parts of a
/// damaged volume cannot be read.
pub(super) const PARTIAL: &[u8] = b"parts\n";
const _: () = assert!(READY.len() == PARTIAL.len());

/// The byte on standard input of a serving process that lets its mount outlive the process that
/// started it.
const RELEASE: &[u8] = b".";

/// The command line of a process that serves a mount.
pub(super) struct ServerCommand {
    /// The words before the image and the directory.
    words: Vec<OsString>,
    device: PathBuf,
    reads_only: bool,
}

/// When a mount ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerLife {
    /// The mount stays until it is unmounted.
    UntilUnmounted,
    /// The mount is unmounted at the latest when the process ends that started it.
    WithStarter,
}

/// A process that serves a mount, which is ready.
pub(super) struct StartedServer {
    pub(super) process: Child,
    /// Whether parts of a damaged volume cannot be read.
    pub(super) is_partial: bool,
}

impl ServerCommand {
    /// Returns the command line for a mount of `device`. `lists` are the option lists of `-o`, and
    /// `options` their meaning.
    pub(super) fn new(
        device: &Path,
        lists: &[String],
        options: &FuseMountOptions,
        global: &GlobalOptions,
    ) -> Self {
        let mut words: Vec<OsString> = vec!["mount".into(), "--background".into()];
        words.push(format!("--sandbox={}", global.sandbox).into());
        #[cfg(feature = "object_store")]
        words.push(format!("--object-cache={}", global.object_cache).into());
        words.extend(lists.iter().map(|list| OsString::from(format!("-o{list}"))));
        Self { words, device: device.to_owned(), reads_only: options.is_read_only() }
    }

    pub(super) fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Returns the rights that the starting process keeps: all of them. It reads no image, but
    /// starts the process that reads it.
    pub(super) fn reach(&self) -> Reach<'_> {
        if self.reads_only { Reach::ByThread } else { Reach::Host }
    }

    /// Starts the process, and waits until its mount at `folder` is ready.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or it has ended. In the latter case it has printed the
    /// reason.
    pub(super) fn start(&self, folder: &Path, life: ServerLife) -> Result<StartedServer, Failure> {
        let failed = |error: std::io::Error| Failure::new(Exit::Failed, format!("mount: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(&self.words).stdout(Stdio::piped());
        match life {
            ServerLife::UntilUnmounted => command.stdin(Stdio::null()),
            ServerLife::WithStarter => command.arg("--ends-with-input").stdin(Stdio::piped()),
        };
        command.arg("--").arg(&self.device).arg(folder);
        let mut process = command.spawn().map_err(failed)?;
        let mut said = Vec::new();
        if let Some(stdout) = process.stdout.take() {
            stdout.take(READY.len() as u64).read_to_end(&mut said).map_err(failed)?;
        }
        if said == READY || said == PARTIAL {
            return Ok(StartedServer { process, is_partial: said == PARTIAL });
        }
        // The server has reported the reason on standard error. It gets no more input.
        let code = process.wait().map_err(failed)?.code();
        Err(Failure::silent(code.and_then(Exit::of_code).unwrap_or(Exit::Failed)))
    }
}

impl StartedServer {
    /// Lets the mount outlive this process, although it was started with
    /// [`ServerLife::WithStarter`].
    pub(super) fn release(&mut self) {
        if let Some(mut input) = self.process.stdin.take() {
            // A server that has ended reads nothing.
            _ = input.write_all(RELEASE);
        }
    }
}

/// Waits until the process ends that started this one with [`ServerLife::WithStarter`]. Returns
/// false if that process has released the mount.
pub(super) fn await_end_of_starter() -> bool {
    // The starter writes one byte or none, so everything but that byte is its end.
    let mut byte = [0; RELEASE.len()];
    std::io::stdin().read_exact(&mut byte).is_err() || byte != RELEASE
}
