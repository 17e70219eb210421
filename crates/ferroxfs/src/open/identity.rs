//! Changing the UUID of a volume that is not mounted.
//!
//! Every block of metadata has the UUID with which the volume was made. That UUID stays in the
//! blocks. The superblock keeps it in addition to the new UUID (`META_UUID`). Records of the log
//! have the current UUID. If only the UUID of the superblock changed, and not that of the last log
//! record, the volume could not be mounted.
//!
//! # Crash argument
//!
//! The log is clean, and a mount needs only its last record. The steps are:
//!
//! 1. The last record is replaced by one without a UUID, which every reader accepts for any volume.
//! 2. The superblock of the first group is changed, in one sector.
//! 3. The copies of the superblock are changed, which only a repair or growing the volume reads.
//!    The superblock of the realtime device, if the volume has one, is changed too.
//! 4. The last record is replaced by one with the new UUID.
//!
//! So at every point the volume has the old UUID or the new UUID, and a log that fits it. After a
//! crash between steps 2 and 4, the realtime device may have the old UUID. The last record without
//! a UUID shows this. Readers then accept the device, and opening the volume for writing changes
//! it. The kernel refuses the volume until then.
//!
//! A mounted volume is frozen first, and its log then does the same steps in place
//! (`log/change_uuid.rs` of `xfs-log`).

use xfs_buffer::Result as BufferResult;
use xfs_format::superblock::{Superblock, VolumeAccess};
use xfs_format::{AgNumber, StructureAddress, Uuid};
use xfs_vfs::{UuidChange, put_uuid, superblock_io_error, write_realtime_superblock, write_sector};

use super::{Devices, OpenError, read_superblock};
use crate::Error;

impl Devices {
    /// Changes the UUID of the volume and returns the new one. The devices must have been opened
    /// [to write](super::OpenOptions::write). A dirty log is recovered first. The change is durable
    /// on return; a crash leaves the old UUID or the new one.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A kind of volume that can only be read is refused, with nothing changed.
    /// If a copy of the superblock cannot be changed, this fails, but the other copies are changed
    /// and the volume has the new UUID. If any other write fails, the volume has the old UUID or
    /// the new one.
    #[doc(alias = "xfs_admin -U")]
    pub fn set_uuid(&self, change: UuidChange) -> Result<Uuid, OpenError> {
        let superblock = read_superblock(&self.data)?;
        if let Some(reason) = superblock.refusal(VolumeAccess::Write) {
            return Err(OpenError::Volume(reason.into()));
        }
        let realtime = match superblock.has_realtime_superblock() {
            true => Some(self.realtime.as_ref().ok_or(OpenError::RealtimeDeviceMissing)?),
            false => None,
        };
        self.recover()?;
        self.check_realtime(&superblock, VolumeAccess::Recover)?;
        let superblock = read_superblock(&self.data)?;
        let uuid = change.new_uuid(&superblock.geometry);
        self.end_log_for(&superblock, Uuid::nil())?;
        let copies = self.write_uuid(&superblock, uuid)?;
        if let Some(device) = realtime {
            let superblock = read_superblock(&self.data)?;
            write_realtime_superblock(&**device, &superblock).map_err(OpenError::Volume)?;
        }
        self.end_log_for(&superblock, uuid)?;
        copies.map(|()| uuid).map_err(OpenError::Volume)
    }

    /// Returns whether a change of the UUID or the label has begun and not ended: the log is clean,
    /// and its last record has no UUID.
    pub(super) fn is_changing_identity(&self, superblock: &Superblock) -> Result<bool, Error> {
        let Some(log) = self.log_of(superblock) else { return Ok(false) };
        let log = log?;
        let state = xfs_log::find_head_and_tail(&log)?;
        if !state.clean || state.is_blank {
            return Ok(false);
        }
        Ok(log.read_header(state.last_record)?.uuid.is_nil())
    }

    /// Completes a change of the UUID or the label that a crash has interrupted: changes the
    /// superblock of the realtime device too, and puts the UUID into the log again.
    pub(super) fn complete_identity(&self, superblock: &Superblock) -> Result<(), OpenError> {
        let device = self.realtime.as_ref().filter(|_| superblock.has_realtime_superblock());
        let Some(device) = device else { return Ok(()) };
        if !self.is_changing_identity(superblock).map_err(OpenError::Log)? {
            return Ok(());
        }
        write_realtime_superblock(&**device, superblock).map_err(OpenError::Volume)?;
        self.end_log_for(superblock, superblock.uuid)
    }

    /// Replaces the last record of the clean log by a record with this UUID.
    fn end_log_for(&self, superblock: &Superblock, uuid: Uuid) -> Result<(), OpenError> {
        let log = self.log_of(superblock).ok_or(OpenError::LogDeviceMissing)?;
        log.and_then(|log| xfs_log::end_clean_log(log, uuid)).map_err(OpenError::Log)
    }

    /// Writes the UUID into the superblock and its copies. The outer result says whether the
    /// superblock was written, the inner one whether all copies were.
    fn write_uuid(
        &self,
        superblock: &Superblock,
        uuid: Uuid,
    ) -> Result<BufferResult<()>, OpenError> {
        let geometry = &superblock.geometry;
        let write = |group: AgNumber| -> BufferResult<()> {
            let at = geometry.header_disk_addr(group, 0);
            let offset = at.byte_offset().expect("a superblock lies in the volume");
            let mut sector = vec![0; geometry.sector_size as usize];
            let read = self.data.read_at(&mut sector, offset);
            read.map_err(|source| superblock_io_error("read", at, source))?;
            Superblock::decode(&sector, StructureAddress::Disk(at))?;
            put_uuid(&mut sector, uuid, geometry.meta_uuid);
            write_sector(&*self.data, at, &sector)
        };
        let mut groups = geometry.groups();
        groups.next().map_or(Ok(()), &write)?;
        let mut copies = Ok(());
        for group in groups {
            copies = copies.and(write(group));
        }
        Ok(copies)
    }
}
