//! The search for the blocks of a quota inode whose map is lost.
//!
//! Owns: the map that the reverse maps and the dquots themselves give, and the proof that the map
//! is whole. Does **not** own: the inode (`inode`), or damaged dquots in a block (`blocks`).
//!
//! A block of dquots names neither its inode nor its address. The type and the IDs of its dquots
//! give its place: the quota inode, and the block of that inode. A block that was freed keeps its
//! dquots, and so may a block that now belongs to a file. So only a block without an owner counts:
//!
//! | group | blocks of the inode |
//! |---|---|
//! | its reverse map is whole | those of the map, and with dquots: neither in the map nor free |
//! | its free space is known | those with dquots that no owner claims and that are not free |
//! | neither | those with dquots that no owner claims; older copies may be among them |
//!
//! # Invariants
//!
//! - **I1** If two blocks have the same place, the one with the newer LSN is taken.
//! - **I2** The map is whole only if each block without an owner that is not free is explained. It
//!   has dquots of its own place, it is metadata that names its owner, or the reverse map points
//!   to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use xfs_evidence::RecognisedDquots;
use xfs_format::dquot::{QuotaKind, dquots_per_block};
use xfs_format::extent::Extent;
use xfs_format::free_space::FreeSpaceByBlock;
use xfs_format::inode::{InodeCore, InodeFlags2};
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber, Lsn};

use super::text;
use crate::claims;
use crate::error::RepairError;
use crate::model::{InodeState, Model};
use crate::patient::Patient;
use crate::reserve::{self, Reserve};
use crate::rules::fork;
use crate::trees;

/// Length in bytes of one read of the search.
const READ_BYTES: u32 = 1 << 20;

/// The blocks of a quota inode that a search has found.
#[derive(Clone, Debug)]
pub(in crate::rules) struct FoundDquots {
    /// The map of the data fork, in the order of the file.
    pub(in crate::rules) extents: Vec<Extent>,
    /// Whether no block of the inode can be missing (I2).
    pub(in crate::rules) is_whole: bool,
    /// Blocks without an owner that may have held dquots of the inode, and hold none now. Empty if
    /// they may belong to another inode that cannot be read.
    pub(in crate::rules) unexplained: Vec<Extent>,
    /// The blocks of the inode with the dquots of owners of files that were not found.
    missing: BTreeSet<u32>,
    kind: QuotaKind,
    per_block: u32,
}

impl FoundDquots {
    /// Returns the loss of an inode that gets this map, in words.
    pub(in crate::rules) fn loss(&self) -> String {
        let owners = format!("{}s", self.kind.name());
        if self.missing.is_empty() {
            return format!("limits of {owners}, if a block of dquots is among the lost blocks");
        }
        let lost = self.missing.iter().map(|block| {
            let first = block.saturating_mul(self.per_block);
            (first, first.saturating_add(self.per_block - 1))
        });
        let lost = text::ranges(lost);
        format!("limits of {owners} {lost}, and of {owners} without files in other lost blocks")
    }
}

/// Finds the blocks of the quota inode `inode`, which holds the dquots of `kind`.
///
/// # Errors
///
/// [`RepairError::Stopped`] if the caller stops the repair.
pub(in crate::rules) fn find(
    patient: &mut Patient,
    inode: InodeNumber,
    kind: QuotaKind,
) -> Result<FoundDquots, RepairError> {
    let model = patient.model()?;
    let mut loose = LooseDquots::find(patient, &model, Some(inode))?;
    let geometry = patient.geometry().clone();
    let is_mapped = |group: &AgNumber| patient.reverse_map(*group).is_whole;
    let whole: Vec<AgNumber> = geometry.groups().filter(is_mapped).collect();
    let mut extents: Vec<Extent> = Vec::new();
    for group in geometry.groups() {
        let map = patient.reverse_map(group);
        let own = map.records.iter().filter(|record| is_data_of(record, inode));
        for record in own {
            let extent = claims::extent_of(&geometry, group, record);
            match whole.contains(&group) {
                true => extents.push(extent),
                // A leaf that is left of a damaged map may be out of date.
                false => loose.take_mapped(kind, &extent),
            }
        }
    }
    let own = loose.blocks.iter().filter(|((of, _), _)| *of == kind);
    extents.extend(own.map(|((_, file_block), (_, block))| one_block(*file_block, *block)));
    // The kernel never leaves a block of dquots unwritten.
    extents.iter_mut().for_each(|extent| extent.unwritten = false);
    let extents = fork::in_order(extents);
    let per_block = dquots_per_block(&geometry);
    let missing = missing(&model, &extents, kind, per_block);
    let is_alone = model.inodes.iter().all(|(number, other)| {
        *number == inode || claims::is_known(other) || super::kind_of(patient, *number).is_some()
    });
    // Only an inode in use has blocks that the free space does not list.
    let is_used = model.inodes.get(&inode).is_some_and(|lost| !claims::is_known(lost));
    let has_all_maps = whole.len() == geometry.ag_count as usize;
    // An unexplained block may be one of the inode.
    let is_known = loose.is_whole && loose.unexplained.is_empty();
    let is_whole = is_known && (is_used || has_all_maps);
    let unexplained = match is_alone {
        true => loose.unexplained.iter().map(|block| one_block(FileBlock(0), *block)).collect(),
        false => Vec::new(),
    };
    Ok(FoundDquots { extents, is_whole, unexplained, missing, kind, per_block })
}

