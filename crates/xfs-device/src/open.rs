//! Opens a path: an image, a block device, or a virtual disk in an image file.

use std::path::Path;
use std::sync::Arc;

use crate::device::SharedDevice;
use crate::error::{DeviceError, DeviceFailure};
use crate::file::{DeviceAccess, FileDevice, OpenOptions};
use crate::metadump::open_metadump;
use crate::signature::{self, Contents};
use crate::usage::Usage;

/// An open device, and another user of its bytes, if there is one.
pub struct OpenedDevice {
    /// The device.
    pub device: SharedDevice,
    /// A user of the device other than this process, if the device was opened although it is in
    /// use. The bytes read may be stale.
    pub usage: Option<Usage>,
}

/// Opens the image file or block device at `path`. With the feature `disk-images`, a qcow2 image is
/// opened read-only as the virtual disk inside it. A metadata image of `xfs_metadump` is opened
/// read-only as the volume inside it.
///
/// # Errors
///
/// A [`DeviceFailure`], with the path and advice for the user. Virtual disks in other formats are
/// refused, with the name of the format.
pub fn open_device(path: &Path, options: OpenOptions) -> Result<OpenedDevice, DeviceError> {
    let failed = |failure| DeviceError::new(path, failure);
    let device = FileDevice::open(path, options)?;
    let usage = device.usage().cloned();
    let contents =
        signature::detect(&device, 0).map_err(|error| failed(DeviceFailure::Open(error)))?;
    if contents == Contents::XfsMetadump {
        if options.access() != DeviceAccess::ReadOnly {
            return Err(failed(DeviceFailure::ForeignImage(contents, options.access())));
        }
        let device = open_metadump(Arc::new(device));
        let device = device.map_err(|error| failed(DeviceFailure::Metadump(error)))?;
        return Ok(OpenedDevice { device: Arc::new(device), usage });
    }
    if !contents.is_disk_image() {
        return Ok(OpenedDevice { device: Arc::new(device), usage });
    }
    let device = open_image(device, contents, options).map_err(failed)?;
    Ok(OpenedDevice { device, usage })
}

#[cfg(feature = "disk-images")]
fn open_image(
    device: FileDevice,
    contents: Contents,
    options: OpenOptions,
) -> Result<SharedDevice, DeviceFailure> {
    use crate::image::open_qcow2;

    if contents != Contents::Qcow2 || options.access() != DeviceAccess::ReadOnly {
        return Err(DeviceFailure::ForeignImage(contents, options.access()));
    }
    open_qcow2(device)
}

#[cfg(not(feature = "disk-images"))]
fn open_image(
    _device: FileDevice,
    contents: Contents,
    options: OpenOptions,
) -> Result<SharedDevice, DeviceFailure> {
    Err(DeviceFailure::ForeignImage(contents, options.access()))
}

#[cfg(test)]
mod tests;
