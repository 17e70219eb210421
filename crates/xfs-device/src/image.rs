//! The disk inside a qcow2 image, read-only.
//!
//! Owns: the device type for all images, access to images that the crate `imago` reads, and the
//! names of unsupported features. Does **not** own the format. `imago` owns it, except for the
//! images that it does not read ([`clusters`]).
//!
//! Errors of `imago` are replaced by errors in the words of ferroxfs. Errors of the host are passed
//! on.
//!
//! An image with a backing file or an external data file is refused. Otherwise the author of an
//! image could make ferroxfs read any file of the host.

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
use clusters::ClusterTables;
pub use header::ImageRefusal;
use header::{HeaderError, ImageHeader};

const SECTOR_BYTES: u32 = 512;

/// Where a range of the virtual disk is stored.
enum ClusterLocation {
    /// The range is not stored in the image file, and reads as zeros.
    Zeros,
    /// The range is stored from this byte of the image file on.
    Host(u64),
    /// The range is in a cluster that is not stored as plain bytes, such as a compressed one.
    /// `ClusterMap::read_encoded` reads it. The value has a meaning only for the map.
    Encoded(u64),
}

/// The map from offsets of the virtual disk to bytes of the image file.
trait ClusterMap: Send + Sync {
    /// Returns the length of the virtual disk in bytes.
    fn length_bytes(&self) -> u64;

    /// Returns where the byte at `offset` of the virtual disk is stored. Also returns how many
    /// bytes from `offset` on, at most `length_bytes`, have the same kind of location.
    fn find(
        &self,
        file: &FileDevice,
        offset: u64,
        length_bytes: u64,
    ) -> io::Result<(ClusterLocation, u64)>;

    /// Reads a part of an encoded cluster into `piece`. The part starts at `offset` of the virtual
    /// disk. `encoded` is the value that `find` has returned.
    fn read_encoded(
        &self,
        file: &FileDevice,
        offset: u64,
        encoded: u64,
        piece: &mut [u8],
    ) -> io::Result<()>;
}

/// The virtual disk inside a qcow2 image, as a device.
struct ImageDevice<M> {
    file: FileDevice,
    map: M,
}

/// The map of an image that the crate `imago` reads.
struct ImagoMap(FormatAccess<File>);

impl ImagoMap {
    fn open(file: &FileDevice) -> io::Result<Self> {
        let storage = File::try_from(file.try_clone_host()?)?;
        let image = Qcow2::<File>::builder(storage).open(DenyImplicitOpenGate::default())?;
        Ok(Self(FormatAccess::new(image)))
    }
}

/// Opens the virtual disk inside the image.
///
/// # Errors
///
/// [`DeviceFailure::Refused`] names an unsupported feature, such as a dependency on other files.
/// [`DeviceFailure::DamagedImage`] reports a damaged header or damaged tables.
pub fn open_qcow2(file: FileDevice) -> Result<SharedDevice, DeviceFailure> {
    let header = match ImageHeader::read(&file) {
        Ok(header) => header,
        Err(HeaderError::Refused(refusal)) => return Err(DeviceFailure::Refused(refusal)),
        Err(HeaderError::Damaged) => return Err(DeviceFailure::DamagedImage),
        Err(HeaderError::Io(error)) => return Err(DeviceFailure::Open(error)),
    };
    if header.has_extended_l2 || header.is_dirty {
        let map = ClusterTables::new(header).ok_or(DeviceFailure::DamagedImage)?;
        return Ok(Arc::new(ImageDevice { file, map }));
    }
    match ImagoMap::open(&file) {
        Ok(map) => Ok(Arc::new(ImageDevice { file, map })),
        Err(error) if is_of_host(&error) => Err(DeviceFailure::Open(error)),
        Err(_) => Err(DeviceFailure::DamagedImage),
    }
}

/// Returns whether the error comes from the host. Errors of `imago` have no OS error number.
fn is_of_host(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// Returns the error for damaged tables.
fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the tables of the qcow2 image are damaged")
}

/// Returns an error of the host unchanged, and the error for damaged tables in place of any other.
fn in_our_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => error.kind().into(),
        _ if is_of_host(&error) => error,
        _ => damaged(),
    }
}

impl ClusterMap for ImagoMap {
    fn length_bytes(&self) -> u64 {
        self.0.size()
    }

    fn find(
        &self,
        _file: &FileDevice,
        offset: u64,
        length_bytes: u64,
    ) -> io::Result<(ClusterLocation, u64)> {
        let (mapping, length) = self.0.get_mapping(offset, length_bytes).map_err(in_our_words)?;
        let location = match mapping {
            Mapping::Raw { offset, .. } => ClusterLocation::Host(offset),
            Mapping::Zero { .. } => ClusterLocation::Zeros,
            Mapping::Special { .. } => ClusterLocation::Encoded(0),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Ok((location, length))
    }

    fn read_encoded(
        &self,
        _file: &FileDevice,
        offset: u64,
        _encoded: u64,
        piece: &mut [u8],
    ) -> io::Result<()> {
        self.0.read(piece, offset).map_err(in_our_words)
    }
}

impl<M: ClusterMap> BlockDevice for ImageDevice<M> {
    fn length_bytes(&self) -> u64 {
        self.map.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (location, length) = self.map.find(&self.file, at, rest.len() as u64)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let Some((piece, after)) = rest.split_at_mut_checked(length.max(1)) else { break };
            match location {
                ClusterLocation::Zeros => piece.fill(0),
                // Not read through `imago`, which returns zeros where the file was truncated.
                ClusterLocation::Host(host) => self.file.read_at(piece, host)?,
                ClusterLocation::Encoded(encoded) => {
                    self.map.read_encoded(&self.file, at, encoded, piece)?;
                }
            }
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64, _durability: Durability) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