/// Returns the types of the dquots that lie in blocks without an owner.
///
/// # Errors
///
/// [`RepairError::Stopped`] if the caller stops the repair.
pub(in crate::rules) fn loose_kinds(
    patient: &mut Patient,
) -> Result<BTreeSet<QuotaKind>, RepairError> {
    let model = patient.model()?;
    let loose = LooseDquots::find(patient, &model, None)?;
    Ok(loose.blocks.keys().map(|(kind, _)| *kind).collect())
}

fn is_data_of(record: &Rmap, inode: InodeNumber) -> bool {
    record.owner == RmapOwner::Inode(inode)
        && !record.flags.intersects(RmapFlags::FORK_BTREE | RmapFlags::ATTR)
}

const fn one_block(file_block: FileBlock, start: FsBlock) -> Extent {
    Extent { file_block, start, length_blocks: 1, unwritten: false }
}

/// Returns the blocks of a quota inode that the kernel has made for owners of known inodes, and
/// that `extents` does not map.
fn missing(model: &Model, extents: &[Extent], kind: QuotaKind, per_block: u32) -> BTreeSet<u32> {
    let is_counted = |core: &&InodeCore| !core.flags2.contains(InodeFlags2::METADATA);
    let sound = model.inodes.values().filter(|inode| inode.state == InodeState::Sound);
    let cores = sound.filter_map(|inode| inode.core.as_ref()).filter(is_counted);
    let ids: BTreeSet<u32> = cores
        .map(|core| match kind {
            QuotaKind::User => core.uid,
            QuotaKind::Group => core.gid,
            QuotaKind::Project => core.project_id,
        })
        .map(|id| id / per_block)
        .collect();
    let is_mapped = |block: &u32| {
        let block = FileBlock(u64::from(*block));
        let index = extents.partition_point(|extent| extent.end() <= block);
        extents.get(index).is_some_and(|extent| extent.file_block <= block)
    };
    ids.into_iter().filter(|block| !is_mapped(block)).collect()
}

/// The blocks with dquots that no owner claims, and that no whole reverse map records.
#[derive(Clone, Debug)]
struct LooseDquots {
    /// The newest block of each place, with the newest LSN of its dquots.
    blocks: BTreeMap<(QuotaKind, FileBlock), (Lsn, FsBlock)>,
    /// The blocks without an owner that hold neither dquots nor metadata that names its owner, and
    /// the older blocks of a place (I1).
    unexplained: BTreeSet<FsBlock>,
    /// Whether the free blocks of all groups are known.
    is_whole: bool,
}

impl LooseDquots {
    /// Searches all groups. Claims of `lost`, whose map is lost, do not count where the reverse map
    /// is damaged.
    fn find(
        patient: &mut Patient,
        model: &Model,
        lost: Option<InodeNumber>,
    ) -> Result<Self, RepairError> {
        let mut loose =
            Self { blocks: BTreeMap::new(), unexplained: BTreeSet::new(), is_whole: true };
        let mut claims = claims::of_volume(patient, model);
        let groups: Vec<AgNumber> = patient.geometry().groups().collect();
        for group in groups {
            patient.poll()?;
            let mut own = claims.remove(&group).expect("each group has claims");
            let runs = match patient.reverse_map(group).is_whole {
                true => without_record(patient, group, own),
                false => {
                    let is_lost = |claim: &Rmap| lost.map(RmapOwner::Inode) == Some(claim.owner);
                    own.retain(|claim| !is_lost(claim));
                    loose.without_owner(patient, model, group, own)
                }
            };
            for (start, end) in runs {
                loose.look_at(patient, group, start..end)?;
            }
        }
        Ok(loose)
    }

