//! The checker of ferroxfs (`xfs-check`), in the form in which tests call it.

use std::sync::Arc;

use xfs_check::{CheckOptions, CheckedDevices};
use xfs_device::{BlockDevice, SharedDevice};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_log::{LogDevice, find_head_and_tail};

/// Length in bytes of the largest possible sector.
const SECTOR_BYTES: usize = 32 << 10;
/// The most findings of the checker that a verdict contains.
const MOST_FINDINGS: usize = 20;

/// The verdict of our checker on a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckerVerdict {
    /// The findings that are damage (more severe than `preen`), and the parts that were not
    /// checked. Empty for a clean volume.
    Findings(Vec<String>),
    /// The log is dirty, so nothing was checked: the checker looks only at recovered volumes.
    DirtyLog,
    /// The superblock or the log cannot be read, for this reason.
    Unreadable(String),
    /// The volume has a feature that the checker refuses, with this message.
    Refused(String),
}

/// The devices of a volume.
#[derive(Clone, Copy)]
pub struct VolumeDevices<'a> {
    /// The data device.
    pub data: &'a SharedDevice,
    /// The log device. It is `data` unless the log has a device of its own.
    pub log: &'a SharedDevice,
    /// The realtime device, if there is one.
    pub realtime: Option<&'a SharedDevice>,
}

/// Checks a volume with our checker. `log` is `data` unless the log has a device of its own.
#[must_use]
pub fn check_volume(data: &SharedDevice, log: &SharedDevice) -> CheckerVerdict {
    check_devices(VolumeDevices { data, log, realtime: None })
}

/// Checks a volume with all its devices with our checker.
#[must_use]
pub fn check_devices(devices: VolumeDevices<'_>) -> CheckerVerdict {
    let VolumeDevices { data, log, realtime } = devices;
    // A damaged device may be shorter than a sector.
    let length = usize::try_from(data.length_bytes()).unwrap_or(SECTOR_BYTES).min(SECTOR_BYTES);
    let mut sector = vec![0; length];
    if let Err(error) = data.read_at(&mut sector, 0) {
        return CheckerVerdict::Unreadable(format!("the superblock: {error}"));
    }
    let place = StructureAddress::Disk(DiskAddr(0));
    let superblock = match Superblock::decode(&sector, place) {
        Ok(superblock) => superblock,
        Err(error) => return CheckerVerdict::Unreadable(format!("the superblock: {error}")),
    };
    let state =
        LogDevice::new(Arc::clone(log), &superblock).and_then(|log| find_head_and_tail(&log));
    let state = match state {
        Ok(state) if state.clean => state,
        Ok(_) => return CheckerVerdict::DirtyLog,
        Err(error) => return CheckerVerdict::Unreadable(format!("the log: {error}")),
    };
    let options = CheckOptions::default().log_head(state.head);
    let realtime = realtime.map(|device| &**device as &dyn BlockDevice);
    let checked = CheckedDevices { data: &**data, realtime };
    let report = match xfs_check::check_devices(checked, &superblock, &options, &()) {
        Ok(report) => report,
        Err(reason) => return CheckerVerdict::Refused(reason.to_string()),
    };
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    let findings = damage.map(|finding| format!("check: {finding}"));
    let unchecked = report.unchecked.iter().map(|part| format!("unchecked: {}", part.what));
    CheckerVerdict::Findings(findings.chain(unchecked).take(MOST_FINDINGS).collect())
}
