//! Tests of finding the process that holds a lock. The test process itself holds the lock.

use std::os::unix::fs::MetadataExt;

use super::{LockHolder, lock_of};
use crate::file::DeviceAccess;

#[test]
fn lines_of_locks_name_a_process() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let line = |kind: &str, process: &str, inode: u64| {
        format!("1: {kind}  ADVISORY  WRITE {process} {major:02x}:{minor:02x}:{inode} 0 EOF")
    };
    let inode = metadata.ino();
    assert_eq!(lock_of(&line("FLOCK", "77", inode), &metadata), Some(77));
    for other in [
        line("POSIX", "77", inode),
        line("FLOCK", "0", inode),
        line("FLOCK", "-1", inode),
        line("FLOCK", "77", inode + 1),
        // It waits for the lock.
        line("-> FLOCK", "77", inode),
        "1:".to_owned(),
    ] {
        assert_eq!(lock_of(&other, &metadata), None, "{other}");
    }
}

#[test]
fn hint_fits_the_lock_holder() {
    let holder = |mount_point: Option<&str>| LockHolder {
        process: 7,
        command: "ferroxfs put a.img:/f".to_owned(),
        mount_point: mount_point.map(Into::into),
        others: 0,
    };
    let mounted = holder(Some("/mnt"));
    let said = "another program has it open: it is mounted at /mnt (process 7)";
    assert_eq!(mounted.to_string(), said);
    assert_eq!(mounted.hint(DeviceAccess::ReadWrite), "unmount it (ferroxfs umount /mnt)");
    let plain = holder(None);
    assert!(plain.to_string().contains("process 7 (ferroxfs put a.img:/f)"));
    assert!(plain.hint(DeviceAccess::ReadOnly).ends_with("--live"));
    assert!(!plain.hint(DeviceAccess::ReadWrite).contains("umount"));
}
