//! The extents of damaged forks, from structures other than the inode.
//!
//! Owns: collecting these extents from the reverse maps and from leaves of extent btrees. Does
//! **not** own: joining them with the extent map of a file (`maps.rs` of the crate).

use std::collections::BTreeMap;

use xfs_evidence::{Evidence, FoundBlock, Sighting, Trust, sweep};
use xfs_format::btree::BtreeKind;
use xfs_format::extent::Extent;
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgNumber, FsBlock, Geometry, InodeNumber};

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
        self.realtime_maps();
        if self.knows_all_extents && self.knows_realtime_extents {
            return Ok(());
        }
        self.notes.push(
            "the reverse map is damaged or missing; maps of damaged files come from what is left \
             of their btrees"
                .to_owned(),
        );
        self.leaves()
    }

    /// Collects the extents of damaged realtime files from the reverse maps of realtime groups,
    /// whose roots are in inodes of the metadata directory.
    fn realtime_maps(&mut self) {
        let evidence = &self.evidence;
        let realtime = &evidence.geometry().realtime;
        if !realtime.is_present() {
            return;
        }
        let maps = reverse_maps_of(evidence);
        for group in 0..realtime.group_count.max(1) {
            let Some(inode) = maps.get(&group) else {
                self.knows_realtime_extents = false;
                continue;
            };
            let map = evidence.realtime_reverse_map(&evidence.inode(*inode), group);
            self.knows_realtime_extents &= map.is_whole;
            for record in &map.records {
                let RmapOwner::Inode(owner) = record.owner else { continue };
                let is_gone = self.is_incomplete && !self.inventory.has(owner, Mark::Readable);
                if !is_gone && !self.forks.contains_key(&owner) {
                    continue;
                }
                let start = u64::from(group) << realtime.group_blocks_log;
                let extents = self.forks.entry(owner).or_default();
                // Blocks of the data device prove that the file is no realtime file.
                if !extents.is_empty() && !self.realtime_forks.contains(&owner) {
                    continue;
                }
                self.realtime_forks.insert(owner);
                extents.push(Extent {
                    file_block: record.offset,
                    start: FsBlock(start | u64::from(record.start.0)),
                    length_blocks: record.count,
                    unwritten: record.flags.contains(RmapFlags::UNWRITTEN),
                });
            }
        }
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
                    let owner = evidence.inode(InodeNumber(sighting.owner));
                    let is_realtime =
                        owner.any_core().is_some_and(|core| evidence.is_realtime(core));
                    let is_inside = |extent: &Extent| {
                        let count = extent.length_blocks.into();
                        match is_realtime {
                            true => geometry.realtime.contains_extent(extent.start, count),
                            false => geometry.contains_extent(extent.start, count),
                        }
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

/// Returns the inodes that hold the reverse maps of realtime groups, by their paths in the metadata
/// directory.
fn reverse_maps_of(evidence: &Evidence<'_>) -> BTreeMap<u32, InodeNumber> {
    let Some(root) = evidence.superblock().metadata_directory_inode else {
        return BTreeMap::new();
    };
    let names = |directory| evidence.entries(&evidence.inode(directory)).names;
    let groups = names(root).into_iter().filter(|name| &*name.name == b"rtgroups");
    let files = groups.flat_map(|directory| names(directory.child));
    let group = |name: &[u8]| str::from_utf8(name).ok()?.strip_suffix(".rmap")?.parse().ok();
    files.filter_map(|file| Some((group(&file.name)?, file.child))).collect()
}

/// Returns the extent of a fork that a record of the reverse map describes.
pub(super) fn extent_of(geometry: &Geometry, group: AgNumber, record: &Rmap) -> Extent {
    Extent {
        file_block: record.offset,
        start: geometry.join_block(group, record.start),
        length_blocks: record.count,
        unwritten: record.flags.contains(RmapFlags::UNWRITTEN),
    }
}
