//! The UUID of a volume that is open.

use xfs_buffer::Result;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{AgNumber, BlockKind, DiskAddr, Uuid};
use xfs_trans::Journal;
use zerocopy::FromBytes;

use super::Parts;
use super::freeze::Phase;
use crate::open::{UuidChange, put_uuid, write_sector};

impl Parts {
    /// Changes the UUID, at rest. See [`identity`](crate::open) for where it stands, and for what a crash
    /// leaves.
    pub(crate) fn set_uuid(&self, change: UuidChange) -> Result<Uuid> {
        let uuid = match change {
            UuidChange::To(uuid) => uuid,
            UuidChange::Restore => self.geometry().meta_uuid,
        };
        let mut copies = Ok(());
        self.at_rest(Phase::Renaming, |journal| {
            journal.log().change_uuid(uuid, || {
                let mut groups = self.geometry().groups();
                groups.next().map_or(Ok(()), |first| put_into(journal, first, uuid))?;
                let all = groups.map(|group| put_into(journal, group, uuid));
                copies = all.fold(Ok(()), Result::and);
                Ok(())
            })
        })?;
        copies.map(|()| uuid)
    }

    /// The UUID as it is now.
    pub(crate) fn uuid(&self) -> Result<Uuid> {
        let at = self.geometry().header_disk_addr(AgNumber(0), 0);
        let bytes = self.geometry().sector_size;
        let buffer = self.journal.cache().read(at, bytes, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        // Not decoded: what is not in place yet has no checksum.
        let disk = SuperblockDisk::ref_from_prefix(&bytes);
        Ok(disk.map(|(disk, _)| Uuid::from_bytes(disk.uuid)).unwrap_or_default())
    }
}

/// Puts the UUID into the superblock of a group, on the device first. It is not logged: nothing that is
/// replayed may change it.
fn put_into(journal: &Journal, group: AgNumber, uuid: Uuid) -> Result<()> {
    let (cache, geometry) = (journal.cache(), journal.geometry());
    let at: DiskAddr = geometry.header_disk_addr(group, 0);
    let buffer = cache.read(at, geometry.sector_size, BlockKind::Superblock)?;
    buffer.latch();
    let mut sector = buffer.bytes().to_vec();
    put_uuid(&mut sector, uuid, geometry.meta_uuid);
    let written = write_sector(&**cache.device(), at, &sector);
    if written.is_ok() {
        buffer.bytes_mut().copy_from_slice(&sector);
    }
    buffer.unlatch();
    written
}
