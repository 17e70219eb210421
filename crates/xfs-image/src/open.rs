//! Opens a path: an image file in any format, a block device, or a remote disk.

use std::path::Path;
use std::sync::Arc;

use xfs_device::{
    Contents, DeviceAccess, DeviceError, DeviceFailure, FileDevice, FileOptions, OpenedDevice,
    SharedDevice, detect, open_detected,
};

use crate::error::{FileRole, ImageError, ImageRefusal};
use crate::nbd::{Address, NbdDevice};
use crate::neighbour::Surroundings;
#[cfg(feature = "object_store")]
use crate::object::{ObjectDevice, ObjectOptions};
use crate::remote::{Remote, without_credentials};
use crate::{qcow2, vdi, vhd, vhdx, vmdk};

/// Opens the image file or block device at `path`, or the remote disk at an address
/// (`nbd://HOST/EXPORT`). With the feature `object_store`, the object at an address
/// (`https://HOST/PATH`, `s3://BUCKET/KEY`) is opened with the default options.
///
/// A file in a format of disk images is opened as the virtual disk inside it. The format is
/// recognised by its magic number, never by the file name. A metadata image of `xfs_metadump` is
/// opened as the volume inside it.
///
/// # Errors
///
/// A [`DeviceFailure`], with the path and advice for the user.
pub fn open_device(path: &Path, options: FileOptions) -> Result<OpenedDevice, DeviceError> {
    open_with(path, options, |address| open_object(address, options))
}

/// Opens a path or an address as [`open_device`] does, but an object with these options.
///
/// # Errors
///
/// Returns the errors of [`open_device`].
#[cfg(feature = "object_store")]
pub fn open_device_with(
    path: &Path,
    options: FileOptions,
    objects: &ObjectOptions,
) -> Result<OpenedDevice, DeviceError> {
    open_with(path, options, |address| open_object_with(address, options, objects))
}

/// Opens the remote disk at an address for a program that replaces its contents. The contents are
/// not looked at: if they are an image, the virtual disk inside the image is not opened.
///
/// # Errors
///
/// Returns the errors of [`open_device`]. Also an error if `path` is not an address.
pub fn open_remote(path: &Path, options: FileOptions) -> Result<SharedDevice, DeviceError> {
    let remote = match Remote::of(path) {
        Some(Remote::Object) => open_object(path, options),
        // The path of a file is not the address of an export, either.
        Some(Remote::Export) | None => open_export(path, options),
    };
    remote.map_err(|failure| DeviceError::new(&without_credentials(path), failure))
}

/// Opens a path or an address. `open_object` opens an object.
fn open_with(
    path: &Path,
    options: FileOptions,
    open_object: impl FnOnce(&Path) -> Result<SharedDevice, DeviceFailure>,
) -> Result<OpenedDevice, DeviceError> {
    let remote = match Remote::of(path) {
        None => return open_file(path, options),
        Some(Remote::Export) => open_export(path, options),
        Some(Remote::Object) => open_object(path),
    };
    remote
        .and_then(|device| open_inside(device, options))
        .map_err(|failure| DeviceError::new(&without_credentials(path), failure))
}

fn open_file(path: &Path, options: FileOptions) -> Result<OpenedDevice, DeviceError> {
    let failed = |failure| DeviceError::new(path, failure);
    let device = FileDevice::open(path, options)?;
    let contents = detect(&device, 0).map_err(|error| failed(DeviceFailure::Open(error)))?;
    if !is_read_here(contents) {
        let mut opened = open_detected(path, device, contents, options)?;
        let fixed = vhd::open_fixed(&opened.device);
        if let Some(disk) = fixed.map_err(|error| failed(DeviceFailure::Open(error)))? {
            opened.device = disk;
        }
        return Ok(opened);
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

/// Opens the export of an NBD server at the address `path`.
fn open_export(path: &Path, options: FileOptions) -> Result<SharedDevice, DeviceFailure> {
    Ok(Arc::new(NbdDevice::open(&Address::parse(path)?, options)?))
}

#[cfg(feature = "object_store")]
fn open_object(path: &Path, options: FileOptions) -> Result<SharedDevice, DeviceFailure> {
    open_object_with(path, options, &ObjectOptions::new())
}

#[cfg(feature = "object_store")]
fn open_object_with(
    path: &Path,
    options: FileOptions,
    objects: &ObjectOptions,
) -> Result<SharedDevice, DeviceFailure> {
    let address = path.to_str().ok_or(crate::ObjectError::Address("it is not UTF-8"))?;
    Ok(Arc::new(ObjectDevice::open(address, options, objects)?))
}

#[cfg(not(feature = "object_store"))]
fn open_object(_path: &Path, _options: FileOptions) -> Result<SharedDevice, DeviceFailure> {
    Err(DeviceFailure::Source(Box::new(crate::remote::NoObjects)))
}

/// If the remote disk holds a disk image, opens the virtual disk inside the image. Otherwise
/// returns the remote disk.
fn open_inside(remote: SharedDevice, options: FileOptions) -> Result<OpenedDevice, DeviceFailure> {
    let contents = detect(&*remote, 0).map_err(DeviceFailure::Open)?;
    if !is_read_here(contents) {
        return Ok(OpenedDevice { device: remote, usage: None });
    }
    if options.access() == DeviceAccess::ReadWrite {
        return Err(DeviceFailure::ForeignImage(contents, options.access()));
    }
    Ok(OpenedDevice { device: open_image(remote, contents, None)?, usage: None })
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

/// Opens the disk below an image, which the image calls `name`. `format` is the format of that disk
/// according to the image. With "raw", no format is detected from the bytes.
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
