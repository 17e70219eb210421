//! The target of a symbolic link on a damaged volume.

use xfs_format::BlockKind;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::symlink::{
    MAX_TARGET_BYTES, SYMLINK_HEADER_BYTES, SYMLINK_MAGIC, SymlinkBlock, SymlinkDisk,
};
use xfs_format::{Check, Corruption, DiskAddr, Geometry, InodeNumber, Structure, StructureAddress};
use zerocopy::FromBytes;

use crate::fork::ForkEvidence;
use crate::inode::InodeEvidence;
use crate::volume::{Damage, Evidence};

/// The largest number of blocks of one part of a link target. The longest target, of 1024 bytes,
/// fits in three blocks of the smallest size.
const MOST_BLOCKS: u32 = 3;

/// The target of a symbolic link, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct LinkEvidence {
    /// The bytes up to the first part that is missing or damaged.
    pub target: Vec<u8>,
    /// Whether `target` holds the whole target, and all its blocks pass their checks.
    pub is_whole: bool,
    /// Whether `target` is as long as the inode says and has no NUL. If a block fails a check,
    /// bytes of the target may be wrong.
    pub is_complete: bool,
    /// The damages that were found while the target was read.
    pub damages: Vec<Damage>,
}

impl Evidence<'_> {
    /// Reads the target of a symbolic link.
    #[must_use]
    pub fn link_target(&self, inode: &InodeEvidence) -> LinkEvidence {
        self.link_target_by_map(inode, &self.extents(inode, ForkKind::Data))
    }

    /// Reads the target of a symbolic link whose data fork has the extent map `map`. The map may
    /// have been [filled](ForkEvidence::fill) from another source. A target that is stored in the
    /// inode needs no map.
    #[must_use]
    pub fn link_target_by_map(&self, inode: &InodeEvidence, map: &ForkEvidence) -> LinkEvidence {
        let mut found = LinkEvidence::default();
        let Some(core) = inode.any_core() else { return found };
        let size = core.size.min(MAX_TARGET_BYTES.into());
        let size = usize::try_from(size).expect("a target has at most 1024 bytes");
        if core.data_format == ForkFormat::Local {
            let fork = inode.fork(ForkKind::Data);
            found.target = fork.get(..size).unwrap_or(fork).to_vec();
        } else {
            found.damages.extend(map.damages.iter().cloned());
            self.read_target(inode.number, &map.extents, Some(size), &mut found);
        }
        found.is_complete = found.target.len() == size && !found.target.contains(&0);
        found.is_whole = found.damages.is_empty() && found.is_complete;
        found
    }

    /// Reads the target of a symbolic link whose inode is gone, from the blocks that the reverse
    /// map gives to the link. The headers of the blocks give the length of the target.
    #[must_use]
    pub fn target_of_gone(&self, link: InodeNumber, extents: &[Extent]) -> LinkEvidence {
        let mut found = LinkEvidence::default();
        let parts = self.read_target(link, extents, None, &mut found);
        let is_possible = !found.target.is_empty()
            && found.target.len() <= MAX_TARGET_BYTES as usize
            && !found.target.contains(&0);
        found.is_whole = found.damages.is_empty() && parts == extents.len() && is_possible;
        found
    }

    /// Adds the parts of a target in these extents, up to the first one that is missing. `size` is
    /// the length of the whole target. If it is known, a part whose block fails a check is added
    /// too, provided that the block belongs to the link. Returns the number of parts.
    fn read_target(
        &self,
        link: InodeNumber,
        extents: &[Extent],
        size: Option<usize>,
        found: &mut LinkEvidence,
    ) -> usize {
        for (extent, parts) in extents.iter().zip(0..) {
            let count = extent.length_blocks.min(MOST_BLOCKS);
            let block_size = self.geometry().block_size;
            let Some(at) = self.geometry().block_disk_addr(extent.start) else { return parts };
            let mut bytes = vec![0; (count * block_size) as usize];
            if let Err(damage) = self.read_metadata(at, &mut bytes) {
                found.damages.push(damage);
                return parts;
            }
            self.judge(BlockKind::Symlink, &bytes, at, &mut found.damages);
            let block = SymlinkBlock::decode(&bytes, at).ok();
            if let Some(block) = block.as_ref().filter(|block| block.owner != link) {
                let check = Check::ForeignOwner { found: block.owner.0, expected: link.0 };
                let address = StructureAddress::Disk(at);
                found.damages.push(Corruption::new(Structure::Symlink, address, check).into());
            }
            let is_next = |block: &SymlinkBlock| {
                block.owner == link && block.offset_bytes as usize == found.target.len()
            };
            match (block.filter(is_next), size) {
                (Some(block), _) => found.target.extend(block.target),
                (None, Some(size)) if is_block_of_symlink(&bytes, link, at, self.geometry()) => {
                    let rest = size.saturating_sub(found.target.len());
                    let part = bytes.iter().copied().skip(SYMLINK_HEADER_BYTES).take(rest);
                    found.target.extend(part);
                }
                _ => return parts,
            }
        }
        extents.len()
    }
}

/// Returns whether at least three of magic number, UUID, owner and address are those of a block of
/// the symbolic link.
#[must_use]
pub fn is_block_of_symlink(
    bytes: &[u8],
    link: InodeNumber,
    at: DiskAddr,
    geometry: &Geometry,
) -> bool {
    let Ok((disk, _)) = SymlinkDisk::ref_from_prefix(bytes) else { return false };
    let right = [
        disk.magic.get() == SYMLINK_MAGIC,
        disk.uuid == geometry.meta_uuid.into_bytes(),
        disk.owner.get() == link.0,
        disk.disk_addr.get() == at.0,
    ];
    right.into_iter().filter(|is_right| *is_right).count() >= 3
}
