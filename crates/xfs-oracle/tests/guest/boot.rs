//! Tests of the guest itself: it boots, has its images and programs, and returns the script's
//! result.

use std::fs::File;

use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("guest_new_kernel_writes_to_an_image", || check_write(GuestKernel::New)),
        Trial::new("guest_v4_kernel_writes_to_an_image", || check_write(GuestKernel::V4)),
    ]
}

/// Boots a guest that makes, mounts and writes a volume and ends with status 7. Checks this status,
/// and reads the written data from the image with xfs_db, so that no second boot is needed.
fn check_write(kernel: GuestKernel) -> Result<(), TrialError> {
    let guest = Guest::new(kernel)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let image = folder.path().join("image");
    let file = File::create(&image).map_err(|error| error.to_string())?;
    file.set_len(64 << 20).map_err(|error| error.to_string())?;
    let options = ["-q", "--unsupported", "-n", "parent=0", "-i", "exchange=0"];
    let programs = Xfsprogs::newer()?;
    let output = programs.command("mkfs.xfs").args(options).arg(&image).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let output = guest.image(&image).file("word", b"hello").script(SCRIPT).run()?;
    if output.status != 7 || !output.text.contains("hello u1003 mine") {
        return Err(format!("{output:?}").into());
    }
    if !output.kernel_log.contains("XFS (vda)") {
        return Err(format!("the kernel's log lacks the mount: {output:?}").into());
    }
    let mut database = programs.command("xfs_db");
    database.args(["-r", "-c", "path /d/f", "-c", "print core.uid core.projid_lo"]).arg(&image);
    let shown = database.output().map_err(|error| error.to_string())?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    if shown.contains("core.uid = 1003") { Ok(()) } else { Err(shown.into()) }
}

const SCRIPT: &str = "mount /dev/vda /mnt || exit 1
mkdir /mnt/d; chown u1003 /mnt/d
su u1003 -c 'touch /mnt/d/f; setfattr -n user.a -v mine /mnt/d/f'
echo $(cat /in/word) $(stat -c %U /mnt/d/f) $(getfattr -n user.a /mnt/d/f | grep -o mine)
exit 7
";