    /// Returns the runs of blocks of a group without a whole reverse map that no claim in `own`
    /// covers and that are not free.
    fn without_owner(
        &mut self,
        patient: &mut Patient,
        model: &Model,
        group: AgNumber,
        mut own: Vec<Rmap>,
    ) -> Vec<(u32, u32)> {
        let mut trees = patient.tree_blocks(group);
        trees.extend(blocks_of_reverse_map(patient, group));
        own.extend(trees.into_iter().map(|block| claims::claim(block, 1, RmapOwner::Group)));
        match reserve::of_group(patient, model, group, &own) {
            Reserve::Blocks(reserved) => runs_of(&reserved),
            Reserve::Unknown => {
                self.is_whole = false;
                claims::gaps(&own, patient.geometry().ag_length(group))
            }
        }
    }

    /// Reads a run of blocks without an owner.
    fn look_at(
        &mut self,
        patient: &Patient,
        group: AgNumber,
        Range { mut start, end }: Range<u32>,
    ) -> Result<(), RepairError> {
        let geometry = patient.geometry();
        let most = (READ_BYTES >> geometry.block_log).max(1);
        while start < end {
            patient.poll()?;
            let count = most.min(end - start);
            let mut bytes = vec![0; (count as usize) << geometry.block_log];
            let at = geometry.ag_block_disk_addr(group, AgBlock(start));
            // A repair with a sector that cannot be read is not written, so zeros do no harm here.
            if !patient.can_read(at, &mut bytes) {
                bytes.fill(0);
            }
            for (block, bytes) in (start..).zip(bytes.chunks_exact(geometry.block_size as usize)) {
                self.take(patient, geometry.join_block(group, AgBlock(block)), bytes);
            }
            start += count;
        }
        Ok(())
    }

    fn take(&mut self, patient: &Patient, block: FsBlock, bytes: &[u8]) {
        if let Some(found) = RecognisedDquots::of(bytes, &patient.context()) {
            let new = (found.lsn, block);
            let known = self.blocks.entry((found.kind, found.file_block)).or_insert(new);
            // Of two equally old blocks, the first one is taken (I1).
            if known.1 != block {
                let older = if new.0 > known.0 { std::mem::replace(known, new) } else { new };
                self.unexplained.insert(older.1);
            }
        } else if !patient.evidence().names_itself(block) {
            self.unexplained.insert(block);
        }
    }

    /// Gives a place without a block to an unexplained block that a record of a damaged reverse map
    /// puts there. Its dquots are destroyed.
    fn take_mapped(&mut self, kind: QuotaKind, extent: &Extent) {
        let end = FsBlock(extent.start.0.saturating_add(extent.length_blocks.into()));
        let inside: Vec<FsBlock> = self.unexplained.range(extent.start..end).copied().collect();
        for block in inside {
            let index = block.0 - extent.start.0;
            let place = (kind, FileBlock(extent.file_block.0 + index));
            if !self.blocks.contains_key(&place) {
                self.unexplained.remove(&block);
                self.blocks.insert(place, (Lsn(0), block));
            }
        }
    }
}

/// Returns the runs of blocks of a group that neither a claim in `own`, nor a record of the whole
/// reverse map, nor the free space has. A sound group has none. An earlier repair leaves such
/// blocks if it could not read their inode.
fn without_record(patient: &Patient, group: AgNumber, mut own: Vec<Rmap>) -> Vec<(u32, u32)> {
    let root = trees::agf(patient, group).map(|header| header.header.free_space_by_block);
    let free = root.map(|root| trees::walk::<FreeSpaceByBlock>(patient, group, root));
    // Without the free space, all blocks without a record count as free.
    let Some(free) = free.filter(|tree| tree.is_whole) else { return Vec::new() };
    let free = free.records.iter();
    own.extend(free.map(|free| claims::claim(free.start, free.count, RmapOwner::Volume)));
    own.extend(patient.reverse_map(group).records.iter());
    claims::gaps(&own, patient.geometry().ag_length(group))
}

/// Returns the blocks of the damaged reverse map of a group, as far as they can be walked.
fn blocks_of_reverse_map(patient: &Patient, group: AgNumber) -> BTreeSet<AgBlock> {
    let agf = trees::agf(patient, group);
    let root = agf.and_then(|header| header.header.reverse_map);
    let tree = root.map(|root| trees::walk::<ReverseMap>(patient, group, root));
    tree.map(|tree| tree.blocks).unwrap_or_default()
}

/// Returns claims as runs of blocks in order, without overlaps.
fn runs_of(claims: &[Rmap]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> =
        claims.iter().map(|claim| (claim.start.0, claim.end().0)).collect();
    runs.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
    for (start, end) in runs {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}
