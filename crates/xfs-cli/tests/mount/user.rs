//! Mounting without the right to.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use xfs_oracle::harness::TrialError;
use xfs_oracle::{FuseRings, OracleError};

use crate::mounted::{run, volume};

/// Nobody in particular.
const USER: u32 = 1000;

/// /dev/fuse may be closed to users on this machine: the test opens one of its own to them, in a mount
/// namespace of its own.
pub(crate) fn an_ordinary_user_mounts() -> Result<(), TrialError> {
    mounts_with("")
}

pub(crate) fn so_does_one_through_rings() -> Result<(), TrialError> {
    let _on = FuseRings::on()?;
    mounts_with(",io_uring")
}

fn mounts_with(options: &str) -> Result<(), TrialError> {
    if Command::new("fusermount3").arg("-V").output().is_err() {
        return Err(OracleError::Unavailable("fuse3 is not installed".to_owned()).into());
    }
    let volume = volume("parent-exchange")?;
    // Below /tmp, since folders above the build may be closed to this user.
    let home = tempfile::tempdir_in("/tmp").unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("mnt")).unwrap();
    fs::copy(&volume.image.data, at("image")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ferroxfs"), at("ferroxfs")).unwrap();
    for path in [home.path().to_owned(), at("mnt"), at("image"), at("ferroxfs")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    let script = r#"set -e
        mount -t tmpfs -o mode=755 none /mnt; mknod -m 666 /mnt/fuse c 10 229
        mount --bind /mnt/fuse /dev/fuse; cd "$1"
        user="setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=-all"
        chmod 600 /mnt/fuse
        ! $user ./ferroxfs mount image mnt 2>said
        grep -q "hint: ask for the right to read and write /dev/fuse" said
        chmod 666 /mnt/fuse
        setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=-all sh -ec '
            for option in suid dev; do
                ! ./ferroxfs mount -o $option image mnt 2>refused
                grep -q "mnt: $option: only root may mount with this option" refused
            done
            ./ferroxfs mount -o uid=$1,gid=$1$2 image mnt
            trap "./ferroxfs umount mnt || fusermount3 -uz mnt" EXIT
            grep -q "mnt fuse.ferroxfs rw,nosuid,nodev" /proc/mounts
            echo contents > mnt/file; mkdir mnt/folder; mv mnt/file mnt/folder
            test "$(cat mnt/folder/file)" = contents
            test "$(stat -c %u mnt/folder/file)" = $1
            install -o $1 -g $1 -m 640 refused mnt/folder
            ! chgrp 0 mnt/folder/refused 2>refused' sh "$2" "$3""#;
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(home.path())
        .arg(USER.to_string())
        .arg(options);
    run(&mut unshare);
    fs::copy(at("image"), &volume.image.data).unwrap();
    volume.check()
}
