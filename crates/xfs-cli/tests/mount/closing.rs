//! Tests of mounts whose image cannot be closed, and of the reports about that.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use xfs_oracle::harness::{Trial, TrialError};
use xfs_oracle::{OracleError, ready};

use crate::mounted::{await_end, ferroxfs, run, said};

const PATIENCE: Duration = Duration::from_secs(120);
const MEGABYTE: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("failure_to_sync_is_reported_by_umount", failure_to_sync_is_reported_by_umount),
        Trial::new(
            "failure_to_close_is_reported_by_umount",
            failure_to_close_is_reported_by_umount,
        ),
        Trial::new("bad_end_is_logged", bad_end_is_logged),
        Trial::new("full_host_is_reported", full_host_is_reported),
        Trial::new(
            "server_among_other_processes_is_waited_for",
            server_among_other_processes_is_waited_for,
        ),
    ]
}

/// A volume in a small filesystem of the host, which a test can fill. The log is inside the volume,
/// or it is external and outside of that filesystem.
struct FullHost {
    folder: TempDir,
    log: Log,
}

#[derive(Clone, Copy, PartialEq)]
enum Log {
    Inside,
    Outside,
}

impl FullHost {
    fn new(log: Log) -> Result<Self, TrialError> {
        ready()?;
        if !Path::new("/dev/fuse").exists() {
            return Err(OracleError::Unavailable("the machine has no /dev/fuse".to_owned()).into());
        }
        let tight =
            Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), log };
        fs::create_dir(tight.at("small")).unwrap();
        fs::create_dir(tight.at("mnt")).unwrap();
        let mut mount = Command::new("mount");
        run(mount.args(["-t", "tmpfs", "-o", "size=64m", "none"]).arg(tight.at("small")));
        let mut mkfs = ferroxfs(&["mkfs", "-q", "-d", "size=300m"]);
        if log == Log::Outside {
            mkfs.arg("-l").arg(format!("logdev={},size=64m", tight.at("log").display()));
        }
        run(mkfs.arg(tight.image()));
        Ok(tight)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.at("small/image.xfs")
    }

    fn mount(&self) {
        run(ferroxfs(&["mount", "-o", &self.options()]).arg(self.image()).arg(self.at("mnt")));
    }

    fn options(&self) -> String {
        match self.log {
            Log::Inside => "rw".to_owned(),
            Log::Outside => format!("rw,logdev={}", self.at("log").display()),
        }
    }

    /// Fills the filesystem that holds the image, and then creates files on the mount.
    fn fill(&self) {
        fs::create_dir(self.at("mnt/folder")).unwrap();
        File::open(self.at("mnt")).unwrap().sync_all().unwrap();
        self.fill_host();
        for name in NAMES {
            File::create(self.at("mnt/folder").join(name)).unwrap();
        }
    }

    fn fill_host(&self) {
        let mut rest = File::create(self.at("small/rest")).unwrap();
        while rest.write_all(&vec![1; MEGABYTE]).is_ok() {}
    }

    fn umount(&self, options: &[&str]) -> Output {
        ferroxfs(&["umount"]).args(options).arg(self.at("mnt")).output().unwrap()
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.contains(self.at("mnt").to_str().unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("mnt/folder")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Drop for FullHost {
    fn drop(&mut self) {
        for place in ["mnt", "small"] {
            let mut umount = Command::new("umount");
            // The test may have unmounted it already.
            _ = umount.arg("--lazy").arg(self.at(place)).stderr(Stdio::null()).status();
        }
    }
}

/// Checks that `umount` reports changes that cannot be made durable: the log has no space on the
/// host.
fn failure_to_sync_is_reported_by_umount() -> Result<(), TrialError> {
    let tight = FullHost::new(Log::Inside)?;
    tight.mount();
    tight.fill();
    let output = tight.umount(&[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("some data cannot be made durable"), "{text}");
    assert!(text.contains("hint: it stays mounted"), "{text}");
    assert_eq!(tight.names(), NAMES, "it is there to be read");
    let forced = tight.umount(&["--force"]);
    let text = said(&forced);
    assert_eq!(forced.status.code(), Some(1), "{text}");
    assert!(text.contains("mnt: unmounted, but its server failed (exit status: 1)"), "{text}");
    assert!(!tight.is_mounted());
    Ok(())
}

/// Checks that `umount` reports a volume that cannot be closed. The log has space, but the logged
/// changes cannot be written in place.
fn failure_to_close_is_reported_by_umount() -> Result<(), TrialError> {
    let tight = FullHost::new(Log::Outside)?;
    tight.mount();
    tight.fill();
    let output = tight.umount(&[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("mnt: unmounted, but its server failed (exit status: 1)"), "{text}");
    assert!(!tight.is_mounted());
    // Durable changes are recovered when there is space.
    fs::remove_file(tight.at("small/rest")).unwrap();
    tight.mount();
    assert_eq!(tight.names(), NAMES);
    assert_eq!(said(&tight.umount(&[])), "exit status: 0: ");
    Ok(())
}

/// Checks that a server that is ended by a signal writes a failure to close the volume to the
/// system log, because no process waits for that server.
fn bad_end_is_logged() -> Result<(), TrialError> {
    let tight = FullHost::new(Log::Inside)?;
    let log = UnixDatagram::bind(tight.at("log")).unwrap();
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    // A system log for this mount only: its namespace has another /dev.
    let script = "mount --make-rprivate / && mkdir $1/dev && mount -t tmpfs none $1/dev && \
        for name in fuse null log; do touch $1/dev/$name; done && \
        mount --bind /dev/fuse $1/dev/fuse && mount --bind /dev/null $1/dev/null && \
        mount --bind $1/log $1/dev/log && mount --move $1/dev /dev && \
        $2 mount $1/small/image.xfs $1/mnt && exec sleep 120 <&-";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-e", "-c", script, "sh"]).arg(tight.folder.path());
    let mut shell = shell.arg(env!("CARGO_BIN_EXE_ferroxfs")).spawn().unwrap();
    let outside = |tight: &FullHost| {
        // The mount as the shell sees it.
        let root = PathBuf::from(format!("/proc/{}/root", shell.id()));
        root.join(tight.at("mnt").strip_prefix("/").unwrap())
    };
    let mount = outside(&tight);
    crate::mounted::await_mount(&mount);
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&mount, "ferroxfs.pid", &mut value).unwrap();
    let server = String::from_utf8_lossy(&value[..length]).into_owned();
    File::create(mount.join("file")).unwrap();
    tight.fill_host();
    run(Command::new("kill").args(["-TERM", &server]));
    let mut message = [0; 1024];
    let received = log.recv(&mut message);
    await_end(&server);
    shell.kill().unwrap();
    shell.wait().unwrap();
    let text = String::from_utf8_lossy(&message[..received.unwrap()]).into_owned();
    assert!(
        text.starts_with("<27>") && text.contains(&format!(" ferroxfs[{server}]: /")),
        "{text}"
    );
    assert!(text.contains("image.xfs: "), "{text}");
    Ok(())
}

/// Checks that `umount` waits for a server in another PID namespace, in which the server has
/// another PID.
fn server_among_other_processes_is_waited_for() -> Result<(), TrialError> {
    let tight = FullHost::new(Log::Inside)?;
    let inside = |rest: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_ferroxfs")]);
        unshare.args(rest).arg(tight.at("mnt"));
        unshare
    };
    let image = tight.image();
    let is_clean = || {
        let log = run(ferroxfs(&["log"]).arg(&image));
        assert!(log.contains("clean"), "{log}");
    };
    // Its server is process 1 there. Here process 1 is another one, which never ends.
    let mut server = inside(&["mount", "-f", image.to_str().unwrap()]).spawn().unwrap();
    crate::mounted::await_mount(&tight.at("mnt"));
    File::create(tight.at("mnt/file")).unwrap();
    assert_eq!(said(&tight.umount(&[])), "exit status: 0: ");
    is_clean();
    assert!(server.wait().unwrap().success());
    // Processes outside are not visible there, but the image is.
    tight.mount();
    File::create(tight.at("mnt/other")).unwrap();
    assert_eq!(said(&inside(&["umount"]).output().unwrap()), "exit status: 0: ");
    is_clean();
    tight.mount();
    tight.fill();
    let output = inside(&["umount", "--force"]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("its image was not closed cleanly"), "{text}");
    Ok(())
}

/// Checks that every command that writes reports the first failure on a full host, with a hint.
fn full_host_is_reported() -> Result<(), TrialError> {
    let tight = FullHost::new(Log::Inside)?;
    let image = tight.image().display().to_string();
    let (file, inside) = (tight.at("file"), format!("{image}:/file"));
    fs::write(&file, vec![1; MEGABYTE]).unwrap();
    let file = file.display().to_string();
    run(&mut ferroxfs(&[
        "import",
        &tight.at("mnt").display().to_string(),
        &inside.replace("file", "d"),
    ]));
    tight.fill_host();
    let log = "cannot write ";
    for (arguments, words) in [
        (&["cp", &file, &inside][..], ": /file: cannot write "),
        (&["label", &image, "new"], log),
        (&["uuid", &image, "generate"], log),
        (&["mkdir", &inside], log),
        (&["rm", "-r", &format!("{image}:/d")], log),
    ] {
        let output = ferroxfs(arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains(words) && first.contains("No space left"), "{arguments:?}: {text}");
        assert!(text.contains("hint: the filesystem that holds the image is full"), "{text}");
    }
    fs::remove_file(tight.at("small/rest")).unwrap();
    // No change was done in part.
    assert_eq!(run(&mut ferroxfs(&["ls", &image])), "d\n");
    run(&mut ferroxfs(&["rm", "-r", &format!("{image}:/d")]));
    Ok(())
}
