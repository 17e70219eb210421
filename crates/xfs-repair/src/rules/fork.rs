//! Rule `fork`: rebuilds the extent map of a fork whose btree or counts are damaged.
//!
//! Owns: the extents of the fork, from its sound leaves and from the reverse map; its counts; and
//! the flag of shared blocks. Does **not** own: the contents of the blocks.
//!
//! Sound leaves come first. The reverse map fills the ranges that no sound leaf covers, and those
//! only. If the reverse map has no record for such a range either, the range becomes a hole, which
//! is a loss.

use std::collections::BTreeMap;

use xfs_check::{Area, Code, Place};
use xfs_evidence::{FileRange, ForkEvidence};
use xfs_format::extent::{Extent, ExtentRules, FILE_BLOCK_LIMIT, MAX_ATTR_EXTENTS, MAX_EXTENTS};
use xfs_format::free_space::FreeSpaceByBlock;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags2};
use xfs_format::rmap::{Rmap, RmapOwner};
use xfs_format::{AgNumber, FileBlock, FsBlock, Geometry, InodeNumber};

use super::quota;
use crate::action::Action;
use crate::claims;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::metadata::MetadirFiles;
use crate::patient::Patient;
use crate::section::{self, SectionClaims};
use crate::trees;

/// The name of this rule in plans and messages.
const RULE: &str = "fork";

/// The loss of a fork whose map is lost, and of which the reverse map lacks parts.
const LOST_PARTS: &str = "the parts of the file whose map is lost and that the reverse map lacks";

/// Rewrites the forks that have findings. Also rewrites the forks that the reverse map contradicts,
/// if the reverse map is right.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    settle_disputes(patient, damage)?;
    let inodes: Vec<InodeNumber> = damage.inodes.keys().copied().collect();
    for inode in inodes {
        patient.poll()?;
        let codes: Vec<Code> =
            damage.codes_of(inode).into_iter().filter(|code| is_of_fork(*code)).collect();
        let is_sound = patient.has_inode(inode) && patient.evidence().inode(inode).is_sound();
        if codes.is_empty() || !is_sound {
            continue;
        }
        patient.attempt(|patient| repair(patient, inode, codes))?;
    }
    Ok(())
}

fn repair(patient: &mut Patient, inode: InodeNumber, codes: Vec<Code>) -> Result<(), RepairError> {
    let file_type = patient.evidence().inode(inode).core().and_then(InodeCore::file_type);
    if codes.contains(&Code::InodeReflink) && file_type == Some(FileType::Regular) {
        patient.set_inode(inode, |core| core.flags2 |= InodeFlags2::REFLINK)?;
    }
    let mut is_complete = true;
    if codes.iter().any(|code| !matches!(code, Code::InodeReflink | Code::InodeBlocks)) {
        for kind in [ForkKind::Data, ForkKind::Attr] {
            is_complete &= rebuild(patient, inode, kind)?;
        }
    }
    if !is_complete {
        return Ok(());
    }
    count_blocks(patient, inode)?;
    let place = Place::of_inode(inode, patient.geometry());
    let keeps = "the extents of sound leaves and of the reverse map";
    patient.act(Action::new(RULE, place, codes, keeps));
    Ok(())
}

