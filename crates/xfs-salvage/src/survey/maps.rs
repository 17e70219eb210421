//! The extents of damaged forks, from structures other than the inode.
//!
//! Owns: collecting these extents from the reverse maps and from leaves of extent btrees. Does
//! **not** own: joining them with the extent map of a file (`maps.rs` of the crate).

use xfs_evidence::{FoundBlock, Sighting, Trust, sweep};
use xfs_format::btree::BtreeKind;
use xfs_format::extent::Extent;
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgNumber, Geometry, InodeNumber};

use super::{Stopped, Survey, SweepStep, groups_on_device};
use crate::inventory::Mark;

/// The most extents of damaged files that are taken from the reverse map.
pub(super) const MOST_EXTENTS: u64 = 1 << 23;

impl Survey<'_, '_> {
    /// Collects the extents of damaged forks from the reverse maps. Where a reverse map is damaged,
    /// collects them from leaves of the extent btrees of these forks.
    pub(super) fn reverse_maps(&mut self) -> Result<(), Stopped> {
        if self.forks.is_empty() && !self.is_incomplete {
            return Ok(());
        }
        let geometry = self.evidence.geometry();
        let (inventory, is_incomplete) = (&self.inventory, self.is_incomplete);
        let (forks, mut count) = (&mut self.forks, 0);
        for group in (0..groups_on_device(&self.evidence)).map(AgNumber) {
            let read = self.evidence.group_records::<ReverseMap>(group, |record, trust| {
                let RmapOwner::Inode(owner) = record.owner else { return };
                let is_data = !record.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE);
                let is_gone = is_incomplete && !inventory.has(owner, Mark::Readable);
                if !is_data || !(is_gone || forks.contains_key(&owner)) {
                    return;
                }
                count += 1;
                if trust == Trust::Sound && count <= MOST_EXTENTS {
                    let extent = extent_of(geometry, group, record);
                    forks.entry(owner).or_default().push(extent);
                }
            });
            self.knows_all_extents &= read.is_whole && count <= MOST_EXTENTS;
        }
        if self.knows_all_extents {
            return Ok(());
        }
        self.notes.push(
            "the reverse map is damaged or missing; maps of damaged files come from what is left \
             of their btrees"
                .to_owned(),
        );
        self.leaves()
    }

    fn leaves(&mut self) -> Result<(), Stopped> {
        let evidence = &self.evidence;
        let geometry = evidence.geometry();
        let (forks, mut count) = (&mut self.forks, 0);
        let mut on_sighting = |sighting: &Sighting, _: &[u8]| {
            let is_leaf = sighting.what == FoundBlock::Btree { kind: BtreeKind::Extent, level: 0 };
            if !is_leaf || sighting.trust != Trust::Sound {
                return;
            }
            let Some(extents) = forks.get_mut(&InodeNumber(sighting.owner)) else { return };
            let Some((group, block)) = geometry.split_disk_addr(sighting.at) else { return };
            if let Some(leaf) = evidence.extent_leaf(geometry.join_block(group, block)) {
                count += leaf.extents.len() as u64;
                if count <= MOST_EXTENTS {
                    let is_inside = |extent: &Extent| {
                        geometry.contains_extent(extent.start, extent.length_blocks.into())
                    };
                    extents.extend(leaf.extents.into_iter().filter(is_inside));
                }
            }
        };
        let groups = 0..geometry.ag_count;
        let swept = sweep(evidence, groups, &SweepStep(self.progress), &mut on_sighting);
        if swept.is_stopped { Err(Stopped) } else { Ok(()) }
    }
}

/// Returns the extent that a record of the reverse map of a group states.
pub(super) fn extent_of(geometry: &Geometry, group: AgNumber, record: &Rmap) -> Extent {
    Extent {
        file_block: record.offset,
        start: geometry.join_block(group, record.start),
        length_blocks: record.count,
        unwritten: record.flags.contains(RmapFlags::UNWRITTEN),
    }
}
