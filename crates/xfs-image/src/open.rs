//! Opens a path: an image file in any format, a block device, or a remote disk.

use std::path::Path;
use std::sync::Arc;

use xfs_device::{
    Contents, DeviceAccess, DeviceError, DeviceFailure, FileDevice, OpenOptions, OpenedDevice,
    SharedDevice, detect, open_detected,
};

use crate::error::{FileRole, ImageError, ImageRefusal};
use crate::nbd::{Address, NbdDevice, is_address};
use crate::neighbour::Surroundings;
use crate::{qcow2, vdi, vhdx, vmdk};

/// Opens the image file or block device at `path`, or the remote disk at an address
/// (`nbd://HOST/EXPORT`).
///
/// A file in a format of disk images is opened as the virtual disk inside it. The format is
/// recognised by its magic number, never by the file name. A metadata image of `xfs_metadump` is
/// opened as the volume inside it.
///
/// # Errors
///
/// A [`DeviceFailure`], with the path and advice for the user.
pub fn open_device(path: &Path, options: OpenOptions) -> Result<OpenedDevice, DeviceError> {
    let failed = |failure| DeviceError::new(path, failure);
    if is_address(path) {
        return open_export(path, options).map_err(failed);
    }
    let device = FileDevice::open(path, options)?;
    let contents = detect(&device, 0).map_err(|error| failed(DeviceFailure::Open(error)))?;
    if !is_read_here(contents) {
        return open_detected(path, device, contents, options);
    }
    let usage = device.usage().cloned();
    let opened = Surroundings::of(path, options)
        .and_then(|surroundings| open_image(Arc::new(device), contents, Some(&surroundings)));
    let device = opened.map_err(|error| failed(error.into()))?;
    if options.access() == DeviceAccess::ReadWrite && device.is_read_only() {
        return Err(failed(DeviceFailure::ForeignImage(contents, options.access())));
    }
    Ok(OpenedDevice { device, usage })
}

/// Opens the export of an NBD server at the address `path`, and the virtual disk in it if it holds
/// an image.
fn open_export(path: &Path, options: OpenOptions) -> Result<OpenedDevice, DeviceFailure> {
    let export = NbdDevice::open(&Address::parse(path)?, options)?;
    let contents = detect(&export, 0).map_err(DeviceFailure::Open)?;
    let export: SharedDevice = Arc::new(export);
    if !is_read_here(contents) {
        return Ok(OpenedDevice { device: export, usage: None });
    }
    if options.access() == DeviceAccess::ReadWrite {
        return Err(DeviceFailure::ForeignImage(contents, options.access()));
    }
    Ok(OpenedDevice { device: open_image(export, contents, None)?, usage: None })
}

/// Returns whether this crate reads the format.
const fn is_read_here(contents: Contents) -> bool {
    matches!(contents, Contents::Qcow2 | Contents::Vmdk | Contents::Vhdx | Contents::Vdi)
}

/// Opens the virtual disk in `file`, whose format is `contents`. Without `surroundings`, an image
/// that names other files is refused.
///
/// # Errors
///
/// See [`ImageError`].
pub fn open_image(
    file: SharedDevice,
    contents: Contents,
    surroundings: Option<&Surroundings>,
) -> Result<SharedDevice, ImageError> {
    Ok(match contents {
        Contents::Qcow2 => Arc::new(qcow2::open(file, surroundings)?),
        Contents::Vmdk => Arc::new(vmdk::open(file, surroundings)?),
        Contents::Vhdx => Arc::new(vhdx::open(file)?),
        Contents::Vdi => Arc::new(vdi::open(file)?),
        _ => return Err(ImageError::damaged(contents, "magic number")),
    })
}

/// Opens the disk below an image, which the image calls `name`. `format` is the format that the
/// image states: "raw" means that no format is detected from the bytes.
pub(crate) fn open_below(
    surroundings: Option<&Surroundings>,
    name: &str,
    role: FileRole,
    format: Option<&str>,
) -> Result<SharedDevice, ImageError> {
    let Some(surroundings) = surroundings else {
        return Err(ImageError::refused(Contents::Qcow2, ImageRefusal::ExternalData));
    };
    let neighbour = surroundings.open(name, role, surroundings.reading())?;
    let contents =
        if format == Some("raw") { Contents::Unknown } else { detect(&neighbour.file, 0)? };
    let file: SharedDevice = Arc::new(neighbour.file);
    if !is_read_here(contents) {
        return Ok(file);
    }
    open_image(file, contents, Some(&neighbour.surroundings))
}

#[cfg(test)]
mod tests;
