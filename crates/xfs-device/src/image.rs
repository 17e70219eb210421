//! The disk inside a qcow2 image, for reading.
//!
//! Owns: making a device of the library's reader. Does **not** own the format: that is the crate
//! `imago`'s.
//!
//! An image is never allowed to name other files: one with a backing file or an external data file
//! is refused, since whoever made it could otherwise have us read any file of the host.

use std::io;

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Mapping};

use crate::device::{BlockDevice, Durability, check_read};
use crate::file::FileDevice;

const SECTOR_BYTES: u32 = 512;

/// The disk inside a qcow2 image.
pub struct ImageDevice {
    disk: FormatAccess<File>,
    file: FileDevice,
}

impl ImageDevice {
    /// Opens the disk inside the image.
    ///
    /// # Errors
    ///
    /// What the library says; in particular, images that depend on other files are refused.
    pub fn open(file: FileDevice) -> io::Result<Self> {
        let storage = File::try_from(file.try_clone_host()?)?;
        let image = Qcow2::<File>::builder(storage).open(DenyImplicitOpenGate::default())?;
        Ok(Self { disk: FormatAccess::new(image), file })
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
            let (mapping, length) = self.disk.get_mapping(at, rest.len() as u64)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let Some((piece, after)) = rest.split_at_mut_checked(length.max(1)) else { break };
            match mapping {
                // Read by ourselves: the library fills up with zeros where the file was cut short.
                Mapping::Raw { offset, .. } => self.file.read_at(offset, piece)?,
                Mapping::Zero { .. } => piece.fill(0),
                Mapping::Special { .. } => self.disk.read(&mut *piece, at)?,
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
