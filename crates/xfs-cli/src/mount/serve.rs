//! The process that serves a mount: its start, its threads, its signals, and its end.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ferroxfs::OpenError;
use ferroxfs::raw::format::superblock::Unsupported;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use xfs_fuse::{
    ChannelKind, Checks, FuseMount, FuseMountOptions, Halter, Handler, InitFlags, Invalidator,
    Opcode, Reply, Request, Server, TreeServer, Unmounted, WaitOutcome, is_mount_point,
};

use super::background::{PARTIAL, READY, await_end_of_starter};
use super::damaged::DamagedTree;
use super::mount::mount_failure;
use crate::cli::options::SandboxWhen;
use crate::damaged::volume::DamagedImage;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::requests::Requests;
use crate::image::{about_image, has_foreign_log, open_failure};
use crate::mount::system_log::SystemLog;
use crate::run::Run;
use crate::sandbox::{self, Namespaces, Reach};
use crate::terminal::console::Console;
use crate::terminal::names;

/// How long programs may continue to use the mount after a signal or a failure has stopped its
/// server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The command in the process that serves the mount.
pub(super) struct ServeVolume {
    pub(super) devices: ferroxfs::device::Devices,
    pub(super) device: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) options: FuseMountOptions,
    pub(super) background: bool,
    /// Whether the mount ends when the process that started this one ends.
    pub(super) ends_with_input: bool,
    pub(super) sandbox: SandboxWhen,
    /// The requests for an image on a web or S3 server.
    pub(super) requests: Requests,
}

/// The result of the survey of a damaged volume.
struct SurveyedTree {
    tree: DamagedTree,
    /// Whether parts of the volume cannot be read.
    is_partial: bool,
}

/// The input of the start of a mount: the caught signals, and whether parts of the volume cannot be
/// read.
struct MountStart {
    signals: Signals,
    is_partial: bool,
}

/// A FUSE server whose workers enter the sandbox.
struct Confined<S> {
    server: S,
    channel: ChannelKind,
    sandbox: SandboxWhen,
    namespaces: Namespaces,
}

impl<S: Handler> Handler for Confined<S> {
    fn wishes(&self) -> InitFlags {
        self.server.wishes()
    }

    fn set_invalidator(&self, invalidator: Invalidator) {
        self.server.set_invalidator(invalidator);
    }

    fn begin_worker(&self) {
        let reach = match self.channel {
            ChannelKind::Device => Reach::Nothing,
            ChannelKind::IoUring => Reach::OpenRings,
        };
        // With `always`, the same failure would have occurred when the first blocks of the volume
        // were read. So the cause now is a lack of memory or descriptors.
        if let Err(failure) = sandbox::enter_thread(&reach, self.sandbox, &self.namespaces) {
            tracing::error!(%failure, "a worker cannot enter the sandbox");
            std::process::abort();
        }
    }

    fn checks(&self) -> Checks {
        self.server.checks()
    }

    fn waits(&self, opcode: Opcode) -> bool {
        self.server.waits(opcode)
    }

    fn unwritten_nodes(&self) -> Vec<u64> {
        self.server.unwritten_nodes()
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        self.server.handle(request, reply)
    }
}

