//! Reading and changing the UUID of a mounted volume.

use xfs_buffer::{Error, IoError, Result};
use xfs_device::{BlockDevice, Durability};
use xfs_format::realtime::RealtimeSuperblock;
use xfs_format::superblock::{self, Superblock, SuperblockDisk, Unsupported};
use xfs_format::{
    AgNumber, BlockKind, DiskAddr, Geometry, IncompatFeatures, StructureAddress, Uuid,
};
use xfs_trans::Journal;
use zerocopy::FromBytes;

use crate::freeze::FreezePhase;
use crate::mount::Mount;

/// The UUID that a volume is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UuidChange {
    /// The given UUID. The kernel mounts a volume with a nil UUID only with the option `nouuid`.
    To(Uuid),
    /// The UUID that mkfs gave to the volume.
    Restore,
}

impl UuidChange {
    /// Returns the UUID that this change gives to the volume with this geometry.
    #[must_use]
    pub const fn new_uuid(self, geometry: &Geometry) -> Uuid {
        match self {
            Self::To(uuid) => uuid,
            Self::Restore => geometry.meta_uuid,
        }
    }
}

impl Mount {
    /// Changes the UUID while the volume is frozen, and returns the new one. `open/identity.rs` of
    /// `ferroxfs` says where a UUID is stored, and what a crash leaves.
    pub fn set_uuid(&self, change: UuidChange) -> Result<Uuid> {
        let uuid = change.new_uuid(self.geometry());
        let meta_uuid = self.geometry().meta_uuid;
        self.change_identity(uuid, |sector| put_uuid(sector, uuid, meta_uuid))?;
        Ok(uuid)
    }

    /// Changes the superblock, its copies and the superblock of the realtime device while the
    /// volume is frozen. `uuid` is the UUID that the volume then has.
    pub(crate) fn change_identity(&self, uuid: Uuid, put: impl Fn(&mut [u8])) -> Result<()> {
        let mut copies = Ok(());
        self.at_rest(FreezePhase::Renaming, |journal| {
            journal.log().change_uuid(uuid, || {
                let mut groups = self.geometry().groups();
                groups.next().map_or(Ok(()), |first| put_into(journal, first, &put))?;
                put_into_realtime(journal)?;
                let all = groups.map(|group| put_into(journal, group, &put));
                copies = all.fold(Ok(()), Result::and);
                Ok(())
            })
        })?;
        copies
    }

    /// Returns the current UUID.
    pub fn uuid(&self) -> Result<Uuid> {
        let at = self.geometry().header_disk_addr(AgNumber(0), 0);
        let bytes = self.geometry().sector_size;
        let buffer = self.journal.cache().read(at, bytes, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        // The superblock is not decoded: a buffer that was not written in place yet has no
        // checksum.
        let (disk, _) =
            SuperblockDisk::ref_from_prefix(&bytes).expect("a sector holds a superblock");
        Ok(Uuid::from_bytes(disk.uuid))
    }
}

/// Changes the superblock of a group: on the device first, then in the buffer. The change is not
/// logged, because a replay must not change the UUID.
fn put_into(journal: &Journal, group: AgNumber, put: impl Fn(&mut [u8])) -> Result<()> {
    let (cache, geometry) = (journal.cache(), journal.geometry());
    let at: DiskAddr = geometry.header_disk_addr(group, 0);
    let buffer = cache.read(at, geometry.sector_size, BlockKind::Superblock)?;
    let _latched = buffer.latched();
    let mut sector = buffer.bytes().to_vec();
    put(&mut sector);
    let written = write_sector(&**cache.device(), at, &sector);
    if written.is_ok() {
        buffer.bytes_mut().copy_from_slice(&sector);
    }
    written
}

/// Writes the superblock of the realtime device, if the volume has one, from the superblock of the
/// volume.
fn put_into_realtime(journal: &Journal) -> Result<()> {
    let (cache, geometry) = (journal.cache(), journal.geometry());
    if !journal.superblock().has_realtime_superblock() {
        return Ok(());
    }
    let at = geometry.header_disk_addr(AgNumber(0), 0);
    let buffer = cache.read(at, geometry.sector_size, BlockKind::Superblock)?;
    let superblock = Superblock::decode(&buffer.bytes(), StructureAddress::Disk(at))?;
    let device = cache.realtime_device().ok_or(Unsupported::RealtimeData)?;
    write_realtime_superblock(&**device, &superblock)
}

/// Writes the superblock of a realtime device. The write is durable on return.
///
/// # Errors
///
/// Returns the device's error.
pub fn write_realtime_superblock(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    let mut block = vec![0; superblock.geometry.block_size as usize];
    RealtimeSuperblock::of(superblock).encode(&mut block);
    let written = device.write_at(&block, 0, Durability::Durable);
    written.map_err(|source| superblock_io_error("write", DiskAddr(0), source))
}

/// Writes `sector`, the sector of a superblock, to the device. The write is durable on return.
pub fn write_sector(device: &dyn BlockDevice, at: DiskAddr, sector: &[u8]) -> Result<()> {
    let offset = at.byte_offset().expect("a superblock lies in the volume");
    let written = device.write_at(sector, offset, Durability::Durable);
    written.map_err(|source| superblock_io_error("write", at, source))
}

/// Puts `uuid` into the sector of a superblock, and updates the checksum of the sector. If `uuid`
/// is not `meta_uuid`, stores both and sets the feature bit META_UUID.
pub fn put_uuid(sector: &mut [u8], uuid: Uuid, meta_uuid: Uuid) {
    let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(sector) else {
        unreachable!("a sector is longer than the superblock");
    };
    let is_changed = uuid != meta_uuid;
    let mut incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
    incompat.set(IncompatFeatures::META_UUID, is_changed);
    disk.incompat = incompat.bits().into();
    disk.uuid = uuid.into_bytes();
    disk.meta_uuid = if is_changed { meta_uuid } else { Uuid::nil() }.into_bytes();
    superblock::seal(sector);
}

/// Returns the error for a failed `operation` of the device on a superblock sector.
#[must_use]
pub fn superblock_io_error(operation: &'static str, at: DiskAddr, source: std::io::Error) -> Error {
    let length_bytes = size_of::<SuperblockDisk>() as u64;
    Error::Io(IoError::new(operation, at, length_bytes, source))
}

#[cfg(test)]
mod tests;
