//! Tests of mounting as an ordinary user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use xfs_oracle::harness::TrialError;
use xfs_oracle::{FuseRings, OracleError};

use crate::mounted::{Mounted, run, volume};

/// The user id of the ordinary user.
const USER: u32 = 1000;
/// The id of a group to which the ordinary user belongs.
const GROUP: u32 = 2000;

/// Checks that an ordinary user can mount. This machine may deny its users access to /dev/fuse, so
/// the test makes a /dev/fuse for all users in its own mount namespace.
pub(crate) fn ordinary_user_mounts() -> Result<(), TrialError> {
    mounts_with("")
}

pub(crate) fn ordinary_user_mounts_through_rings() -> Result<(), TrialError> {
    let _on = FuseRings::on()?;
    mounts_with(",io_uring")
}

/// Checks that the server of an ordinary user looks up the groups of its callers, and grants no
/// right that the user does not have.
pub(crate) fn server_of_a_user_checks_groups() -> Result<(), TrialError> {
    let volume = user_volume()?;
    let mount = volume.image.mount(&[])?;
    let team = mount.path().join("team");
    fs::create_dir(&team).unwrap();
    fs::write(team.join("file"), "contents").unwrap();
    chown(mount.path(), Some(USER), Some(USER)).unwrap();
    for (path, mode) in [(team.join("file"), 0o640), (team, 0o770)] {
        chown(&path, Some(0), Some(GROUP)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    mount.unmount()?;
    let script = r#"set -ex
        mount -t tmpfs -o mode=755 none /mnt; mknod -m 666 /mnt/fuse c 10 229
        mount --bind /mnt/fuse /dev/fuse; cd "$1"
        user="setpriv --reuid=$2 --regid=$2 --inh-caps=-all"
        $user --clear-groups ./ferroxfs mount -o nodefault_permissions image mnt
        trap "$user --clear-groups ./ferroxfs umount mnt" EXIT
        for round in 1 2; do
            test "$($user --groups=$3 cat mnt/team/file)" = contents
            if $user --clear-groups cat mnt/team/file; then exit 1; fi
            if $user --clear-groups ls mnt/team; then exit 1; fi
        done
        $user --groups=$3 touch mnt/team/made; $user --groups=$3 ls -l mnt/team
        if $user --groups=$3 sh -c "echo x >> mnt/team/file"; then exit 1; fi
        if $user --clear-groups touch mnt/team/other; then exit 1; fi
        test "$($user --clear-groups stat -c %u:%g mnt)" = "$2:$2"
        if setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=+dac_override \
            --ambient-caps=+dac_override cat mnt/team/file; then exit 1; fi
        echo mine | $user --clear-groups tee mnt/mine"#;
    let arguments = [USER.to_string(), GROUP.to_string()];
    run_as_user(&volume, script, &arguments)
}

fn mounts_with(options: &str) -> Result<(), TrialError> {
    let volume = user_volume()?;
    let script = r#"set -ex
        mount -t tmpfs -o mode=755 none /mnt; mknod -m 666 /mnt/fuse c 10 229
        mount --bind /mnt/fuse /dev/fuse; cd "$1"
        user="setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=-all"
        chmod 600 /mnt/fuse
        if $user ./ferroxfs mount image mnt 2>said; then exit 1; fi
        grep -q "hint: ask an administrator for read and write access to /dev/fuse" said
        chmod 666 /mnt/fuse
        setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=-all sh -exc '
            for option in suid dev; do
                if ./ferroxfs mount -o $option image mnt 2>refused; then exit 1; fi
                grep -q "mnt: $option: only root may mount with this option" refused
            done
            ./ferroxfs mount -o uid=$1,gid=$1$2 image mnt
            trap "./ferroxfs umount mnt || fusermount3 -uz mnt" EXIT
            grep -q "mnt fuse.ferroxfs rw,nosuid,nodev" /proc/mounts
            echo contents > mnt/file; mkdir mnt/folder; mv mnt/file mnt/folder
            test "$(cat mnt/folder/file)" = contents
            test "$(stat -c %u mnt/folder/file)" = $1
            install -o $1 -g $1 -m 640 refused mnt/folder
            if chgrp 0 mnt/folder/refused 2>refused; then exit 1; fi' sh "$2" "$3""#;
    run_as_user(&volume, script, &[USER.to_string(), options.to_owned()])
}

fn user_volume() -> Result<Mounted, TrialError> {
    if Command::new("fusermount3").arg("-V").output().is_err() {
        return Err(OracleError::Unavailable("fuse3 is not installed".to_owned()).into());
    }
    volume("parent-exchange")
}

/// Runs a script in its own mount namespace, with a folder that holds the program and the image and
/// belongs to the user. Checks the volume with xfs_repair afterwards.
fn run_as_user(volume: &Mounted, script: &str, arguments: &[String]) -> Result<(), TrialError> {
    // Below /tmp, because this user may be unable to enter the folders above the build.
    let home = tempfile::tempdir_in("/tmp").unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("mnt")).unwrap();
    fs::copy(&volume.image.data, at("image")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ferroxfs"), at("ferroxfs")).unwrap();
    for path in [home.path().to_owned(), at("mnt"), at("image"), at("ferroxfs")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(home.path()).args(arguments);
    run(&mut unshare);
    fs::copy(at("image"), &volume.image.data).unwrap();
    match volume.image.findings()? {
        Some(findings) => Err(TrialError::Failed(format!("xfs_repair: {findings}"))),
        None => Ok(()),
    }
}
