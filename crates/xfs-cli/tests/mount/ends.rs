//! Tests of mounts that end although no command requests it: after an invalid answer, after a
//! panic, when the connection is cut, or when the last user of a detached mount ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use xfs_fuse::{
    ChannelKind, FuseMount, Handler, InitFlags, MountFacts, Opcode, Reply, Request, Service,
    WaitOutcome,
};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{OracleError, ready};

use crate::mounted::{await_end, await_mount, ferroxfs, mounted, run, volume};

/// The environment variable that makes this process serve [`Failing`] on the folder in its value,
/// instead of running trials.
const PANICS_AT: &str = "FERROXFS_TEST_PANICS_AT";
const PATIENCE: Duration = Duration::from_secs(20);
/// An invalid error number. The kernel rejects an answer that has it.
const NO_ERROR: i32 = 600;

/// A FUSE filesystem that panics, or returns an invalid error, when it is asked for its free space.
struct Failing {
    panics: bool,
}

impl Handler for Failing {
    fn wishes(&self) -> InitFlags {
        InitFlags::empty()
    }

    fn handle(&self, request: &Request<'_>, _: &mut Reply<'_>) -> Result<(), Errno> {
        match request.opcode() {
            Some(Opcode::StatFs) if self.panics => panic!("as it should"),
            Some(Opcode::StatFs) => Err(Errno::from_raw_os_error(NO_ERROR)),
            _ => Err(Errno::NOSYS),
        }
    }
}

fn mount(folder: &Path, panics: bool) -> FuseMount<Failing> {
    let facts = MountFacts {
        source: "failing".into(),
        read_only: false,
        allow_other: false,
        suid: false,
        dev: false,
        exec: false,
        symlinks: true,
    };
    let service = Service { threads: 2, spare: 0, channel: ChannelKind::Device };
    FuseMount::new(Failing { panics }, folder, &facts, service).unwrap()
}

/// If this process was started to serve, serves until the server panics, and returns true. In any
/// other process, returns false at once.
pub(crate) fn is_served() -> bool {
    let Some(folder) = std::env::var_os(PANICS_AT) else { return false };
    let _ = mount(Path::new(&folder), true).wait(Duration::MAX);
    true
}

/// Returns a folder to mount on. If this machine cannot mount, the trial is skipped.
fn place() -> Result<tempfile::TempDir, TrialError> {
    ready()?;
    if !Path::new("/dev/fuse").exists() {
        return Err(OracleError::Unavailable("the machine has no /dev/fuse".to_owned()).into());
    }
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
}

fn is_mounted(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(folder.to_str().unwrap())
}

fn await_unmounted(folder: &Path) {
    let end = Instant::now() + PATIENCE;
    while is_mounted(folder) {
        assert!(Instant::now() < end, "{} stays mounted", folder.display());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Requests the free space of the mount. Returns true if the request fails within ten seconds, and
/// false if it succeeds or hangs.
fn ask(folder: &Path) -> bool {
    let mut stat = Command::new("timeout");
    stat.args(["--signal=KILL", "10", "stat", "--file-system"]).arg(folder);
    let output = stat.stderr(Stdio::null()).output().unwrap();
    output.status.code() == Some(1)
}

pub(crate) fn answer_that_cannot_be_given_ends_the_mount() -> Result<(), TrialError> {
    let place = place()?;
    let mount = mount(place.path(), false);
    let has_answer = ask(place.path());
    let waited = mount.wait(PATIENCE);
    let unmounted = mount.unmount();
    let ended = mount.wait(PATIENCE);
    assert!(mount.finish().is_some());
    assert!(has_answer, "who asks waits for ever");
    assert_eq!(waited, WaitOutcome::Failed);
    unmounted.unwrap();
    assert_eq!(ended, WaitOutcome::Ended);
    Ok(())
}

pub(crate) fn panic_leaves_no_mount() -> Result<(), TrialError> {
    let place = place()?;
    let mut server = Command::new(std::env::current_exe().unwrap());
    let mut server = server.env(PANICS_AT, place.path()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !is_mounted(place.path()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(ask(place.path()), "who asks waits for ever");
    assert_eq!(server.wait().unwrap().signal(), Some(Signal::ABORT.as_raw()));
    await_unmounted(place.path());
    Ok(())
}

/// Aborts the FUSE connection of a mount through a fusectl filesystem, which is mounted on
/// `control` for this.
fn abort(folder: &Path, control: &Path) {
    fs::create_dir(control).unwrap();
    run(Command::new("mount").args(["-t", "fusectl", "none"]).arg(control));
    let connection = rustix::fs::minor(fs::metadata(folder).unwrap().dev());
    let aborted = fs::write(control.join(connection.to_string()).join("abort"), "1");
    run(Command::new("umount").arg(control));
    aborted.unwrap();
}

fn in_foreground(image: &Path, place: &Path) -> Child {
    // Without `timeout`, which would be the process that is waited for.
    let mut mount = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    mount.args(["mount", "-f"]).arg(image).arg(place);
    let server = mount.stderr(Stdio::piped()).spawn().unwrap();
    await_mount(place);
    server
}

pub(crate) fn cut_connection_ends_the_mount() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let (image, place): (PathBuf, PathBuf) = (volume.image.data.clone(), volume.path());
    let server = in_foreground(&image, &place);
    fs::write(volume.at("file"), "contents").unwrap();
    abort(&place, &volume.outside("control"));
    let output = server.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the connection to the kernel was cut"), "{said}");
    await_unmounted(&place);
    // It was closed: nothing has to be recovered.
    let log = run(ferroxfs(&["log"]).arg(&image));
    assert!(log.contains("clean"), "{log}");
    assert_eq!(run(ferroxfs(&["cat"]).arg(format!("{}:/file", image.display()))), "contents");
    volume.check()
}

/// Checks that a mount that was detached while in use is served until its last user has finished.
pub(crate) fn mount_that_left_the_tree_ends_with_its_last_user() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let pid = volume.server();
    let file = fs::File::create(volume.at("file")).unwrap();
    run(Command::new("fusermount3").args(["-u", "-z"]).arg(volume.path()));
    rustix::io::write(&file, b"contents").unwrap();
    drop(file);
    await_end(&pid);
    let log = run(ferroxfs(&["log"]).arg(&volume.image.data));
    assert!(log.contains("clean"), "{log}");
    volume.mount("ro");
    assert_eq!(fs::read(volume.at("file")).unwrap(), b"contents");
    volume.unmount();
    volume.check()
}
