//! Tests of parsing text in the form of procfs. Real mounts need privilege and are not tested here.

use std::path::{Path, PathBuf};

use super::{KernelUse, device_name, is_host_managed_model, parse_mount, unescape};
use crate::error::{DeviceError, DeviceFailure};
use crate::file::DeviceAccess;

#[test]
fn mountinfo_line_gives_device_and_mount_point() {
    let line = b"36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - xfs /dev/root rw";
    let expected = ("98:0".to_owned(), PathBuf::from("/mnt two"));
    assert_eq!(parse_mount(line), Some(expected));
    assert_eq!(parse_mount(b"36 35 98:0 /mnt1"), None);
    assert_eq!(parse_mount(b""), None);
}

#[test]
fn unescape_decodes_escapes_only() {
    assert_eq!(unescape(b"a\\134b\\011"), b"a\\b\t");
    assert_eq!(unescape(b"\\9\\04"), b"\\9\\04");
    assert_eq!(unescape(b"\\777"), b"\\777");
}

#[test]
fn device_name_equals_that_of_the_kernel() {
    assert_eq!(device_name(rustix::fs::makedev(259, 12)), "259:12");
}

#[test]
fn loop_device_conflicts_with_writers_only() {
    let attached = KernelUse::Loop { device: PathBuf::from("/dev/loop0") };
    assert!(!attached.conflicts(DeviceAccess::ReadOnly));
    assert!(attached.conflicts(DeviceAccess::ReadWrite));
    let mounted = KernelUse::Mounted { mount_point: PathBuf::from("/mnt") };
    assert!(mounted.conflicts(DeviceAccess::ReadOnly));
}

#[test]
fn live_hint_is_given_to_readers_only() {
    let hint = |access| {
        let mounted = KernelUse::Mounted { mount_point: PathBuf::from("/mnt") };
        let error = DeviceError::new(Path::new("image"), DeviceFailure::InUse(mounted, access));
        error.hint().unwrap_or_default()
    };
    assert!(hint(DeviceAccess::ReadOnly).contains("--live"));
    assert_eq!(hint(DeviceAccess::ReadWrite), "unmount it");
}

#[test]
fn only_host_managed_zones_need_writes_in_order() {
    assert!(is_host_managed_model("host-managed"));
    assert!(!is_host_managed_model("none") && !is_host_managed_model("host-aware"));
}
