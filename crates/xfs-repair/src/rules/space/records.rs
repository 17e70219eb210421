//! The records of a group's btrees, and the number of blocks that they need.

use xfs_format::agfl;
use xfs_format::btree::{BtreeFormat, BtreeKind};
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, RoCompatFeatures};

use super::Rebuild;
use crate::build::btree;
use crate::claims;
use crate::model::Model;

/// The records of all btrees of a group. They are computed from the claims of the owners, and from
/// the blocks that the new btrees themselves take.
pub(super) struct Records {
    pub(super) free: Vec<FreeSpace>,
    pub(super) by_size: Vec<FreeSpace>,
    pub(super) map: Vec<Rmap>,
    pub(super) shared: Vec<Refcount>,
    pub(super) with_free: Vec<InodeChunk>,
}

impl Records {
    /// Returns the records for btrees that take the blocks `taken`. These blocks are handed out in
    /// order: first to the inode btrees, then to the btree of reference counts, then to the other
    /// btrees. The free list gets those left over.
    pub(super) fn of(
        rebuild: &Rebuild<'_>,
        own: &[Rmap],
        taken: &[AgBlock],
        shared: &[Refcount],
    ) -> Self {
        let with_free: Vec<InodeChunk> =
            rebuild.chunks.iter().filter(|chunk| chunk.free_count > 0).copied().collect();
        let mut needs = Needs::fixed(rebuild, &with_free, shared);
        let mut claims = own.to_vec();
        for block in taken {
            let owner = if needs.inodes + needs.free_inodes > 0 {
                needs.take_inode_block();
                RmapOwner::InodeBtree
            } else if needs.shared > 0 {
                needs.shared -= 1;
                RmapOwner::RefcountBtree
            } else {
                RmapOwner::Group
            };
            claims.push(claims::claim(*block, 1, owner));
        }
        let free: Vec<FreeSpace> = rebuild
            .gaps(&claims)
            .into_iter()
            .map(|(start, end)| FreeSpace { start: AgBlock(start), count: end - start })
            .collect();
        let mut by_size = free.clone();
        by_size.sort_by_key(FreeSpaceBySize::key);
        let map = match rebuild.has(RoCompatFeatures::RMAPBT) {
            true => claims::joined(claims),
            false => Vec::new(),
        };
        Self { free, by_size, map, shared: shared.to_vec(), with_free }
    }
}

/// The number of blocks of each btree of a group, and of its free list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    pub(super) by_block: usize,
    pub(super) by_size: usize,
    pub(super) map: usize,
    pub(super) shared: usize,
    pub(super) inodes: usize,
    pub(super) free_inodes: usize,
    free_list: usize,
}

impl Needs {
    /// Returns the block counts of those btrees whose records do not depend on the free space.
    /// `with_free` are the chunks with free inodes, and `shared` the records of reference counts.
    fn fixed(rebuild: &Rebuild<'_>, with_free: &[InodeChunk], shared: &[Refcount]) -> Self {
        let geometry = rebuild.geometry();
        let count = |has: bool, blocks: usize| if has { blocks } else { 0 };
        let builds = rebuild.kept.is_none();
        let inodes = btree::count_blocks::<InodeChunks>(rebuild.chunks.len(), geometry);
        let free = btree::count_blocks::<FreeInodeChunks>(with_free.len(), geometry);
        let counts = btree::count_blocks::<Refcounts>(shared.len(), geometry);
        Self {
            inodes: count(builds, inodes),
            free_inodes: count(builds && rebuild.has(RoCompatFeatures::FINOBT), free),
            shared: count(rebuild.has(RoCompatFeatures::REFLINK), counts),
            ..Self::default()
        }
    }

    pub(super) fn of(rebuild: &Rebuild<'_>, records: &Records) -> Self {
        let geometry = rebuild.geometry();
        let mut needs = Self::fixed(rebuild, &records.with_free, &records.shared);
        let free = records.free.len();
        needs.by_block = btree::count_blocks::<FreeSpaceByBlock>(free, geometry);
        needs.by_size = btree::count_blocks::<FreeSpaceBySize>(free, geometry);
        let mut list = fewest_listed::<FreeSpaceByBlock>(rebuild, free)
            + fewest_listed::<FreeSpaceBySize>(rebuild, free);
        if rebuild.has(RoCompatFeatures::RMAPBT) {
            let records = records.map.len();
            needs.map = btree::count_blocks::<ReverseMap>(records, geometry);
            list += fewest_listed::<ReverseMap>(rebuild, records);
        }
        let capacity = agfl::capacity(geometry) as usize;
        needs.free_list = list.min(capacity);
        needs
    }

    /// Returns the sum: the number of blocks for all btrees and the free list.
    pub(super) const fn all(&self) -> usize {
        self.by_block
            + self.by_size
            + self.map
            + self.shared
            + self.inodes
            + self.free_inodes
            + self.free_list
    }

    const fn take_inode_block(&mut self) {
        if self.inodes > 0 {
            self.inodes -= 1;
        } else {
            self.free_inodes -= 1;
        }
    }
}

/// Returns the number of blocks that the free list must hold for a btree of `records` records:
/// enough to split each level twice, and to grow by a level.
#[doc(alias = "xfs_alloc_min_freelist")]
fn fewest_listed<F: BtreeFormat>(rebuild: &Rebuild<'_>, records: usize) -> usize {
    let kind: BtreeKind = F::KIND;
    let levels = btree::count_levels::<F>(records, rebuild.geometry());
    let levels = (levels + 1).min(kind.max_levels(rebuild.geometry()));
    2 * levels as usize - 2
}

/// Returns the records of reference counts of a group: the runs of blocks that several extents of
/// files claim, and the blocks that are reserved for copy-on-write.
pub(in crate::rules) fn shared(model: &Model, claims: &[Rmap]) -> Vec<Refcount> {
    let is_data = |claim: &&Rmap| match claim.owner {
        RmapOwner::Inode(inode) => {
            let file_type = model.core(inode).and_then(InodeCore::file_type);
            !claim.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE)
                && file_type == Some(FileType::Regular)
        }
        _ => false,
    };
    let mut edges: Vec<(u32, i64)> = Vec::new();
    for claim in claims.iter().filter(is_data) {
        edges.push((claim.start.0, 1));
        edges.push((claim.end().0, -1));
    }
    edges.sort_unstable();
    let mut counts: Vec<Refcount> = Vec::new();
    let (mut depth, mut start) = (0_i64, 0);
    for edges in edges.chunk_by(|a, b| a.0 == b.0) {
        let Some(&(edge, _)) = edges.first() else { continue };
        let change: i64 = edges.iter().map(|(_, change)| change).sum();
        if change == 0 {
            continue;
        }
        if depth >= 2 {
            counts.push(Refcount {
                domain: RefcountDomain::Shared,
                start: AgBlock(start),
                count: edge - start,
                references: u32::try_from(depth).unwrap_or(u32::MAX),
            });
        }
        (depth, start) = (depth + change, edge);
    }
    let staging = claims.iter().filter(|claim| claim.owner == RmapOwner::Staging);
    let mut staging: Vec<Refcount> = staging
        .map(|claim| Refcount {
            domain: RefcountDomain::Staging,
            start: claim.start,
            count: claim.count,
            references: 1,
        })
        .collect();
    staging.sort_by_key(|count| count.start);
    counts.extend(staging);
    counts
}
