//! Opens an image, a block device or a metadata image by its path.

use std::path::Path;
use std::sync::Arc;

use crate::device::SharedDevice;
use crate::error::{DeviceError, DeviceFailure};
use crate::file::{DeviceAccess, FileDevice, FileOptions};
use crate::metadump::open_metadump;
use crate::signature::{self, Contents};
use crate::usage::KernelUse;

/// An open device. Also says whether the kernel uses its bytes, for example for a mount.
pub struct OpenedDevice {
    /// The device.
    pub device: SharedDevice,
    /// How the kernel uses the device (a mount or a loop device), if the device was opened although
    /// it is in use. The bytes read may be stale.
    pub usage: Option<KernelUse>,
}

/// Opens the image file or block device at `path`. A metadata image of `xfs_metadump` is opened
/// read-only as the volume inside it.
///
/// # Errors
///
/// A [`DeviceFailure`], with the path and advice for the user. Virtual disks in image files are
/// refused, with the name of the format; the crate `xfs-image` opens them.
pub fn open_device(path: &Path, options: FileOptions) -> Result<OpenedDevice, DeviceError> {
    let device = FileDevice::open(path, options)?;
    let contents = signature::detect(&device, 0)
        .map_err(|error| DeviceError::new(path, DeviceFailure::Open(error)))?;
    open_detected(path, device, contents, options)
}

/// Continues [`open_device`] for a caller that has opened the file at `path` and detected its
/// `contents`.
///
/// # Errors
///
/// Returns the errors of [`open_device`].
pub fn open_detected(
    path: &Path,
    device: FileDevice,
    contents: Contents,
    options: FileOptions,
) -> Result<OpenedDevice, DeviceError> {
    let failed = |failure| DeviceError::new(path, failure);
    let usage = device.usage().cloned();
    if contents == Contents::XfsMetadump {
        if options.access() != DeviceAccess::ReadOnly {
            return Err(failed(DeviceFailure::ForeignImage(contents, options.access())));
        }
        let device = open_metadump(Arc::new(device));
        let device = device.map_err(|error| failed(DeviceFailure::Metadump(error)))?;
        return Ok(OpenedDevice { device: Arc::new(device), usage });
    }
    if contents.is_disk_image() {
        return Err(failed(DeviceFailure::ForeignImage(contents, options.access())));
    }
    Ok(OpenedDevice { device: Arc::new(device), usage })
}

#[cfg(test)]
mod tests;
