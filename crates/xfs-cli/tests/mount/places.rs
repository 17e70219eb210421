//! Tests of mounts together with another program: one that opens /dev/fuse or mounts for the
//! server, or a service manager that is notified when the mount is ready.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use xfs_oracle::harness::TrialError;

use crate::mounted::{ferroxfs, run, said, volume};

/// How long to wait for a message that has been sent already.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that root of a user namespace can mount, and that the mount is visible only in that
/// namespace.
pub(crate) fn user_namespace_has_its_own_mount() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let script = r#"set -ex
        "$1" mount "$2" "$3"
        trap '"$1" umount "$3"' EXIT
        grep -q " $3 fuse.ferroxfs rw,nosuid,nodev" /proc/mounts
        echo contents > "$3/file"; test "$(cat "$3/file")" = contents"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["-Urm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
    run(unshare.arg(&volume.image.data).arg(volume.path()));
    assert_eq!(fs::read_dir(volume.path()).unwrap().count(), 0, "it is seen outside");
    let kept = run(ferroxfs(&["cat"]).arg(format!("{}:/file", volume.image.data.display())));
    assert_eq!(kept, "contents\n");
    volume.check()
}

/// Checks that a server in a user namespace stores the user ids that callers have inside that
/// namespace.
pub(crate) fn users_of_a_user_namespace_are_told_apart() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let script = r#"set -ex
        echo unshared; read -r mapped
        "$1" mount -o allow_other "$2" "$3"
        trap '"$1" umount "$3"' EXIT
        as() { user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
        mkdir -m 777 "$3/all"
        as 33 sh -c 'umask 077; echo contents > "$0"' "$3/all/theirs"
        test "$(as 33 cat "$3/all/theirs")" = contents
        if as 65000 cat "$3/all/theirs"; then exit 1; fi
        as 33 setfacl -m u:65000:r "$3/all/theirs"
        test "$(as 65000 cat "$3/all/theirs")" = contents
        chown 65000:33 "$3/all/theirs"
        if chown 70000 "$3/all/theirs"; then exit 1; fi"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["-Um", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
    unshare.arg(&volume.image.data).arg(volume.path());
    let pipes = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut inside = pipes.spawn().unwrap();
    let mut unshared = String::new();
    BufReader::new(inside.stdout.take().unwrap()).read_line(&mut unshared).unwrap();
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{}/{map}", inside.id()), "0 0 1\n1 100000 65535\n").unwrap();
    }
    inside.stdin.take().unwrap().write_all(b"mapped\n").unwrap();
    let output = inside.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let address = format!("{}:/all", volume.image.data.display());
    let kept = run(ferroxfs(&["ls", "-n"]).arg(address));
    assert!(kept.contains(" 65000 33 "), "{kept}");
    volume.check()
}

/// Checks that root of a user namespace has the rights of root on its mount. Root of a nested
/// namespace gains no rights on that mount.
pub(crate) fn server_in_a_user_namespace_checks() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let mount = volume.image.mount(&[])?;
    let file = mount.path().join("file");
    fs::write(&file, "contents").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    chown(&file, Some(1000), Some(2000)).unwrap();
    mount.unmount()?;
    let script = r#"set -ex
        "$1" mount -o nodefault_permissions "$2" "$3"
        trap '"$1" umount "$3"' EXIT
        test "$(cat "$3/file")" = contents
        if unshare --user --map-root-user cat "$3/file"; then exit 1; fi
        if setpriv --bounding-set=-all --inh-caps=-all cat "$3/file"; then exit 1; fi
        echo mine > "$3/mine"; chmod 600 "$3/mine"
        test "$(unshare --user --map-root-user cat "$3/mine")" = mine"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["-Urm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
    run(unshare.arg(&volume.image.data).arg(volume.path()));
    volume.check()
}

/// Checks that a mount that is ready notifies systemd, and that a mount that fails does not.
pub(crate) fn ready_mount_notifies_systemd() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let place = volume.outside("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || -> io::Result<String> {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    run(volume.mount_command("rw").env("NOTIFY_SOCKET", &place));
    let heard = hear();
    run(ferroxfs(&["umount"]).arg(volume.path()));
    let heard = heard.unwrap();
    assert!(heard.lines().any(|line| line == "READY=1"), "{heard}");
    // A mount that fails is not ready.
    let failed = volume.mount_command("offset=512").env("NOTIFY_SOCKET", &place).output().unwrap();
    assert!(!failed.status.success(), "{}", said(&failed));
    socket.set_nonblocking(true).unwrap();
    assert_eq!(hear().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    volume.check()
}

/// Checks that the server can take over a FUSE connection that another program has mounted. A mount
/// helper that drops its rights before it starts the server works in this way.
pub(crate) fn connection_is_taken_over() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    // The mount disappears with the namespace, whatever fails.
    let script = r#"set -ex
        exec 7<>/dev/fuse
        mount -i -t fuse.ferroxfs -o fd=7,rootmode=40000,user_id=0,group_id=0 proof "$3"
        "$1" mount "$2" /dev/fd/7
        exec 7<&-
        trap 'umount --lazy "$3"' EXIT
        echo contents > "$3/file"; test "$(cat "$3/file")" = contents
        trap '' EXIT
        "$1" umount "$3""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
    run(unshare.arg(&volume.image.data).arg(volume.path()));
    let kept = run(ferroxfs(&["cat"]).arg(format!("{}:/file", volume.image.data.display())));
    assert_eq!(kept, "contents\n");
    volume.check()
}
