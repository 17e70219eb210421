//! The claims of owners on blocks of the realtime section.
//!
//! Owns: the claims of files, of the superblock of the section, and of copy-on-write. Does **not**
//! own: the records that are made from the claims (rule `realtime`), or claims on blocks of
//! allocation groups (`claims`).

use std::collections::BTreeMap;

use xfs_format::extent::Extent;
use xfs_format::geometry::RealtimeBlock;
use xfs_format::realtime::RealtimeGroup;
use xfs_format::refcount::RefcountDomain;
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, FileBlock, FsBlock, Geometry, InodeNumber};

use crate::metadata::{MetadirFiles, MetadirKind, groups};
use crate::model::{InodeState, Model};
use crate::patient::Patient;

/// Blocks of a realtime group that an owner uses. A section without groups counts as group 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionClaim {
    /// The first block in the group.
    pub(crate) start: u64,
    /// The number of blocks.
    pub(crate) count: u64,
    /// The owner.
    pub(crate) owner: RmapOwner,
    /// The block of the file that the first block holds; 0 for an owner that is no file.
    pub(crate) offset: u64,
    /// Whether the blocks are allocated and not written.
    pub(crate) is_unwritten: bool,
}

impl SectionClaim {
    /// Returns the block after the last one.
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.count
    }

    /// Returns the claim as a record of the reverse map.
    pub(crate) fn record(&self) -> Rmap {
        let block = |value: u64| u32::try_from(value).expect("a realtime group has 2^31 blocks");
        let unwritten = if self.is_unwritten { RmapFlags::UNWRITTEN } else { RmapFlags::empty() };
        Rmap {
            start: AgBlock(block(self.start)),
            count: block(self.count),
            owner: self.owner,
            offset: FileBlock(self.offset),
            flags: unwritten,
        }
    }
}

/// The claims in each realtime group.
#[derive(Clone, Debug, Default)]
pub(crate) struct SectionClaims {
    /// The claims of each group, not sorted.
    pub(crate) groups: BTreeMap<u32, Vec<SectionClaim>>,
    /// Whether some blocks of an inode of the volume are not known, so that realtime blocks without
    /// a claim may belong to it.
    pub(crate) has_unknown_owner: bool,
    /// The groups whose blocks of copy-on-write are not known.
    pub(crate) without_staging: Vec<u32>,
}

/// Returns the number of a block of the section, as maps of files number it.
pub(crate) fn join(geometry: &Geometry, group: u32, block: u64) -> FsBlock {
    FsBlock(u64::from(group) << geometry.realtime.group_blocks_log | block)
}

/// Returns the realtime group with this number, for encoding and checking the records of its
/// btrees.
pub(crate) fn group<'p>(patient: &'p Patient<'_>, number: u32) -> RealtimeGroup<'p> {
    let has_superblock = patient.superblock().has_realtime_superblock();
    RealtimeGroup { geometry: patient.geometry(), number, has_superblock }
}

/// Returns the claims of all owners. If not all blocks of an inode are known, it also gets the
/// blocks that readable records of the reverse maps give to it.
pub(crate) fn of_volume(
    patient: &Patient<'_>,
    model: &Model,
    files: &MetadirFiles,
) -> SectionClaims {
    let geometry = patient.geometry();
    let mut claims = SectionClaims::default();
    for number in groups(geometry) {
        let own = claims.groups.entry(number).or_default();
        let fixed = group(patient, number).superblock_blocks();
        if fixed > 0 {
            own.push(SectionClaim {
                start: 0,
                count: fixed.into(),
                owner: RmapOwner::Volume,
                offset: 0,
                is_unwritten: false,
            });
        }
    }
    for (number, inode) in &model.inodes {
        let is_known = inode.state == InodeState::Sound && inode.data.is_whole;
        let is_realtime = inode.is_realtime();
        if is_realtime {
            for extent in &inode.data.extents {
                claims.file(geometry, *number, extent);
            }
        }
        if !is_known && (is_realtime || inode.state != InodeState::Sound) {
            claims.has_unknown_owner = true;
            for extent in patient.mapped().realtime_fork(*number) {
                claims.file(geometry, *number, &extent);
            }
        }
    }
    claims.staging(patient, files);
    claims
}

impl SectionClaims {
    /// Returns whether an owner other than `inode` claims a block of an extent.
    pub(crate) fn has_other(
        &self,
        geometry: &Geometry,
        inode: InodeNumber,
        extent: &Extent,
    ) -> bool {
        let Some(RealtimeBlock { group, block, .. }) = geometry.realtime.split_block(extent.start)
        else {
            return true;
        };
        let end = block + u64::from(extent.length_blocks);
        let claims = self.groups.get(&group).into_iter().flatten();
        let is_other = |claim: &SectionClaim| claim.owner != RmapOwner::Inode(inode);
        claims.into_iter().any(|claim| is_other(claim) && claim.start < end && block < claim.end())
    }

    fn file(&mut self, geometry: &Geometry, inode: InodeNumber, extent: &Extent) {
        let realtime = &geometry.realtime;
        let count = u64::from(extent.length_blocks);
        let RealtimeBlock { group, block, .. } = match realtime.split_block(extent.start) {
            Some(split) if realtime.contains_extent(extent.start, count) => split,
            _ => return,
        };
        self.groups.entry(group).or_default().push(SectionClaim {
            start: block,
            count,
            owner: RmapOwner::Inode(inode),
            offset: extent.file_block.0,
            is_unwritten: extent.unwritten,
        });
    }

    /// Adds the blocks that are reserved for copy-on-write. If the btree of reference counts of a
    /// group is damaged, none are added: the next mount would free these blocks anyway.
    fn staging(&mut self, patient: &Patient<'_>, files: &MetadirFiles) {
        for (group, own) in &mut self.groups {
            let Some(inode) = files.inode(*group, MetadirKind::Refcounts) else { continue };
            let evidence = patient.evidence();
            let tree = evidence.realtime_refcounts(&evidence.inode(inode), *group);
            if !tree.is_whole {
                self.without_staging.push(*group);
                continue;
            }
            let is_staging = |domain| domain == RefcountDomain::Staging;
            let staging = tree.records.iter().filter(|record| is_staging(record.domain));
            own.extend(staging.map(|record| SectionClaim {
                start: record.start.0.into(),
                count: record.count.into(),
                owner: RmapOwner::Staging,
                offset: 0,
                is_unwritten: false,
            }));
        }
    }
}