/// Rewrites each fork that the reverse map contradicts, if the evidence shows that the reverse map
/// is right.
///
/// The reverse map is right if it agrees with the inode's count of blocks and the fork does not. It
/// is also right if blocks of the fork belong to another owner, are free, or are mapped twice by
/// the inode, and no block of the map is.
///
/// Finally, it is right if it has all extents of the fork, and its further blocks have no other
/// owner and are not free. Then the inode is an older state: the reverse map and the free space
/// both show that the blocks are in use. This last rule is not applied to directories, because
/// parent pointers are further evidence for their names.
fn settle_disputes(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let mut inodes = damage.disputed.clone();
    let has_wrong_count =
        |inode: &&InodeNumber| damage.codes_of(**inode).contains(&Code::InodeBlocks);
    inodes.extend(damage.inodes.keys().filter(has_wrong_count));
    if inodes.is_empty() {
        return Ok(());
    }
    let mapped = patient.mapped();
    let owned = Owned::of(patient)?;
    inodes.retain(|inode| patient.has_inode(*inode));
    for inode in inodes {
        let found = patient.evidence().inode(inode);
        let Some(core) = found.core().filter(|_| found.is_sound()).cloned() else { continue };
        for kind in [ForkKind::Data, ForkKind::Attr] {
            let is_map = mapped.is_whole_for(&core, kind)
                && matches!(core.fork_format(kind), Some(ForkFormat::Extents | ForkFormat::Btree));
            let in_section = kind == ForkKind::Data && core.is_realtime();
            let fork = patient.evidence().extents(&found, kind);
            let own = in_order(fork.extents.clone());
            let by_map = in_order(mapped.fork(inode, kind));
            if !is_map || own == by_map {
                continue;
            }
            let other = if kind == ForkKind::Data { ForkKind::Attr } else { ForkKind::Data };
            let other = patient.evidence().extents(&found, other);
            let trees = (fork.tree_blocks.len() + other.tree_blocks.len()) as u64;
            let rest = blocks_of(&other.extents) + trees;
            let is_right = |extents: &[Extent]| blocks_of(extents) + rest == core.blocks;
            let is_directory = core.file_type() == Some(FileType::Directory);
            // The third case needs the free blocks, which are not known of a realtime section.
            let is_older =
                (kind == ForkKind::Attr || !is_directory) && !in_section && adds_to(&by_map, &own);
            let is_contradicted = |extents: &[Extent]| {
                owned.contradicts(inode, extents, in_section)
                    || (!in_section && maps_a_block_twice(extents, &other.extents))
            };
            let map_is_right = match (is_right(&own), is_right(&by_map)) {
                (false, true) => true,
                _ => (is_older || is_contradicted(&own)) && !is_contradicted(&by_map),
            };
            if !map_is_right || !fits_count(&core, kind, by_map.len()) {
                continue;
            }
            patient.attempt(|patient| {
                patient.set_fork(inode, kind, ForkContents::Extents(by_map))?;
                let place = Place::of_inode(inode, patient.geometry());
                let keeps = "the extents of the reverse map, which no other owner contradicts";
                patient.act(Action::new(RULE, place, damage.codes_of(inode), keeps));
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Returns whether the extents `map` include all extents `fork`, and more. Both are in the order of
/// the file.
fn adds_to(map: &[Extent], fork: &[Extent]) -> bool {
    let holds = |extent: &Extent| {
        let index = map.partition_point(|other| other.end() <= extent.file_block);
        map.get(index).is_some_and(|other| {
            let range = FileRange { start: extent.file_block, end: extent.end() };
            clipped(other, range).as_ref() == Some(extent)
        })
    };
    fork.iter().all(holds) && blocks_of(map) > blocks_of(fork)
}

/// Returns whether the extents of both forks of an inode together have a block more than once.
fn maps_a_block_twice(fork: &[Extent], other: &[Extent]) -> bool {
    let range =
        |extent: &Extent| (extent.start.0, extent.start.0 + u64::from(extent.length_blocks));
    let mut ranges: Vec<(u64, u64)> = fork.iter().chain(other).map(range).collect();
    ranges.sort_unstable();
    ranges.iter().zip(ranges.iter().skip(1)).any(|(first, second)| second.0 < first.1)
}

fn blocks_of(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.length_blocks)).sum()
}

/// The blocks of every owner of the volume, and the free blocks. A fork that contradicts the
/// reverse map is compared with these.
struct Owned {
    geometry: Geometry,
    claims: BTreeMap<AgNumber, Vec<Rmap>>,
    section: SectionClaims,
}

impl Owned {
    fn of(patient: &mut Patient) -> Result<Self, RepairError> {
        let model = patient.model()?;
        let mut claims = claims::of_volume(patient, &model);
        for (group, claims) in &mut claims {
            let root = trees::agf(patient, *group).map(|agf| agf.header.free_space_by_block);
            let free = root.map(|root| trees::walk::<FreeSpaceByBlock>(patient, *group, root));
            // Free space has no owner in the reverse map. That of the volume stands for it.
            claims.extend(
                free.into_iter()
                    .flat_map(|tree| tree.records)
                    .map(|free| claims::claim(free.start, free.count, RmapOwner::Volume)),
            );
            claims.sort_by_key(|claim| claim.start);
        }
        let files = MetadirFiles::find(&patient.evidence());
        let section = section::of_volume(patient, &model, &files);
        Ok(Self { geometry: patient.geometry().clone(), claims, section })
    }

    /// Returns whether one of the extents overlaps a block that is free or belongs to an owner
    /// other than `inode`. Blocks with the contents of another file also count, although files may
    /// share such blocks.
    /// `in_section` says that the extents are in the realtime section, whose free blocks are not
    /// known here.
    fn contradicts(&self, inode: InodeNumber, extents: &[Extent], in_section: bool) -> bool {
        extents.iter().any(|extent| {
            if in_section {
                return self.section.has_other(&self.geometry, inode, extent);
            }
            let Some((group, start)) = self.geometry.split_block(extent.start) else { return true };
            let end = start.0.saturating_add(extent.length_blocks);
            let claims = self.claims.get(&group).into_iter().flatten();
            let is_other = |claim: &Rmap| claim.owner != RmapOwner::Inode(inode);
            claims
                .into_iter()
                .any(|claim| is_other(claim) && claim.start.0 < end && start < claim.end())
        })
    }
}

const fn is_of_fork(code: Code) -> bool {
    (matches!(code.area(), Area::Btree | Area::Map)
        && !matches!(code, Code::MapPastEnd | Code::MapJoinable))
        || matches!(
            code,
            Code::InodeExtents | Code::InodeNextents | Code::InodeBlocks | Code::InodeReflink
        )
}

/// Corrects the number of blocks in the core of an inode. The extent maps of both forks must be
/// whole.
pub(super) fn count_blocks(patient: &mut Patient, inode: InodeNumber) -> Result<(), RepairError> {
    let found = patient.evidence().inode(inode);
    let blocks: u64 = [ForkKind::Data, ForkKind::Attr]
        .into_iter()
        .map(|kind| {
            let format = found.any_core().and_then(|core| core.fork_format(kind));
            if format == Some(ForkFormat::MetadataBtree) {
                return patient.evidence().realtime_tree_blocks(&found).tree_blocks.len() as u64;
            }
            let fork = patient.evidence().extents(&found, kind);
            let extents: u64 = fork.extents.iter().map(|e| u64::from(e.length_blocks)).sum();
            extents + fork.tree_blocks.len() as u64
        })
        .sum();
    match found.any_core() {
        Some(core) if core.blocks != blocks => {
            patient.set_inode(inode, |core| core.blocks = blocks)
        }
        _ => Ok(()),
    }
}

/// Rebuilds a fork of an inode that can be decoded. Returns `false`, and changes nothing, if ranges
/// of the fork are lost and losses are not allowed, or if the fork has more extents than the
/// inode's counters can hold.
///
/// # Errors
///
/// [`RepairError::NoSpace`] if there are too few free blocks for a new btree.
pub(super) fn rebuild(
    patient: &mut Patient,
    inode: InodeNumber,
    kind: ForkKind,
) -> Result<bool, RepairError> {
    let found = patient.evidence().inode(inode);
    let Some(core) = found.any_core() else { return Ok(false) };
    let format = core.fork_format(kind);
    if !matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree)) {
        return Ok(true);
    }
    let fork = patient.evidence().extents(&found, kind);
    if format == Some(ForkFormat::Extents) && fork.is_whole() {
        return Ok(true);
    }
    let mut impossible = Vec::new();
    let mut what = LOST_PARTS.to_owned();
    let (extents, is_complete) = if fork.missing.is_empty() && fork.doubtful.is_empty() {
        (fork.extents, true)
    } else {
        let mapped = patient.mapped();
        let dquots = quota::kind_of(patient, inode).filter(|_| kind == ForkKind::Data);
        let (from_map, knows_all) = match dquots {
            Some(dquots) => {
                let found = quota::find(patient, inode, dquots)?;
                if !found.is_whole {
                    what = found.loss();
                }
                (found.extents, found.is_whole)
            }
            None => (mapped.fork(inode, kind), mapped.is_whole_for(core, kind)),
        };
        let rules = ExtentRules::of(core, kind, patient.geometry());
        let extents = filled(&fork, &from_map, may_be_unwritten(core, kind));
        let (extents, others): (Vec<Extent>, Vec<Extent>) =
            extents.into_iter().partition(|extent| extent.verify(&rules).is_ok());
        impossible = others;
        (extents, knows_all && impossible.is_empty())
    };
    if (!is_complete && !patient.allows_loss()) || !fits_count(core, kind, extents.len()) {
        return Ok(false);
    }
    if !is_complete {
        let place = Place::of_inode(inode, patient.geometry());
        let action = Action::new(RULE, place, Vec::new(), "all extents that are known");
        let action = action.losing(Some(inode), what);
        patient.act(action.losing_extents(patient.geometry(), &impossible));
    }
    if quota::kind_of(patient, inode).is_some() {
        patient.keep_extents(&extents)?;
    }
    patient.set_fork(inode, kind, ForkContents::Extents(extents))?;
    Ok(true)
}

/// Returns whether the counters of an inode can hold this number of extents of a fork. Leaves room
/// for more extents, because a record of the reverse map may become several extents.
pub(super) fn fits_count(core: &InodeCore, kind: ForkKind, count: usize) -> bool {
    let is_large = core.flags2.contains(InodeFlags2::NREXT64);
    let most = match (kind, is_large) {
        (ForkKind::Data, false) => MAX_EXTENTS / 2,
        (ForkKind::Attr, false) => MAX_ATTR_EXTENTS / 2,
        (_, true) => MAX_EXTENTS,
    };
    count as u64 <= most
}

fn may_be_unwritten(core: &InodeCore, kind: ForkKind) -> bool {
    kind == ForkKind::Data && core.file_type() == Some(FileType::Regular)
}

/// Fills the missing ranges of a fork from the reverse map. Returns the extents in the order of the
/// file, without overlap. If `may_be_unwritten` is `false`, all extents count as written.
fn filled(fork: &ForkEvidence, mapped: &[Extent], may_be_unwritten: bool) -> Vec<Extent> {
    let mut extents = fork.extents.clone();
    let doubtful = fork
        .doubtful
        .iter()
        .map(|extent| FileRange { start: extent.file_block, end: extent.end() });
    for range in fork.missing.iter().copied().chain(doubtful) {
        extents.extend(mapped.iter().filter_map(|extent| clipped(extent, range)));
    }
    // A sound extent sorts before one of the reverse map with the same start: the sort is stable.
    extents.sort_by_key(|extent| extent.file_block);
    let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
    for mut extent in extents {
        extent.unwritten &= may_be_unwritten;
        let end = joined.last().map_or(FileBlock(0), Extent::end);
        let all = FileRange { start: end, end: FileBlock(FILE_BLOCK_LIMIT) };
        let Some(extent) = clipped(&extent, all) else { continue };
        match joined.last_mut() {
            Some(last) if continues(last, &extent) => last.length_blocks += extent.length_blocks,
            _ => joined.push(extent),
        }
    }
    joined
}

/// Returns the part of an extent that lies in a range of its file, or `None` if no part does.
fn clipped(extent: &Extent, range: FileRange) -> Option<Extent> {
    let start = extent.file_block.0.max(range.start.0);
    let end = extent.end().0.min(range.end.0);
    let length = u32::try_from(end.checked_sub(start)?).ok().filter(|length| *length > 0)?;
    let skipped = start - extent.file_block.0;
    Some(Extent {
        file_block: FileBlock(start),
        start: FsBlock(extent.start.0 + skipped),
        length_blocks: length,
        unwritten: extent.unwritten,
    })
}

/// Returns whether the second extent continues the first, so that the two can be joined. The joined
/// extent may be too long for a record: [`Patient::set_fork`] cuts it again.
fn continues(first: &Extent, second: &Extent) -> bool {
    first.end() == second.file_block
        && first.start.0 + u64::from(first.length_blocks) == second.start.0
        && first.unwritten == second.unwritten
        && first.length_blocks.checked_add(second.length_blocks).is_some()
}

/// Sorts the extents by their offset in the file, cuts off the part of an extent that overlaps the
/// extent before it, and joins adjacent extents. Returns the result.
pub(super) fn in_order(extents: Vec<Extent>) -> Vec<Extent> {
    let fork = ForkEvidence { extents, ..ForkEvidence::default() };
    filled(&fork, &[], true)
}

#[cfg(test)]
mod tests;
