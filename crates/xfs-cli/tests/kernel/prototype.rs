//! Tests that volumes filled by ferroxfs and by mkfs.xfs look the same when the kernel mounts them.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs, ready};

const PROTOTYPE: &str = "/title
4872 110
d--755 3 1
usr\td--775 3 1
sh   -ug755 3 1 contents
ken  d--700 6 1
     deep ---600 70000 70001 contents
     $
b0   b--644 3 1 8 17
c0   c--644 3 1 5 1
fifo p-g644 3 1
link l--777 3 1 /a/symbolic/link
a/b  ---444 0 0 holes
:  This is a comment line $
$
empty d--755 0 0 $
$
";

pub(crate) fn matches_mkfs_xfs() -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = folder.path();
    fs::write(place.join("prototype"), PROTOTYPE).unwrap();
    fs::write(place.join("contents"), "contents of a file").unwrap();
    rustix::fs::setxattr(place.join("contents"), "user.note", b"kept", XattrFlags::empty())
        .unwrap();
    let holes = File::create(place.join("holes")).unwrap();
    holes.set_len(1 << 20).unwrap();
    fs::create_dir_all(place.join("tree/sub")).unwrap();
    fs::set_permissions(place.join("tree/sub"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::copy(place.join("contents"), place.join("tree/one")).unwrap();
    fs::hard_link(place.join("tree/one"), place.join("tree/sub/two")).unwrap();
    symlink("nowhere", place.join("tree/link")).unwrap();
    for options in ["file=prototype,slashes_are_spaces=1", "tree"] {
        let theirs = shown(Xfsprogs::newer()?.command("mkfs.xfs").arg("-f"), place, options)?;
        let mut ours = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        let ours = shown(ours.args(["mkfs", "-f"]), place, options)?;
        assert_eq!(ours, theirs, "-p {options}");
        assert!(theirs.lines().count() > 4, "{theirs}");
    }
    Ok(())
}

/// Makes a volume with the command `mkfs`, and mounts it with the kernel. Returns, as text, the
/// properties, checksums and attributes that the kernel shows of all files.
fn shown(mkfs: &mut Command, place: &Path, options: &str) -> Result<String, TrialError> {
    let data = place.join("volume");
    File::create(&data).unwrap().set_len(320 << 20).unwrap();
    let output = mkfs.args(["-q", "-p", options, "volume"]).current_dir(place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mkfs:?}: {said}");
    let image = Image { data, log: None, realtime: None };
    if let Some(findings) = image.findings()? {
        return Err(TrialError::Failed(findings));
    }
    let mount = image.mount(&["ro"])?;
    let script = "find . -printf '%P %M %U %G %s %b %n %l\\n' | sort; \
                  find . -type f -exec md5sum {} + | sort; \
                  getfattr -Rdh . | sort; stat -c '%n %t %T' usr/b0 usr/c0; true";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).current_dir(mount.path()).output().unwrap();
    mount.unmount()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
