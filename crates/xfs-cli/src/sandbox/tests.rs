//! Tests of the sandbox. A child process enters it, because no process can leave it.

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::{Reach, Rights, enter};
use crate::cli::options::SandboxWhen;

/// The environment variable that marks the child process. Its value is the directory in which it
/// works.
const INSIDE: &str = "FERROXFS_TEST_INSIDE";

#[test]
fn unreachable_operations_are_denied() {
    if !xfs_testkit::has_landlock() {
        eprintln!("skipped: Landlock of this kernel lacks some of its rules (Linux 6.12)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("reached")).unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    let inside = Command::new(env::current_exe().unwrap())
        .args(["--exact", "sandbox::tests::inside", "--nocapture"])
        .env(INSIDE, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success(), "{said}");
    assert!(said.contains("all of it was denied"), "{said}");
}

/// Checks that a process with `Reach::Nothing` cannot change the mode, owner, times or attributes
/// of a file, nor its name. Landlock alone does not deny all of these.
#[test]
fn attributes_and_names_are_not_changed_without_reach() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    let test = "sandbox::tests::inside_without_names";
    let inside = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success() && said.contains("all of it was denied"), "{said}");
}

#[test]
fn inside_without_names() {
    let Some(directory) = env::var_os(INSIDE).map(PathBuf::from) else { return };
    let file = File::open(directory.join("secret")).unwrap();
    enter(&Reach::Nothing, SandboxWhen::Auto, &[]).unwrap();

    let secret = directory.join("secret");
    let other = fs::Permissions::from_mode(0o666);
    is_denied(fs::set_permissions(&secret, other.clone()));
    is_denied(file.set_permissions(other));
    is_denied(file.set_modified(SystemTime::UNIX_EPOCH));
    is_denied(std::os::unix::fs::lchown(&secret, None, None));
    is_denied(
        rustix::fs::setxattr(&secret, "user.a", b"", XattrFlags::empty()).map_err(Into::into),
    );
    is_denied(fs::remove_file(&secret));
    is_denied(fs::rename(&secret, directory.join("other")));
    is_denied(fs::hard_link(&secret, directory.join("other")));
    is_denied(fs::create_dir(directory.join("other")));
    println!("all of it was denied");
}

#[test]
fn inside() {
    let Some(directory) = env::var_os(INSIDE).map(PathBuf::from) else { return };
    let reached = File::open(directory.join("reached")).unwrap();
    // A user without root or namespaces has no root directory of its own here.
    let has_root = rustix::process::geteuid().is_root() && xfs_testkit::has_namespaces();
    enter(&Reach::Beneath(reached.as_fd(), Rights::Trees), SandboxWhen::Always, &[]).unwrap();

    let flags = OFlags::WRONLY | OFlags::CREATE;
    drop(rustix::fs::openat(&reached, "new", flags, Mode::RUSR).unwrap());
    rustix::fs::renameat(&reached, "new", &reached, "renamed").unwrap();
    let thread = std::thread::spawn(move || deny_all(&directory, &reached, has_root));
    thread.join().unwrap();
    println!("all of it was denied");
}

/// Checks that a process that reads an image from a server can use the port of that server, and no
/// other port, kind of socket or file.
#[test]
fn only_named_ports_are_reached() {
    if !xfs_testkit::has_landlock() {
        eprintln!("skipped: Landlock of this kernel lacks some of its rules (Linux 6.12)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    let test = "sandbox::tests::inside_with_a_port";
    let inside = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success() && said.contains("all else was denied"), "{said}");
}

#[test]
fn inside_with_a_port() {
    let Some(directory) = env::var_os(INSIDE).map(PathBuf::from) else { return };
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [named, other] = listeners.map(|listener| {
        let address = listener.local_addr().unwrap();
        // The listener stays open until the process ends.
        std::mem::forget(listener);
        address
    });
    enter(&Reach::Nothing, SandboxWhen::Always, &[named.port()]).unwrap();
    let timeout = std::time::Duration::from_secs(5);
    drop(TcpStream::connect(named).unwrap());
    drop(TcpStream::connect_timeout(&named, timeout).unwrap());
    is_denied(TcpStream::connect(other));
    is_denied(TcpStream::connect_timeout(&other, timeout));
    is_denied(TcpListener::bind("127.0.0.1:0"));
    is_denied(UdpSocket::bind("127.0.0.1:0"));
    is_denied(std::os::unix::net::UnixDatagram::unbound());
    is_denied(fs::read(directory.join("secret")));
    println!("all else was denied");
}

/// Checks that operations outside the open directory `reached` fail: on other files of `directory`,
/// on devices, programs and the network. Runs in a thread that was started inside the sandbox, so
/// that the threads of a process are checked too. `has_root` says whether the process has the
/// rights of root, with which it gets an empty root directory.
fn deny_all(directory: &Path, reached: &File, has_root: bool) {
    is_denied(fs::read(directory.join("secret")));
    is_denied(fs::write(directory.join("other"), ""));
    is_denied(fs::remove_file(directory.join("secret")));
    is_denied(fs::rename(directory.join("secret"), directory.join("reached/secret")));
    is_denied(rustix::fs::renameat(reached, "../secret", reached, "secret").map_err(Into::into));
    is_denied(fs::read("/proc/self/environ"));
    is_denied(Command::new("/bin/true").status());
    is_denied(TcpListener::bind("127.0.0.1:0"));
    is_denied(UdpSocket::bind("127.0.0.1:0"));
    is_denied(fs::read_dir(directory));
    let null = rustix::fs::makedev(1, 3);
    let (kind, mode) = (FileType::CharacterDevice, Mode::RUSR);
    is_denied(rustix::fs::mknodat(reached, "device", kind, mode, null).map_err(Into::into));
    // Landlock allows it for a file with a name. Inside the namespaces of root, nothing outside has
    // one.
    let outside = rustix::fs::chmodat(reached, "../secret", Mode::RWXU, AtFlags::empty());
    assert_eq!(outside, if has_root { Err(Errno::NOENT) } else { Ok(()) });
}

fn is_denied<T>(result: io::Result<T>) {
    match result.err().map(|error| error.kind()) {
        // Moving a file out of an unreachable directory fails as a move to another filesystem does.
        // A file that is in none of the namespaces is not found.
        Some(ErrorKind::PermissionDenied | ErrorKind::CrossesDevices | ErrorKind::NotFound) => {}
        other => panic!("not denied: {other:?}"),
    }
}
