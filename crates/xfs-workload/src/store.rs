//! The volumes on which workloads run. ferroxfs's own mkfs creates them in memory or in an unnamed
//! file.
//!
//! The file has no name, so it disappears when the process ends, in whatever way.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::device::SharedDevice;
use xfs_device::{FileOptions, MemoryDevice, open_device};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, Size, TargetDevice, write};

use crate::error::WorkloadError;

/// The parameters of a volume.
#[derive(Clone, Copy, Debug)]
pub struct NewVolume {
    /// Number of files for which the volume has room.
    pub files: u64,
    /// Number of allocation groups.
    pub groups: u64,
    /// Log size in bytes.
    pub log_bytes: u64,
    /// Whether the volume has parent pointers.
    pub parents: bool,
}

/// Free space in bytes beyond the space for the files, so that the allocator does not run short of
/// space.
const SPARE_BYTES: u64 = 2 << 30;
/// Space per file in bytes: an inode, a directory entry, and a part of their metadata.
const FILE_BYTES: u64 = 4096;
const SECTOR_BYTES: u32 = 512;

/// The device of a volume that was created for a run.
#[derive(Clone)]
pub struct Store {
    device: SharedDevice,
}

impl Store {
    /// Creates a volume in memory.
    ///
    /// # Errors
    ///
    /// The error of creating the volume.
    pub fn in_memory(volume: &NewVolume) -> Result<Self, WorkloadError> {
        let device = MemoryDevice::new(volume.length_bytes());
        Self::with_device(Arc::new(device), volume)
    }

    /// Creates a volume in an unnamed file in `folder`.
    ///
    /// # Errors
    ///
    /// The error of creating the volume.
    pub fn in_folder(folder: &Path, volume: &NewVolume) -> Result<Self, WorkloadError> {
        let failed = |error: io::Error| WorkloadError::file(folder)(error);
        let named = tempfile::tempdir_in(folder).map_err(failed)?;
        let path = named.path().join("image");
        File::create(&path)
            .and_then(|file| file.set_len(volume.length_bytes()))
            .map_err(WorkloadError::file(&path))?;
        let opened = open_device(&path, FileOptions::read_write())?;
        named.close().map_err(failed)?;
        Self::with_device(opened.device, volume)
    }

    /// Opens the image at `path`, which contains a volume.
    ///
    /// # Errors
    ///
    /// The error of opening the image.
    pub fn open(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Self { device: open_device(path, FileOptions::read_write())?.device })
    }

    fn with_device(device: SharedDevice, volume: &NewVolume) -> Result<Self, WorkloadError> {
        let plan = volume.plan()?;
        let devices = Devices { data: &*device, log: None, realtime: None };
        write(&plan, devices, Discard::No)
            .map_err(|source| WorkloadError::System { what: "making the volume", source })?;
        Ok(Self { device })
    }

    /// Returns the device. The volume starts at the first byte of the device.
    pub(crate) fn device(&self) -> SharedDevice {
        Arc::clone(&self.device)
    }
}

impl NewVolume {
    fn length_bytes(&self) -> u64 {
        SPARE_BYTES + self.log_bytes + self.files * FILE_BYTES
    }

    fn plan(&self) -> Result<Plan, WorkloadError> {
        let mut options = Options::default();
        options.data.agcount = Some(Size::bytes(self.groups));
        // One group, in which all threads meet, is for measurements only.
        options.allow_small = self.groups == 1;
        options.log.size = Some(Size::bytes(self.log_bytes));
        options.features.parent = Some(self.parents);
        let target = TargetDevice {
            data_bytes: self.length_bytes(),
            sector_size: SECTOR_BYTES,
            log_bytes: None,
            realtime_bytes: None,
        };
        let identity = Identity::random()
            .map_err(|source| WorkloadError::System { what: "random numbers", source })?;
        Ok(Plan::new(&options, &target, &identity)?)
    }
}
