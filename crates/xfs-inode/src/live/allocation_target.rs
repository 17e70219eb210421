//! The choice of the blocks that an allocation for a fork prefers.
//!
//! Owns: the requests to the allocator, and their order. Does **not** own the search for free space
//! (`xfs-alloc`).
//!
//! Blocks go after the preceding blocks of the file. The first blocks of a file go near its inode,
//! which is near its directory. On a volume with stripes, an allocation at the end of a file
//! prefers the blocks directly after it, or else the start of a stripe unit. A file with an extent
//! size hint gets whole units of that size, if the volume has them.

use xfs_alloc::{AllocationTarget, SpaceRequest};
use xfs_format::inode::{FileType, ForkKind, InodeFlags};
use xfs_format::{FileBlock, FsBlock, Geometry};
use xfs_trans::Journal;

use super::LiveInode;

impl LiveInode {
    /// Returns the unit in blocks in which the file's space is allocated: the extent size hint, or
    /// for a realtime file without a hint the realtime extent size. Returns 0 if space is allocated
    /// by single blocks.
    #[doc(alias = "xfs_get_extsz_hint")]
    pub(super) fn allocation_unit(&self, geometry: &Geometry) -> u32 {
        let inode = self.inode();
        let core = inode.core();
        let is_set = core.flags.contains(InodeFlags::EXTSIZE);
        if is_set && core.extent_size_hint_blocks > 0 {
            return core.extent_size_hint_blocks;
        }
        let is_large = core.is_realtime() && geometry.realtime_extent_blocks > 1;
        if is_large { geometry.realtime_extent_blocks } else { 0 }
    }

    /// Returns the preferred target for an allocation at file block `at`: after the preceding
    /// extent, or near the inode if there is none.
    #[doc(alias = "xfs_bmap_btalloc")]
    pub(crate) fn allocation_target(
        &self,
        geometry: &Geometry,
        fork: ForkKind,
        at: FileBlock,
    ) -> AllocationTarget {
        AllocationTarget::Near(self.block_after(geometry, fork, at).map_or_else(
            || {
                let inode = geometry.split_inode(self.number());
                inode.map_or(FsBlock(0), |(group, inode)| {
                    geometry.join_block(group, geometry.ag_inode_block(inode))
                })
            },
            |(block, _)| block,
        ))
    }

    /// Returns the block on disk after the last extent that starts before `at`, and whether that
    /// extent ends at `at`. Returns `None` if there is no such extent.
    fn block_after(
        &self,
        geometry: &Geometry,
        fork: ForkKind,
        at: FileBlock,
    ) -> Option<(FsBlock, bool)> {
        if fork == ForkKind::Data && self.is_realtime(geometry) {
            return None;
        }
        let inode = self.inode();
        let before = inode.fork(fork).loaded_map()?.last_before(at)?;
        let next = before.start.checked_add(before.length_blocks.into())?;
        geometry.split_block(next).map(|_| (next, before.end() == at))
    }

    /// Returns the allocation requests to try, in order, for up to `wanted` blocks in a hole that
    /// starts at `at`. The extent map must be loaded.
    #[doc(alias = "xfs_bmap_btalloc_at_eof")]
    pub(super) fn requests(
        &self,
        journal: &Journal,
        fork: ForkKind,
        at: FileBlock,
        wanted: u32,
    ) -> impl Iterator<Item = SpaceRequest> {
        let geometry = journal.geometry();
        let place = self.allocation_target(geometry, fork, at);
        let is_contents = fork == ForkKind::Data && self.inode().file_type() == FileType::Regular;
        let unit = journal.superblock().stripe_unit_blocks;
        let at_end = is_contents && unit > 1 && wanted >= unit && self.is_end(at);
        let onwards = self.block_after(geometry, fork, at).filter(|(_, continues)| *continues);
        let exactly = onwards
            .filter(|_| at_end)
            .map(|(block, _)| SpaceRequest::new(AllocationTarget::Exact(block), unit, wanted));
        let striped = at_end.then(|| SpaceRequest::new(place, unit, wanted).with_alignment(unit));
        let hint = if is_contents { self.allocation_unit(geometry) } else { 0 };
        let whole = (1 < hint && hint <= wanted)
            .then(|| SpaceRequest::new(place, hint, wanted - wanted % hint));
        let any = SpaceRequest::new(place, 1, wanted);
        exactly.into_iter().chain(striped).chain(whole).chain([any])
    }

    /// Whether the data fork maps no file block from `at` on. Also returns `true` if the extent map
    /// has not been loaded.
    fn is_end(&self, at: FileBlock) -> bool {
        let inode = self.inode();
        let map = inode.fork(ForkKind::Data).loaded_map();
        map.is_none_or(|map| map.iter_from(at).next().is_none())
    }
}
