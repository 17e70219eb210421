//! The UUID by which a volume is known.
//!
//! Every block of metadata carries the UUID with which the volume was made; it stays, and the superblock
//! keeps it beside the new one (`META_UUID`). What else carries the present UUID are the records of the
//! log, so that a volume whose UUID has changed beneath its last record would not be mounted.
//!
//! # Crash argument
//!
//! The log is clean, and nothing of it is needed but its last record. First that becomes one without a
//! UUID, which is taken by every reader for that of any volume; then the superblock of the first group
//! changes, in one sector; then the others, which nobody reads but who repairs or grows the volume; in
//! the end the last record becomes one with the new UUID. So at every point the volume has the old UUID or
//! the new one, and a log that goes with it.
//!
//! A volume that is open comes to rest first, and its log does the same where it stands (`rename` of
//! `xfs-log`).

use xfs_buffer::{Error, IoError, Result as BufferResult};
use xfs_device::{BlockDevice, Durability};
use xfs_format::superblock::{self, Access, Superblock, SuperblockDisk};
use xfs_format::{AgNumber, DiskAddr, IncompatFeatures, StructureAddress, Uuid};
use zerocopy::FromBytes;

use super::{Devices, OpenError, read_superblock};

/// What becomes of the UUID of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidChange {
    /// This one. The kernel mounts a volume whose UUID is nil with `nouuid` only.
    To(Uuid),
    /// The one with which the volume was made.
    Restore,
}

impl Devices {
    /// Changes the UUID of the volume and returns the new one. The devices must have been opened
    /// [`writable`](super::OpenOptions::writable). A dirty log is recovered first. It is durable on return; a crash
    /// leaves the old UUID or the new one.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A volume of a kind that is only read is refused, with nothing changed. Where a
    /// copy of the superblock cannot be changed, the others have been, and the volume has the new UUID; if
    /// any other write fails, it has the old one or the new one.
    #[doc(alias = "xfs_admin -U")]
    pub fn set_uuid(&self, change: UuidChange) -> Result<Uuid, OpenError> {
        let superblock = read_superblock(&self.data)?;
        if let Some(reason) = superblock.refusal(Access::Write) {
            return Err(OpenError::Volume(reason.into()));
        }
        self.recover()?;
        let superblock = read_superblock(&self.data)?;
        let uuid = match change {
            UuidChange::To(uuid) => uuid,
            UuidChange::Restore => superblock.geometry.meta_uuid,
        };
        self.end_log_for(&superblock, Uuid::nil())?;
        let copies = self.write_uuid(&superblock, uuid)?;
        self.end_log_for(&superblock, uuid)?;
        copies.map(|()| uuid).map_err(OpenError::Volume)
    }

    /// Has the clean log end in a record with this UUID.
    fn end_log_for(&self, superblock: &Superblock, uuid: Uuid) -> Result<(), OpenError> {
        let log = self.log(superblock).ok_or(OpenError::LogDeviceMissing)?;
        log.and_then(|log| xfs_log::end_clean_log(log, uuid)).map_err(OpenError::Log)
    }

    /// Writes the UUID into the superblock, and into its copies: what these meet is returned apart.
    fn write_uuid(
        &self,
        superblock: &Superblock,
        uuid: Uuid,
    ) -> Result<BufferResult<()>, OpenError> {
        let geometry = &superblock.geometry;
        let write = |group: AgNumber| -> BufferResult<()> {
            let at = geometry.header_disk_addr(group, 0);
            let offset = at.byte_offset().unwrap_or(u64::MAX);
            let mut sector = vec![0; geometry.sector_size as usize];
            let read = self.data.read_at(offset, &mut sector);
            read.map_err(|source| io_error("read", at, source))?;
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

/// Writes the sector of a superblock, durably.
pub(crate) fn write_sector(
    device: &dyn BlockDevice,
    at: DiskAddr,
    sector: &[u8],
) -> BufferResult<()> {
    let offset = at.byte_offset().unwrap_or(u64::MAX);
    let written = device.write_at(offset, sector, Durability::Durable);
    written.map_err(|source| io_error("write", at, source))
}

/// Puts a UUID into the sector of a superblock.
pub(crate) fn put_uuid(sector: &mut [u8], uuid: Uuid, meta_uuid: Uuid) {
    let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(sector) else { return };
    let is_changed = uuid != meta_uuid;
    let mut incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
    incompat.set(IncompatFeatures::META_UUID, is_changed);
    disk.incompat = incompat.bits().into();
    disk.uuid = uuid.into_bytes();
    disk.meta_uuid = if is_changed { meta_uuid } else { Uuid::nil() }.into_bytes();
    superblock::seal(sector);
}

fn io_error(operation: &'static str, at: DiskAddr, source: std::io::Error) -> Error {
    let length_bytes = size_of::<SuperblockDisk>() as u64;
    Error::Io(IoError { operation, at, length_bytes, source })
}