/// Runs `act` in a new thread that has entered the sandbox. Threads that `act` starts are in the
/// sandbox too.
pub(crate) fn inside<T: Send>(
    when: SandboxWhen,
    namespaces: &Namespaces,
    act: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let act = || {
            sandbox::enter_thread(&Reach::Nothing, when, namespaces)?;
            Ok(act())
        };
        let thread = Builder::new().spawn_scoped(scope, act).map_err(|error| no_thread(&error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn no_thread(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("its threads cannot be started: {error}"))
}

impl Run for ServeVolume {
    /// Returns the rights that the first thread keeps: it must be able to unmount at the end.
    fn reach(&self) -> Reach<'_> {
        if self.options.is_read_only() { Reach::ByThread } else { Reach::Host }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        // Before any other thread starts, so that no thread gets a signal that is meant for this
        // one.
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
            .map_err(|error| Failure::new(Exit::Failed, format!("signals: {error}")))?;
        let sandbox = if self.options.is_read_only() { self.sandbox } else { SandboxWhen::Never };
        // Before mounting, because they are made from a copy of the mount table.
        let namespaces = Namespaces::make(sandbox, &self.requests.ports());
        if self.options.is_damaged() {
            let read = self.read_damaged(sandbox, &namespaces, &mut signals, console)?;
            let SurveyedTree { tree, is_partial } = read;
            let server = TreeServer::new(tree, self.options.settings()).in_image(&self.device);
            let channel = self.options.service().channel;
            let server = Confined { server, channel, sandbox, namespaces };
            let start = MountStart { signals, is_partial };
            return self.serve(server, |_| Ok(()), start, console);
        }
        let server = self.open_server(sandbox, &namespaces)?;
        let channel = self.options.service().channel;
        let server = Confined { server, channel, sandbox, namespaces };
        let start = MountStart { signals, is_partial: false };
        self.serve(server, |server| server.close().map_err(Failure::from), start, console)
    }
}

impl ServeVolume {
    /// Opens the volume and creates its FUSE server. For a read-only mount, the volume is opened
    /// inside the sandbox.
    fn open_server(
        &self,
        sandbox: SandboxWhen,
        namespaces: &Namespaces,
    ) -> Result<Server, Failure> {
        let Self { devices, device, folder, options, .. } = self;
        let opening = tracing::info_span!("open").entered();
        let volume = match options.is_read_only() {
            true => inside(sandbox, namespaces, || readable(devices.open(), device))
                .map_err(|failure| about_image(failure, device))?,
            false => readable(devices.open(), device),
        };
        drop(opening);
        let server = Server::new(volume?, options.settings())
            .map_err(|error| mount_failure(folder, &error))?;
        Ok(server.mounted_at(folder.canonicalize().ok()).in_image(device))
    }

    /// Surveys a damaged volume, and reports on standard error each part of it that cannot be read.
    fn read_damaged(
        &self,
        sandbox: SandboxWhen,
        namespaces: &Namespaces,
        signals: &mut Signals,
        console: &mut Console,
    ) -> Result<SurveyedTree, Failure> {
        let replays = self.options.replays_log();
        let image = DamagedImage::of_devices(&self.device, None, &self.devices, replays)?;
        let shown = image.shown();
        let _opening = tracing::info_span!("survey").entered();
        let is_stopped = || signals.pending().next().is_some();
        let read = inside(sandbox, namespaces, || DamagedTree::start(image, is_stopped));
        let (tree, report) = read.and_then(|read| read).map_err(|failure| failure.about(&shown))?;
        for note in report.notes {
            console.note(format!("{shown}: {note}"));
        }
        if report.dropped > 0 {
            console.note(format!("{shown}: {} names were left out", report.dropped));
        }
        let failures = report.shortfalls.failures(&shown, |_| true);
        let is_partial = report.dropped > 0 || !failures.is_empty();
        for failure in failures {
            match self.background {
                // The process that waits for the mount exits with the code for damage. The code of
                // the server would be that of a failed unmount.
                true => console.note(failure.message()),
                false => console.report(&failure),
            }
        }
        Ok(SurveyedTree { tree, is_partial })
    }

    /// Mounts the volume and serves it until the mount ends. Then closes the server with `close`.
    fn serve<S: Handler>(
        self,
        server: Confined<S>,
        close: impl FnOnce(S) -> Result<(), Failure>,
        MountStart { signals, is_partial }: MountStart,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let Self { devices, device, folder, options, background, ends_with_input, .. } = self;
        drop(devices);
        let source = device.canonicalize().unwrap_or_else(|_| device.clone());
        let service = options.service();
        let handle = signals.handle();
        // Before the workers, which take as many threads as they can get.
        let (tell, told) = channel();
        let watcher = watch(signals, told).map_err(|failure| about_image(failure, &device))?;
        let hides = is_mount_point(&folder);
        let mount = FuseMount::new(server, &folder, &options.facts(source.clone()), service)
            .map_err(|error| mount_failure(&folder, &error))?;
        if hides {
            let shown = names::in_message(folder.as_os_str().as_bytes());
            console.note(format!("{shown}: hides the mount there until it is unmounted"));
        }
        let _ = tell.send(mount.halter());
        let bound = if ends_with_input { halt_with_starter(mount.halter()) } else { Ok(()) };
        let announced = bound.and_then(|()| announce(background, is_partial, console));
        let log = (background && announced.is_ok()).then(log_to_system);
        // A reader of the system log does not know the folder that a relative name would start
        // from.
        let device = if log.is_some() { source } else { device };
        let served = match announced {
            Ok(()) => serve(&mount).map_err(|failure| about_image(failure, &device)),
            // The caller does not know yet that the mount is ready.
            Err(failure) => {
                drop(mount.unmount());
                Err(failure)
            }
        };
        handle.close();
        watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let closed = closed(mount, close).map_err(|failure| about_image(failure, &device));
        for failure in [served, closed].into_iter().filter_map(Result::err) {
            if let Some(log) = &log {
                log.report(&failure);
            }
            console.report(&failure);
        }
        Ok(())
    }
}

/// Closes the volume after the mount has ended. Fails if the volume is still in use.
fn closed<S: Handler>(
    mount: FuseMount<Confined<S>>,
    close: impl FnOnce(S) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let _span = tracing::info_span!("close").entered();
    match mount.finish() {
        Some(confined) => close(confined.server),
        // Waiting for the remaining user could take forever.
        None => Err(Failure::new(Exit::Failed, "its volume is still in use, and is not closed")),
    }
}

/// Connects to the system log, because standard error has no reader. Messages of panics go there
/// too.
fn log_to_system() -> Arc<SystemLog> {
    let log = Arc::new(SystemLog::open());
    let (told, otherwise) = (Arc::clone(&log), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        told.report(panic);
        otherwise(panic);
    }));
    log
}

