//! Growing the realtime section of a volume that is not open.
//!
//! Owns: which sizes are refused, and updating the copies of the superblock. Does **not** own the
//! changes of the section (`xfs-inode`).

use std::sync::Arc;

use thiserror::Error;
use xfs_buffer::Result as BufferResult;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{SuperblockDisk, Unsupported, VolumeAccess};
use xfs_format::{AgNumber, BlockKind, DiskAddr};
use xfs_trans::Journal;

use super::{Devices, OpenError, read_superblock};
use crate::volume::GrowError;

/// Why a realtime section does not grow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RealtimeGrowthError {
    /// The volume could not be opened, or its realtime section cannot grow.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The size is refused, or growing failed.
    #[error(transparent)]
    Grow(#[from] GrowError),
}

impl Devices {
    /// Grows the classic realtime section to `blocks` blocks, or to the size of the realtime
    /// device. Returns the number of blocks that the section then has. The devices must have been
    /// opened [to write](super::OpenOptions::write). A dirty log is recovered first. The new size
    /// is durable on return. A crash leaves the old size, the new size, or a size between them.
    ///
    /// # Errors
    ///
    /// [`RealtimeGrowthError`]. Sections with groups, and zoned ones, are refused.
    #[doc(alias = "XFS_IOC_FSGROWFSRT")]
    #[doc(alias = "xfs_growfs -r")]
    pub fn grow_realtime(&self, blocks: Option<u64>) -> Result<u64, RealtimeGrowthError> {
        let superblock = read_superblock(&self.data).map_err(OpenError::Volume)?;
        if let Some(reason) = superblock.refusal(VolumeAccess::Write) {
            return Err(OpenError::Volume(reason.into()).into());
        }
        if !superblock.has_classic_realtime() {
            return Err(OpenError::Volume(Unsupported::RealtimeGrowth.into()).into());
        }
        let device = self.realtime.as_ref().ok_or(OpenError::RealtimeDeviceMissing)?;
        let has = device.length_bytes() >> superblock.geometry.block_log;
        let old = superblock.realtime_blocks;
        let wanted = blocks.unwrap_or(has.max(old));
        if wanted < old {
            return Err(GrowError::Shrinks { has: old, wanted }.into());
        }
        if wanted > has {
            return Err(GrowError::DeviceTooShort { wanted, has }.into());
        }
        let unit = u64::from(superblock.geometry.realtime_extent_blocks);
        if wanted / unit == superblock.realtime_extents {
            return Ok(old);
        }
        let (superblock, journal, _) = self.open_journal(VolumeAccess::Write)?;
        let grown = xfs_inode::grow_realtime_section(&journal, &superblock, wanted);
        let copied = grown.and_then(|grown| update_copies(&journal).map(|()| grown));
        let ended = journal.unmount();
        let grown = copied.map_err(GrowError::Failed)?;
        ended.map_err(GrowError::Failed)?;
        Ok(grown.realtime_blocks)
    }
}

/// Writes the superblock with the new sizes into its copies. Only repair tools read the copies.
fn update_copies(journal: &Arc<Journal>) -> BufferResult<()> {
    let geometry = journal.geometry();
    let primary = {
        let buffer =
            journal.cache().read(DiskAddr(0), geometry.sector_size, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        bytes.get(..size_of::<SuperblockDisk>()).expect("a sector holds a superblock").to_vec()
    };
    for group in geometry.groups().filter(|group| *group != AgNumber(0)) {
        let at = geometry.header_disk_addr(group, 0);
        let tx = journal.begin(TransactionKind::Superblock, 0)?;
        tx.commit_or_cancel(|tx| {
            let copy = tx.read(at, geometry.sector_size, BlockKind::Superblock)?;
            tx.change(&copy, 0..primary.len(), |bytes| bytes.copy_from_slice(&primary));
            Ok(())
        })?;
    }
    journal.force_all()
}
