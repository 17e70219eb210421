//! Volumes that `mkfs` has filled with quota on. A guest mounts them with quota: it does not count
//! again, reports the same usage and limits, and enforces them. The kernel of a test machine may
//! have no quota.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use tempfile::TempDir;
use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::TrialError;

use crate::{check, ferroxfs};

/// The script of the guest. The first mount must find right counts. After a mount without quota,
/// the next one counts again, and must find the same.
const SCRIPT: &str = "
report() { for kind in -u -g -p; do
    xfs_quota -x -c \"report -n -N -bi $kind\" /mnt | awk 'NF {print $1, $2, $3, $4, $7, $8, $9}'
  done; }
counted() { dmesg | grep -c \"vd$1): Quotacheck needed\"; }
up() { mount -t xfs -o $2 /dev/vd$1 /mnt && return; dmesg | tail -20; exit 1; }
for drive in a b; do
  all=usrquota,grpquota,prjquota
  # The superblock of b turns quota on.
  options=defaults; [ $drive = a ] && options=$all
  up $drive $options
  report > /tmp/first; cat /tmp/first
  dd if=/dev/zero of=/mnt/srv/web/much bs=64k count=40 2>/dev/null && echo too much
  echo $(stat -c %s /mnt/srv/web/much) bytes were written
  rm /mnt/srv/web/much
  umount /mnt || exit 1
  echo counted $(counted $drive) times
  up $drive noquota; umount /mnt || exit 1
  up $drive $all
  report > /tmp/second; cmp /tmp/first /tmp/second || cat /tmp/second
  umount /mnt || exit 1
  echo counted $(counted $drive) times
done
";

/// The lines of the report for one volume: id, blocks of 1 KiB, soft and hard limit, inodes, soft
/// and hard limit. Root has `inodes` of them, and one less is in no project.
fn report(inodes: u32) -> String {
    format!(
        "#0 12 0 0 {inodes} 0 0
#1000 296 0 0 2 100 200
#0 12 0 0 {inodes} 0 0
#1001 296 0 0 2 0 0
#0 12 0 0 {} 0 0
#42 296 512 1024 3 0 0
720896 bytes were written
counted 0 times
counted 1 times
",
        inodes - 1
    )
}

fn make(place: &Path, image: &Path, options: &[&str]) -> Result<(), TrialError> {
    let tree = place.join("tree");
    let arguments = [
        &["mkfs", "-q", "-d", "size=320m", "--from", tree.to_str().expect("a path")] as &[&str],
        &["--project", "/srv/web=42", "--limit", "project=42:bsoft=512k,bhard=1m"],
        &["--limit", "user=1000:isoft=100,ihard=200"],
        options,
    ]
    .concat();
    check(&arguments, &ferroxfs(&arguments, image), &[0])?;
    let repair = Xfsprogs::newer()?.command("xfs_repair").args(["-n", "-f"]).arg(image).output();
    let repair = repair.map_err(|error| TrialError::Failed(error.to_string()))?;
    match repair.status.success() {
        true => Ok(()),
        false => Err(TrialError::Failed(String::from_utf8_lossy(&repair.stderr).into_owned())),
    }
}

pub(crate) fn is_that_of_a_guest() -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?.script(SCRIPT);
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("tree/srv/web")).unwrap();
    fs::create_dir(place.join("tree/etc")).unwrap();
    for (file, length, owner) in
        [("srv/web/index", 300_000, Some((1000, 1001))), ("etc/other", 10_000, None)]
    {
        let path = place.join("tree").join(file);
        fs::write(&path, vec![b'x'; length]).unwrap();
        if let Some((user, group)) = owner {
            chown(&path, Some(user), Some(group)).unwrap();
        }
    }
    std::os::unix::fs::symlink("index", place.join("tree/srv/web/link")).unwrap();
    std::os::unix::fs::lchown(place.join("tree/srv/web/link"), Some(1000), Some(1001)).unwrap();
    let (plain, directory) = (place.join("plain"), place.join("directory"));
    make(place, &plain, &["--quota", "uquota,gquota,pquota"])?;
    make(place, &directory, &["-m", "uquota,gquota,pquota"])?;
    let said = guest.image(&plain).image(&directory).run()?.checked()?;
    // The file may grow to the hard limit, less the blocks that the project has. The files of
    // quota and realtime space count as files of root, outside of a metadata directory.
    let expected = [report(7), report(5)].concat();
    match said == expected {
        true => Ok(()),
        false => Err(TrialError::Failed(format!("the guest says:\n{said}expected:\n{expected}"))),
    }
}
