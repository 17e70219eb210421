//! The devices of a volume in memory. All devices of a volume are parts of one recorded device, so
//! that a power cut hits all of them at one moment.
//!
//! ```text
//! one device           | data                                       |
//! log of its own       | data                     | log             |
//! realtime of its own  | data                     | realtime        |
//! internal zones       | data section ¦ zones                       |
//! ```

use std::path::Path;
use std::sync::Arc;

use ferroxfs::OpenOptions;
use ferroxfs::device::{Devices, SharedDevice};
use ferroxfs::raw::Superblock;
use xfs_device::{FileDevice, WindowDevice};
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{CheckerVerdict, Image, VolumeDevices, check_devices};
use xfs_testkit::{Atomicity, CowDevice, JoinedDevice, RecordingDevice};

use crate::text;

/// Returns an image as a device, on which copy-on-write devices in memory can be based. If the log
/// or the realtime section has a device of its own, that device follows the data.
pub(crate) fn base(image: &Image) -> Result<SharedDevice, TrialError> {
    let open = |path: &Path| -> Result<SharedDevice, TrialError> {
        let file = patiently(|| FileDevice::open(path, xfs_device::FileOptions::read_only()));
        Ok(Arc::new(file.map_err(text)?))
    };
    let data = open(&image.data)?;
    Ok(match image.log.as_ref().or(image.realtime.as_ref()) {
        Some(other) => Arc::new(JoinedDevice::new(data, open(other)?)),
        None => data,
    })
}

/// The devices of a volume. No volume of these tests has both a log and a realtime section on
/// devices of their own.
pub(crate) struct VolumeDisks {
    data: SharedDevice,
    /// The log device, if the log has a device of its own.
    log: Option<SharedDevice>,
    /// The realtime device, if there is one.
    realtime: Option<SharedDevice>,
}

impl VolumeDisks {
    /// Returns the devices whose requests are recorded in `whole`. A flush of one device makes
    /// nothing on the other one durable.
    pub(crate) fn of_recorder(whole: &Arc<RecordingDevice>) -> Self {
        Self::of(whole.clone(), |boundary| whole.split(boundary))
    }

    /// Returns the devices of a volume whose bytes are all in `whole`. A flush of one device
    /// flushes all of them.
    pub(crate) fn inside(whole: SharedDevice) -> Self {
        Self::of(whole.clone(), |boundary| {
            [(0, boundary), (boundary, whole.length_bytes().saturating_sub(boundary))].map(
                |(start, length)| {
                    Arc::new(WindowDevice::new(whole.clone(), start, length)) as SharedDevice
                },
            )
        })
    }

    fn of(whole: SharedDevice, split: impl FnOnce(u64) -> [SharedDevice; 2]) -> Self {
        let found = OpenOptions::new().with_devices(whole.clone(), None).describe();
        let Some(superblock) = found.ok().map(|found| found.superblock) else {
            return Self { data: whole, log: None, realtime: None };
        };
        let boundary = superblock.geometry.data_bytes();
        if superblock.has_external_log() {
            let [data, log] = split(boundary);
            return Self { data, log: Some(log), realtime: None };
        }
        if has_realtime_device(&superblock) {
            let [data, realtime] = split(boundary);
            return Self { data, log: None, realtime: Some(realtime) };
        }
        Self { data: whole, log: None, realtime: None }
    }

    /// Returns whether the volume has a realtime section, on a device of its own or in zones after
    /// the data section.
    pub(crate) fn have_section(&self) -> bool {
        let found = OpenOptions::new().with_devices(self.data.clone(), None).describe();
        found.is_ok_and(|found| found.superblock.has_realtime())
    }

    /// Returns the data device.
    pub(crate) fn data(&self) -> &SharedDevice {
        &self.data
    }

    /// Returns the devices as a volume that `options` opens or recovers.
    pub(crate) fn with(self, options: &OpenOptions) -> Devices {
        let Self { data, log, realtime } = self;
        let devices = options.with_devices(data, log);
        match realtime {
            Some(realtime) => devices.with_realtime(realtime),
            None => devices,
        }
    }

    /// Returns the verdict of our checker on the volume.
    pub(crate) fn check(&self) -> CheckerVerdict {
        let log = self.log.as_ref().unwrap_or(&self.data);
        let realtime = self.realtime.as_ref();
        check_devices(VolumeDevices { data: &self.data, log, realtime })
    }
}

fn has_realtime_device(superblock: &Superblock) -> bool {
    superblock.has_realtime() && !superblock.geometry.realtime.is_internal()
}

/// Returns the verdict of our checker on the volume whose devices are all in `device`.
pub(crate) fn checked(device: CowDevice) -> CheckerVerdict {
    VolumeDisks::inside(Arc::new(device)).check()
}

/// Returns the atomicity of writes to a volume: the sizes of the units that a power cut never
/// tears. Log records and contents of realtime files are torn into sectors.
pub(crate) fn atomicity(superblock: &Superblock) -> Atomicity {
    let atomicity = Atomicity::of(superblock);
    // A second device, or zones, follow the data section.
    let end = superblock.geometry.data_bytes();
    match superblock.has_external_log() || superblock.has_realtime() {
        true => atomicity.torn(end..u64::MAX),
        false => atomicity,
    }
}
