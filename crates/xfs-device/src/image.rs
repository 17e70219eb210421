//! The disk inside a qcow2 image, read-only.
//!
//! Owns: making a device of the reader in the crate `imago`, and naming the features that keep an
//! image from being read. Does **not** own the format. `imago` owns it, except for the images that
//! it does not read ([`clusters`]).
//!
//! Errors of `imago` are not passed on, since their wording is its own. Errors of the host are.
//!
//! An image may never name other files. One with a backing file or an external data file is
//! refused: otherwise its author could make us read any file of the host.

mod clusters;
mod header;

use std::io;
use std::sync::Arc;

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Mapping};

use crate::device::{BlockDevice, Durability, SharedDevice, check_read};
use crate::error::DeviceFailure;
use crate::file::FileDevice;
use clusters::ClusterDevice;
pub use header::ImageRefusal;
use header::{HeaderError, ImageHeader};

const SECTOR_BYTES: u32 = 512;

/// The disk inside a qcow2 image, read by `imago`.
struct ImageDevice {
    disk: FormatAccess<File>,
    file: FileDevice,
}

impl ImageDevice {
    fn open(file: FileDevice) -> io::Result<Self> {
        let storage = File::try_from(file.try_clone_host()?)?;
        let image = Qcow2::<File>::builder(storage).open(DenyImplicitOpenGate::default())?;
        Ok(Self { disk: FormatAccess::new(image), file })
    }
}

/// Opens the disk inside the image.
///
/// # Errors
///
/// [`DeviceFailure::Refused`] names an unsupported feature. [`DeviceFailure::DamagedImage`] reports
/// a damaged header or damaged tables. Images that depend on other files are refused.
pub fn open_qcow2(file: FileDevice) -> Result<SharedDevice, DeviceFailure> {
    let header = match ImageHeader::read(&file) {
        Ok(header) => header,
        Err(HeaderError::Refused(refusal)) => return Err(DeviceFailure::Refused(refusal)),
        Err(HeaderError::Damaged) => return Err(DeviceFailure::DamagedImage),
        Err(HeaderError::Io(error)) => return Err(DeviceFailure::Open(error)),
    };
    if header.has_extended_l2 || header.is_dirty {
        let device = ClusterDevice::new(file, header).ok_or(DeviceFailure::DamagedImage)?;
        return Ok(Arc::new(device));
    }
    match ImageDevice::open(file) {
        Ok(device) => Ok(Arc::new(device)),
        Err(error) if is_of_host(&error) => Err(DeviceFailure::Open(error)),
        Err(_) => Err(DeviceFailure::DamagedImage),
    }
}

/// Returns whether the error comes from the host: errors of `imago` have no number.
fn is_of_host(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// Returns the error of reading through damaged tables.
fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the tables of the qcow2 image are damaged")
}

/// Replaces an error of `imago` by one of ours.
fn in_our_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => error.kind().into(),
        _ if is_of_host(&error) => error,
        _ => damaged(),
    }
}

impl BlockDevice for ImageDevice {
    fn length_bytes(&self) -> u64 {
        self.disk.size()
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let found = self.disk.get_mapping(at, rest.len() as u64);
            let (mapping, length) = found.map_err(in_our_words)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let Some((piece, after)) = rest.split_at_mut_checked(length.max(1)) else { break };
            match mapping {
                // Not read through `imago`, which returns zeros where the file was truncated.
                Mapping::Raw { offset, .. } => self.file.read_at(offset, piece)?,
                Mapping::Zero { .. } => piece.fill(0),
                Mapping::Special { .. } => {
                    self.disk.read(&mut *piece, at).map_err(in_our_words)?;
                }
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8], _durability: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
