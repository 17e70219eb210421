//! The smallest volumes of `mkfs --minimize` under the kernel: mounted, written and grown.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, ready_with_programs};

use crate::{check, ferroxfs};

/// The size in bytes to which the volume grows.
const GROWN_BYTES: u64 = 400 << 20;

/// Makes a tree that fills a volume of about 50 MiB.
fn make_tree(tree: &Path) -> std::io::Result<()> {
    for number in 0..800_usize {
        let directory = tree.join(format!("directory-{}", number % 23));
        fs::create_dir_all(&directory)?;
        let contents: Vec<u8> = (0..number % 29 * 3500).map(|at| (at % 251) as u8 + 1).collect();
        fs::write(directory.join(format!("file-{number}")), contents)?;
        if number % 50 == 0 {
            symlink("target", directory.join(format!("link-{number}")))?;
            fs::hard_link(
                directory.join(format!("file-{number}")),
                directory.join(format!("second-{number}")),
            )?;
        }
    }
    Ok(())
}

/// Checks that xfs_repair and the checker of ferroxfs have no findings.
fn check_clean(image: &Image, when: &str) -> Result<(), TrialError> {
    match image.findings()? {
        None => Ok(()),
        Some(findings) => Err(TrialError::Failed(format!("{when}: {findings}"))),
    }
}

/// Changes files without more space, as a full volume allows: contents in place and permissions. A
/// file is removed.
fn change_in_place(root: &Path) -> std::io::Result<()> {
    let file = File::options().write(true).open(root.join("directory-5/file-28"))?;
    file.write_all_at(b"written by the kernel", 0)?;
    file.sync_all()?;
    let other = root.join("directory-6/file-29");
    fs::set_permissions(&other, Permissions::from_mode(0o600))?;
    fs::remove_file(root.join("directory-7/file-30"))
}

/// Checks that two trees have the same names and contents.
fn check_same(one: &Path, other: &Path) {
    let mut diff = Command::new("diff");
    diff.args(["-r", "--no-dereference"]).arg(one).arg(other);
    let same = diff.output().unwrap();
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
}

/// The kernel mounts the volume and shows the files of the tree. It changes files, grows the
/// volume, and makes new files.
pub(super) fn smallest_volume_is_written_and_grown() -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .map_err(|error| TrialError::Failed(error.to_string()))?;
    let tree = folder.path().join("tree");
    make_tree(&tree).map_err(|error| TrialError::Failed(format!("tree: {error}")))?;
    let data = folder.path().join("smallest.img");
    let from = tree.to_str().expect("the folder has a plain name");
    let arguments = ["mkfs", "-q", "--minimize", "--from", from];
    check(&arguments, &ferroxfs(&arguments, &data), &[0])?;
    let image = Image { data, log: None, realtime: None };
    check_clean(&image, "made")?;
    let made = fs::metadata(&image.data).unwrap().len();
    println!("the volume has {made} bytes");

    let mount = image.mount(&[])?;
    check_same(&tree, mount.path());
    change_in_place(mount.path()).unwrap();
    change_in_place(&tree).unwrap();
    mount.unmount()?;
    check_clean(&image, "written")?;

    File::options().write(true).open(&image.data).unwrap().set_len(GROWN_BYTES).unwrap();
    let mount = image.mount(&[])?;
    let grown = Command::new("xfs_growfs").arg(mount.path()).output().unwrap();
    assert!(grown.status.success(), "{}", String::from_utf8_lossy(&grown.stderr));
    check_same(&tree, mount.path());
    let mut large = File::create(mount.path().join("large")).unwrap();
    for _ in 0..250 {
        large.write_all(&vec![7; 1 << 20]).unwrap();
    }
    large.sync_all().unwrap();
    for number in 0..3000 {
        fs::write(mount.path().join(format!("directory-1/new-{number}")), "new").unwrap();
    }
    drop(large);
    mount.unmount()?;
    check_clean(&image, "grown")
}
