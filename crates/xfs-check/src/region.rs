//! Regions: the parts of a volume whose blocks have owners. A region is an allocation group or a
//! part of the realtime section.
//!
//! Owns: the division of a realtime section into regions, and the places of their blocks. A
//! realtime group is a region. A section without groups is divided every 2^31 blocks, so that a
//! block of a region has 32 bits. A claim that crosses such a border is cut there; the sums of the
//! balances do not depend on cuts.

use std::fmt;

use xfs_format::geometry::RealtimeBlock;
use xfs_format::{AgBlock, AgNumber, FsBlock, Geometry};

use crate::facts::{Claim, Owner};
use crate::finding::Place;

/// The number of blocks of a region in a section without groups.
const REGION_BLOCKS: u64 = 1 << 31;

/// A part of the volume whose blocks have owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Region {
    /// An allocation group.
    Data(AgNumber),
    /// A part of the realtime section: a realtime group, or a part of a section without groups.
    Realtime(u32),
}

impl Region {
    /// Returns the number of blocks of the region.
    pub(crate) fn length(self, geometry: &Geometry) -> u32 {
        let realtime = &geometry.realtime;
        let length = match self {
            Self::Data(group) => return geometry.ag_length(group),
            Self::Realtime(group) if realtime.group_count != 0 => realtime.group_length(group),
            Self::Realtime(part) => {
                let start = u64::from(part) * REGION_BLOCKS;
                realtime.blocks.saturating_sub(start).min(REGION_BLOCKS)
            }
        };
        u32::try_from(length).expect("a region has at most 2^31 blocks")
    }

    /// Returns the place of a block of the region.
    pub(crate) fn place(self, block: u32, geometry: &Geometry) -> Place {
        match self {
            Self::Data(group) => Place::of_block(group, AgBlock(block), geometry),
            Self::Realtime(region) => {
                let realtime = &geometry.realtime;
                let start = match realtime.group_count {
                    0 => u64::from(region) * REGION_BLOCKS,
                    _ => u64::from(region) << realtime.group_blocks_log,
                };
                Place::of_realtime(FsBlock(start + u64::from(block)), geometry)
            }
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(group) => group.fmt(f),
            Self::Realtime(region) => write!(f, "realtime group {region}"),
        }
    }
}

/// Returns the number of regions of a realtime section without groups.
pub(crate) fn count_classic(geometry: &Geometry) -> u32 {
    let count = geometry.realtime.blocks.div_ceil(REGION_BLOCKS);
    u32::try_from(count).expect("a section has fewer than 2^63 blocks")
}

/// Blocks of the realtime section: the first one in its group, and their number. All of them lie in
/// one group.
#[derive(Clone, Copy)]
pub(crate) struct RealtimeRun {
    pub(crate) first: RealtimeBlock,
    pub(crate) count: u64,
}

/// Returns the claims of the parts of a run of realtime blocks. `like` has the owner and the use of
/// the blocks, and the offset of the first one.
pub(crate) fn claims(run: RealtimeRun, like: Claim, geometry: &Geometry) -> Vec<Claim> {
    let has_groups = geometry.realtime.group_count != 0;
    let mut parts = Vec::with_capacity(1);
    let (mut start, mut left, mut offset) = (run.first.block, run.count, like.offset);
    while left > 0 {
        let (region, block) = match has_groups {
            true => (run.first.group, start),
            false => {
                let part = u32::try_from(start / REGION_BLOCKS).expect("the section has the block");
                (part, start % REGION_BLOCKS)
            }
        };
        let count = left.min(REGION_BLOCKS - block.min(REGION_BLOCKS - 1));
        let narrow = |value: u64| u32::try_from(value).expect("a region has at most 2^31 blocks");
        parts.push(Claim {
            region: Region::Realtime(region),
            start: AgBlock(narrow(block)),
            count: narrow(count),
            offset,
            ..like
        });
        (start, left) = (start + count, left - count);
        if like.owner != Owner::Free {
            offset += count;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use xfs_format::geometry::RealtimeBlock;
    use xfs_format::rmap::RmapFlags;
    use xfs_format::{AgBlock, AgNumber, Geometry};

    use super::{REGION_BLOCKS, RealtimeRun, Region, claims, count_classic};
    use crate::facts::{Claim, Owner};

    fn classic(blocks: u64) -> Geometry {
        let mut geometry = Geometry::without_groups(12, 9, 512);
        geometry.realtime.blocks = blocks;
        geometry
    }

    #[test]
    fn claim_over_the_border_of_a_region_is_cut() {
        let geometry = classic(REGION_BLOCKS + 100);
        assert_eq!(count_classic(&geometry), 2);
        assert_eq!(Region::Realtime(1).length(&geometry), 100);
        let like = Claim {
            region: Region::Data(AgNumber(0)),
            start: AgBlock(0),
            count: 0,
            owner: Owner::Free,
            offset: 0,
            flags: RmapFlags::empty(),
        };
        let first = RealtimeBlock::new(0, REGION_BLOCKS - 10);
        let parts = claims(RealtimeRun { first, count: 30 }, like, &geometry);
        let parts: Vec<_> =
            parts.iter().map(|part| (part.region, part.start.0, part.count)).collect();
        let last = u32::try_from(REGION_BLOCKS - 10).unwrap();
        assert_eq!(parts, [(Region::Realtime(0), last, 10), (Region::Realtime(1), 0, 20)]);
    }
}
