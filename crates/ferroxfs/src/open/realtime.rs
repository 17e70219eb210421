//! Checks of the realtime device against the volume that it is given for.
//!
//! Owns: the check of the section's length, and the comparison of the section's own superblock with
//! that of the volume. Does **not** own: reading contents from the device (`xfs-inode`).

use xfs_buffer::IoError;
use xfs_format::realtime::RealtimeSuperblock;
use xfs_format::superblock::SuperblockCheck;
use xfs_format::{Corruption, DiskAddr, Structure, StructureAddress, Superblock};

use super::{Devices, OpenError};
use crate::Error;

impl Devices {
    /// Checks the realtime device, if one was given or is part of the data device. If the realtime
    /// section is longer than its device, returns that as damage: the rest of the volume can still
    /// be read.
    ///
    /// # Errors
    ///
    /// [`OpenError::RealtimeDevice`] if the volume has no such device, or if the device belongs to
    /// another volume; the device's error.
    pub(super) fn realtime_damage(
        &self,
        superblock: &Superblock,
    ) -> Result<Option<Error>, OpenError> {
        let realtime = &superblock.geometry.realtime;
        let device = match &self.realtime {
            Some(_) if !realtime.is_present() => return Err(OpenError::RealtimeDevice("none")),
            Some(_) if realtime.is_internal() => {
                return Err(OpenError::RealtimeDevice("an internal one"));
            }
            Some(device) => device,
            None if realtime.is_internal() => &self.data,
            None => return Ok(None),
        };
        let end = realtime.device_end().and_then(|end| superblock.geometry.blocks_to_bytes(end));
        let (section_bytes, device_bytes) = (end.unwrap_or(u64::MAX), device.length_bytes());
        if device_bytes < section_bytes {
            let check = SuperblockCheck::RealtimeCutShort { section_bytes, device_bytes };
            let place = StructureAddress::Disk(DiskAddr(0));
            return Ok(Some(Corruption::new(Structure::Superblock, place, check).into()));
        }
        if superblock.has_realtime_superblock() {
            let length = superblock.geometry.block_size as usize;
            let mut block = vec![0; length];
            device.read_at(&mut block, 0).map_err(|source| {
                Error::from(IoError::new("read", DiskAddr(0), length as u64, source))
            })?;
            RealtimeSuperblock::decode(&block)
                .and_then(|found| found.verify_against(superblock))
                .map_err(Error::from)?;
        }
        Ok(None)
    }
}
