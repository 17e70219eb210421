//! Detects existing contents of a device, so that a new volume does not overwrite them by mistake.

use std::fmt;
use std::io;

use xfs_device::{BlockDevice, Contents, PartitionError};

/// Existing data on a device that a new volume would overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupied {
    /// A filesystem, or another format with a known magic number.
    Contents(Contents),
    /// An XFS volume whose first sector is damaged, which can be repaired.
    DamagedXfs,
    /// A partition table.
    Partitions,
}

impl fmt::Display for Occupied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contents(contents) => contents.fmt(f),
            Self::DamagedXfs => f.write_str("a damaged XFS volume"),
            Self::Partitions => f.write_str("a partition table"),
        }
    }
}

/// Checks the device for data that may be worth keeping. Returns `None` if none is found.
///
/// # Errors
///
/// The error of the device.
pub fn find_contents(device: &dyn BlockDevice) -> io::Result<Option<Occupied>> {
    match xfs_device::detect(device, 0)? {
        Contents::Zeros | Contents::Unknown if xfs_device::has_group_headers(device)? => {
            return Ok(Some(Occupied::DamagedXfs));
        }
        Contents::Zeros | Contents::Unknown | Contents::Empty => {}
        contents => return Ok(Some(Occupied::Contents(contents))),
    }
    match xfs_device::partitions(device) {
        Ok(None) => Ok(None),
        Err(PartitionError::Io(error)) => Err(error),
        Ok(Some(_)) | Err(_) => Ok(Some(Occupied::Partitions)),
    }
}
