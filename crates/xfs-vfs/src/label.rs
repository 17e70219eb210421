//! Reading and setting the label of a mounted volume.

use std::mem::offset_of;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{self, Label, SuperblockDisk, label_from_disk};
use xfs_format::{AgNumber, BlockKind};
use zerocopy::FromBytes;

use crate::mount::Mount;

impl Mount {
    /// Sets the label in the superblock and then in its copies, because a repair may take the label
    /// from any of the copies. Each sector is changed in a transaction of its own. The label is
    /// durable on return.
    pub fn set_label(&self, label: &Label) -> Result<()> {
        let mut groups = self.geometry().groups();
        groups.next().map_or(Ok(()), |first| self.set_label_in(first, label))?;
        let mut copies = Ok(());
        for group in groups {
            copies = copies.and(self.set_label_in(group, label));
        }
        self.journal.force_all()?;
        copies
    }

    /// Returns whether the realtime device has a copy of the label and of the UUID, which no
    /// transaction changes. [`set_label_at_rest`](Self::set_label_at_rest) then sets the label.
    #[must_use]
    pub fn has_realtime_superblock(&self) -> bool {
        self.journal.superblock().has_realtime_superblock()
    }

    /// Sets the label while the volume is frozen, with the steps of a change of the UUID. The
    /// caller holds no guard of a writer.
    pub fn set_label_at_rest(&self, label: &Label) -> Result<()> {
        let uuid = self.uuid()?;
        self.change_identity(uuid, |sector| {
            let padded = label.padded();
            let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(sector) else {
                unreachable!("a sector is longer than the superblock");
            };
            disk.label = padded;
            superblock::seal(sector);
        })
    }

    fn set_label_in(&self, group: AgNumber, label: &Label) -> Result<()> {
        const LABEL: usize = offset_of!(SuperblockDisk, label);
        let at = self.geometry().header_disk_addr(group, 0);
        let bytes = self.geometry().sector_size;
        self.transact(TransactionKind::Superblock, 0, |tx| {
            if group == AgNumber(0) {
                tx.set_synchronous();
            }
            let buffer = tx.read(at, bytes, BlockKind::Superblock)?;
            let padded = label.padded();
            tx.change(&buffer, LABEL..LABEL + padded.len(), |field| field.copy_from_slice(&padded));
            Ok(())
        })
    }

    /// Returns the current label.
    pub fn label(&self) -> Result<Label> {
        let at = self.geometry().header_disk_addr(AgNumber(0), 0);
        let bytes = self.geometry().sector_size;
        let buffer = self.journal.cache().read(at, bytes, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        // The superblock is not decoded: a buffer that was not written in place yet has no
        // checksum.
        let (disk, _) =
            SuperblockDisk::ref_from_prefix(&bytes).expect("a sector holds a superblock");
        Ok(label_from_disk(disk.label))
    }
}
