//! Reading a quota inode.
//!
//! Owns: the way from an ID to its dquot on disk, and the order of all dquots. Does **not** own:
//! dquots in memory that are newer than the disk.
//!
//! The size of a quota inode is 0, so readers follow the extent map beyond that size. A block is
//! read only if its number can belong to an ID of 32 bits.

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::dquot::{DquotCheck, DquotDisk, DquotPlace, QuotaKind, dquot_at, dquots_per_block};
use xfs_format::extent::{Extent, ExtentCheck};
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, Check, Corruption, FileBlock, InodeNumber, Structure, StructureAddress,
};
use xfs_inode::{BlockShape, Inode, Mapping};

/// A quota inode, for reading.
#[derive(Debug)]
pub struct QuotaFile {
    kind: QuotaKind,
    inode: Inode,
}

/// The shape of a block of dquots.
pub(crate) const DQUOT_BLOCK: BlockShape = BlockShape { length_blocks: 1, kind: BlockKind::Dquots };

impl QuotaFile {
    /// Reads the quota inode of a type.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the failed check of the inode.
    pub fn open(cache: &BufferCache, kind: QuotaKind, number: InodeNumber) -> Result<Self> {
        Ok(Self { kind, inode: Inode::read_untrusted(cache, number)? })
    }

    /// Returns the dquot of an ID, or `None` if its block is not allocated.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the failed check of the extent map or of the block.
    pub fn dquot(&self, cache: &BufferCache, id: u32) -> Result<Option<DquotDisk>> {
        let place = DquotPlace::of(id, cache.geometry());
        match self.inode.find(cache, ForkKind::Data, place.block)? {
            Mapping::Hole { .. } => Ok(None),
            Mapping::Extent(_) => {
                let block = read_block(&self.inode, cache, self.kind, place.block)?;
                let bytes = block.bytes();
                Ok(Some(*dquot_at(&bytes, place.index).expect("a verified block has its dquots")))
            }
        }
    }

    /// Returns the IDs whose dquots have a block on disk, in ascending order.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check of the extent map that failed.
    pub fn ids(&self, cache: &BufferCache) -> Result<DquotIds> {
        DquotIds::of(&self.inode, cache)
    }
}

/// Reads a block of dquots of a quota inode, and checks that its dquots have the owners that the
/// place of the block implies.
pub(crate) fn read_block(
    inode: &Inode,
    cache: &BufferCache,
    kind: QuotaKind,
    block: FileBlock,
) -> Result<Buffer> {
    let buffer = inode.read_fork_block(cache, ForkKind::Data, block, DQUOT_BLOCK)?;
    let first = first_id(block, cache);
    let checked = first.ok_or(Check::Dquot(DquotCheck::Block { block: block.0 }));
    let checked = checked.and_then(|first| {
        let bytes = buffer.bytes();
        dquot_at(&bytes, 0).expect("a verified block has a dquot").verify_owner(kind, first)
    });
    let place = StructureAddress::Data(inode.number(), block);
    checked.map_err(|check| Corruption::new(Structure::Dquot, place, check))?;
    Ok(buffer)
}

/// Returns the extents of a quota inode, in ascending order.
///
/// # Errors
///
/// Returns the device's error, or the check of the extent map that failed. A map of more blocks
/// than the volume has is reported as damaged: its records share blocks, and there is no limit to
/// the time that reading them would take.
pub(crate) fn extents<'inode>(
    inode: &'inode Inode,
    cache: &BufferCache,
) -> Result<impl Iterator<Item = Extent> + use<'inode>> {
    let map = inode.extent_map(cache, ForkKind::Data)?;
    let mapped: u64 = map.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    let limit = cache.geometry().data_blocks;
    if mapped > limit {
        let place = StructureAddress::Inode(inode.number());
        let check = ExtentCheck::MoreThanVolume { mapped, limit };
        return Err(Corruption::new(Structure::Extent, place, check).into());
    }
    Ok(map.iter().copied())
}

/// Returns the ID of the first dquot of a block, or `None` if no ID has a dquot in the block.
pub(crate) fn first_id(block: FileBlock, cache: &BufferCache) -> Option<u32> {
    let per_block = u64::from(dquots_per_block(cache.geometry()));
    block.0.checked_mul(per_block).and_then(|id| u32::try_from(id).ok())
}

/// The IDs whose dquots have a block on disk, in ascending order.
#[derive(Clone, Debug)]
pub struct DquotIds {
    /// The ranges of IDs, in ascending order. The end of a range is not part of it.
    ranges: std::vec::IntoIter<std::ops::Range<u64>>,
    current: std::ops::Range<u64>,
}

impl DquotIds {
    /// Returns the IDs whose dquots have a block in the quota inode `inode`.
    pub(crate) fn of(inode: &Inode, cache: &BufferCache) -> Result<Self> {
        let per_block = u64::from(dquots_per_block(cache.geometry()));
        let ranges = extents(inode, cache)?.map(|extent| {
            let limit = u64::from(u32::MAX) + 1;
            let start = extent.file_block.0.saturating_mul(per_block).min(limit);
            start..extent.end().0.saturating_mul(per_block).min(limit)
        });
        let ranges: Vec<_> = ranges.collect();
        Ok(Self { ranges: ranges.into_iter(), current: 0..0 })
    }
}

impl Iterator for DquotIds {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some(id) = self.current.next() {
                return u32::try_from(id).ok();
            }
            self.current = self.ranges.next()?;
        }
    }
}