/// Returns the opened volume if its root can be read. Without the root, no operation on the mount
/// would work.
fn readable(
    opened: Result<ferroxfs::Volume, OpenError>,
    device: &Path,
) -> Result<ferroxfs::Volume, Failure> {
    let volume = opened.map_err(|error| {
        let failure = open_failure(device, &error);
        match error {
            // Mounting is what has just failed, so do not suggest it.
            OpenError::DirtyLog(_) | OpenError::Recovery(_) if !has_foreign_log(&error) => failure
                .hint(
                    "the kernel may replay it; -o ro,norecovery mounts the volume without replaying the log",
                ),
            OpenError::Volume(ferroxfs::Error::Unsupported(
                Unsupported::Version4Write
                | Unsupported::AsciiCiWrite
                | Unsupported::UnknownRoCompat(_)
                | Unsupported::RealtimeWrite
                | Unsupported::MetadirWrite,
            )) => failure.hint("mount it for reading: -o ro"),
            _ => failure,
        }
    })?;
    match volume.root() {
        Ok(_) => Ok(volume),
        Err(error) => Err(about_image(Failure::from(error).about("/"), device)),
    }
}

/// Starts a thread that stops the mount on each signal. The thread receives from `told` the handle
/// with which it stops the mount. The thread ends when `signals` is closed.
fn watch(mut signals: Signals, told: Receiver<Halter>) -> Result<JoinHandle<()>, Failure> {
    let watcher = Builder::new().name("signals".to_owned()).spawn(move || {
        // The channel is closed if nothing was mounted.
        let Ok(halter) = told.recv() else { return };
        for _ in &mut signals {
            halter.halt();
        }
    });
    watcher.map_err(|error| no_thread(&error))
}

/// Starts a thread that stops the mount when the process ends that started this one. The thread
/// ends with this process.
fn halt_with_starter(halter: Halter) -> Result<(), Failure> {
    let wait = move || {
        if await_end_of_starter() {
            halter.halt();
        }
    };
    let started = Builder::new().name("starter".to_owned()).spawn(wait);
    started.map(drop).map_err(|error| no_thread(&error))
}

/// Reports to the service manager that the mount is ready. In the background, also leaves the
/// terminal and reports to the process that waits for the mount. `is_partial` says that parts of
/// the volume cannot be read.
fn announce(background: bool, is_partial: bool, console: &mut Console) -> Result<(), Failure> {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        console.note(format!("sd_notify: {error}"));
    }
    if !background {
        return Ok(());
    }
    let detached = || -> rustix::io::Result<()> {
        let nowhere = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
        rustix::process::chdir("/")?;
        // A process that leads no group can always start a session.
        rustix::process::setsid()?;
        rustix::stdio::dup2_stderr(&nowhere)?;
        // A caller that no longer waits is no reason to end.
        let _ = std::io::stdout().write_all(if is_partial { PARTIAL } else { READY });
        let _ = std::io::stdout().flush();
        rustix::stdio::dup2_stdout(&nowhere)
    };
    detached().map_err(|errno| Failure::new(Exit::Failed, format!("the background: {errno}")))
}

/// Serves until the volume is unmounted, until a signal stops the mount, or until a worker fails.
fn serve<S: Handler>(mount: &FuseMount<Confined<S>>) -> Result<(), Failure> {
    if mount.wait(Duration::MAX) == WaitOutcome::Ended {
        return outcome(mount);
    }
    let unmounted = mount.unmount().unwrap_or_else(|error| {
        tracing::warn!(%error, "unmounting");
        Unmounted::default()
    });
    // Remaining users are served for a while.
    let end = Instant::now() + PATIENCE;
    loop {
        match mount.wait(end.saturating_duration_since(Instant::now())) {
            WaitOutcome::Halted | WaitOutcome::Failed => {}
            WaitOutcome::Ended => break,
            WaitOutcome::TimedOut => {
                mount.settle_rest(&unmounted);
                break;
            }
        }
    }
    failed(mount)
}

/// Returns the result of a mount that ended before this process unmounted it: a failure if the
/// mount has failed, or if the connection to the kernel was cut.
fn outcome<S: Handler>(mount: &FuseMount<Confined<S>>) -> Result<(), Failure> {
    failed(mount)?;
    if mount.is_mounted() {
        return Err(Failure::new(Exit::Failed, "the connection to the kernel was cut"));
    }
    Ok(())
}

fn failed<S: Handler>(mount: &FuseMount<Confined<S>>) -> Result<(), Failure> {
    let failure = |error| Failure::new(Exit::Failed, format!("the mount has failed: {error}"));
    mount.failure().map_or(Ok(()), |error| Err(failure(error)))
}
