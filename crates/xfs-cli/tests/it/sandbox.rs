//! Tests of the namespaces of a running command, seen from outside.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode};

use crate::changing::VolumeDir;

/// The size, in bytes, of a file that is larger than the buffer of a pipe.
const LARGE: usize = 1 << 20;

/// Starts the command `cat`, waits until it blocks in the middle of its output, and calls `look`
/// with the folder of the `cat` process in /proc.
fn look_at_cat(options: &[&str], look: impl FnOnce(&Path)) {
    look_at_cat_through(options, |cat| cat, look);
}

/// Does the same as [`look_at_cat`], but runs another command: `through` gets the command that
/// starts `cat`, and returns the one to run.
fn look_at_cat_through(
    options: &[&str],
    through: impl FnOnce(Command) -> Command,
    look: impl FnOnce(&Path),
) {
    let place = VolumeDir::new();
    let mut put = place.command(&["put", "image:/large"]);
    let mut child = put.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&vec![1; LARGE]).unwrap();
    assert!(child.wait().unwrap().success());

    let mut cat = through(place.command(&[options, &["cat", "image:/large"]].concat()));
    cat.current_dir(place.path(""));
    let mut child = cat.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // After this byte, the command waits for the reader of the rest.
    stdout.read_exact(&mut [0]).unwrap();
    look(&PathBuf::from(format!("/proc/{}", child.id())));
    let rest = stdout.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!((rest, child.wait().unwrap().code()), (LARGE - 1, Some(0)));
}

/// Returns whether a process is in another namespace of this kind than the test.
fn is_apart(process: &Path, kind: &str) -> bool {
    let namespace = |process: &Path| fs::read_link(process.join("ns").join(kind)).unwrap();
    namespace(process) != namespace(Path::new("/proc/self"))
}

#[test]
fn command_that_reads_is_apart_from_the_host() {
    if !xfs_testkit::has_namespaces() {
        eprintln!("skipped: this user may not make namespaces");
        return;
    }
    look_at_cat(&[], |process| {
        for kind in ["mnt", "ipc", "uts", "cgroup"] {
            assert!(is_apart(process, kind), "{kind}");
        }
        for there in ["root", "cwd"] {
            let seen = fs::read_dir(process.join(there)).unwrap();
            assert_eq!(seen.count(), 0, "{there}");
        }
        // With a filter, it has no system call for the network.
        assert!(!is_apart(process, "net"));
        // In a user namespace it has no capabilities.
        let status = fs::read_to_string(process.join("status")).unwrap();
        assert!(!is_apart(process, "user") || status.contains("CapPrm:\t0000000000000000"));
    });
}

#[test]
fn command_that_reads_has_no_capabilities_also_as_root() {
    if !xfs_testkit::has_landlock() {
        eprintln!("skipped: Landlock of this kernel lacks some of its rules (Linux 6.12)");
        return;
    }
    look_at_cat(&[], |process| {
        let status = fs::read_to_string(process.join("status")).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        // Only root may reduce the bounding set, which matters only when programs are run.
        let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
        for set in sets.into_iter().chain(is_root.then_some("CapBnd")) {
            assert!(status.contains(&format!("{set}:\t0000000000000000")), "{set}: {status}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    });
}

#[test]
fn command_without_a_sandbox_keeps_the_capabilities_of_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has capabilities");
        return;
    }
    look_at_cat(&["--sandbox=never"], |process| {
        let status = fs::read_to_string(process.join("status")).unwrap();
        assert!(!status.contains("CapEff:\t0000000000000000"), "{status}");
    });
}

/// Checks that root can replace an output in a directory of another user.
#[test]
fn output_is_written_to_a_directory_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may give a directory away");
        return;
    }
    let place = VolumeDir::new();
    place.check(&["touch", "image:/file"]);
    fs::create_dir(place.path("theirs")).unwrap();
    let (user, group) = (Some(12_345), Some(12_345));
    std::os::unix::fs::chown(place.path("theirs"), user, group).unwrap();
    fs::set_permissions(place.path("theirs"), PermissionsExt::from_mode(0o700)).unwrap();
    for _ in 0..2 {
        place.check(&["scan", "image", "-o", "theirs/rows"]);
    }
    place.check(&["get", "image:/file", "-o", "theirs/file"]);
    place.check(&["tar", "image", "-o", "theirs/archive"]);
    for name in ["rows", "file", "archive"] {
        assert!(place.path("theirs").join(name).exists(), "{name}");
    }
}

/// Checks that a process still gets an empty root and its other namespaces if the kernel refuses to
/// create one of them.
#[test]
fn root_is_empty_without_an_optional_namespace() {
    const PROGRAM: &str = "echo 0 > /proc/sys/user/max_ipc_namespaces && exec \"$0\" \"$@\"";
    let without_ipc = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", PROGRAM]);
        unshare
    };
    let checked = without_ipc().arg("true").stderr(Stdio::null()).status();
    if !checked.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this user may not make namespaces");
        return;
    }
    let through = |cat: Command| {
        let mut command = without_ipc();
        command.arg(cat.get_program()).args(cat.get_args());
        command
    };
    look_at_cat_through(&[], through, |process| {
        assert!(!is_apart(process, "ipc") && is_apart(process, "cgroup"));
        assert_eq!(fs::read_dir(process.join("root")).unwrap().count(), 0);
    });
}

#[test]
fn command_without_a_sandbox_is_where_it_was_started() {
    look_at_cat(&["--sandbox=never"], |process| {
        assert!(
            ["mnt", "ipc", "uts", "cgroup", "user"].iter().all(|kind| !is_apart(process, kind))
        );
    });
}

/// Checks that attributes are set on files that cannot be opened. Inside the sandbox, no file of
/// the host can be reached by a name, not even through /proc.
#[test]
fn attributes_are_set_on_files_that_cannot_be_opened() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may set such attributes");
        return;
    }
    let place = VolumeDir::new();
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, place.path("pipe"), FileType::Fifo, mode, 0).unwrap();
    place.check(&["cp", "-a", "pipe", "image:/pipe"]);
    place.check(&["setfattr", "-n", "trusted.key", "-v", "value", "image:/pipe"]);
    fs::create_dir(place.path("out")).unwrap();
    place.check(&["cp", "-a", "image:/pipe", "out"]);
    let mut value = [0; 16];
    let length = rustix::fs::lgetxattr(place.path("out/pipe"), "trusted.key", &mut value).unwrap();
    assert_eq!(&value[..length], b"value");
}

/// Checks that `cp -a` keeps owners if the process may not create namespaces. In a user namespace,
/// the users and groups of the files would be unknown.
#[test]
fn owners_are_kept_without_namespaces() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may give files away");
        return;
    }
    let place = VolumeDir::new();
    place.check(&["touch", "image:/file"]);
    place.check(&["chown", "5:7", "image:/file"]);
    let copy = place.command(&["cp", "-a", "image:/file", "file"]);
    let mut powerless = Command::new("setpriv");
    powerless.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
    powerless.arg(copy.get_program()).args(copy.get_args());
    let output = powerless.current_dir(place.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = fs::metadata(place.path("file")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (5, 7));
}
