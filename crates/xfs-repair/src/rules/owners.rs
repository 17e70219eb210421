//! Rule `owners`: settles which owner keeps the blocks that two owners claim and that cannot be
//! shared.
//!
//! Owns: the decision which owner keeps the blocks, and the copies for the others. Does **not**
//! own: forks that the reverse map contradicts, which rule `fork` has rewritten before; or contents
//! of files on a volume with reference counts, because such blocks stay shared.
//!
//! A copy of a metadata block keeps the old address and checksum. The next round finds that and
//! writes the block again.
//!
//! The owner with the best right keeps the blocks. Each other owner gets a copy of them, so that
//! its present contents stay. The first of these differences decides which right is better:
//!
//! 1. metadata of the group, then blocks of extent btrees, then the blocks that forks map;
//! 2. the inode that the block names in its own sound header, then the one that the reverse map of
//!    this group names, then any other;
//! 3. the lower inode number.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Code, Place};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber, RoCompatFeatures};

use crate::action::Action;
use crate::claims;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "copy-for";

/// The greatest number of steps in the search for conflicts in a group. In each step, one claim is
/// compared with one segment (a range of blocks that the same claims cover).
const MOST_STEPS: u64 = 1 << 24;

/// A fork that must give up blocks to an owner with a better right, and gets copies of these
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Loser {
    inode: InodeNumber,
    is_attr: bool,
}

/// Settles the claims of several owners on the same blocks: the owner with the best right keeps the
/// blocks, and each other owner gets a copy of its own.
///
/// # Errors
///
/// The error of the overlay. If there is no room for the copies of an owner, that owner is left as
/// it is.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    // The checker takes blocks that several forks map for shared ones, those of directories too.
    let is_conflict = |code| matches!(code, Code::SpaceCrosslinked | Code::RefcCount);
    let has_damage = |group: &AgNumber| {
        let findings = damage.groups.get(group).into_iter().flatten();
        findings.into_iter().any(|finding| is_conflict(finding.code))
    };
    let groups: Vec<AgNumber> = patient.geometry().groups().filter(has_damage).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let model = patient.model()?;
    let all = claims::of_volume(patient, &model);
    let mut shared: BTreeMap<Loser, Vec<(u64, u64)>> = BTreeMap::new();
    for group in groups {
        let mut own = all.get(&group).cloned().unwrap_or_default();
        let kept = patient.tree_blocks(group);
        own.extend(kept.into_iter().map(|b| claims::claim(b, 1, RmapOwner::InodeBtree)));
        let may_share = |claim: &Rmap| {
            let RmapOwner::Inode(inode) = claim.owner else { return false };
            let file_type = model.core(inode).and_then(InodeCore::file_type);
            patient.geometry().has_ro_compat(RoCompatFeatures::REFLINK)
                && !claim.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE)
                && file_type == Some(FileType::Regular)
        };
        let own = with_proofs(patient, group, own);
        // Claims that overlap this often are not a mistake of a program: the findings stay.
        let Some(found) = conflicts(own, may_share) else { return Ok(()) };
        for (loser, range) in found {
            let first = patient.geometry().join_block(group, AgBlock(range.0)).0;
            let length = u64::from(range.1 - range.0);
            shared.entry(loser).or_default().push((first, first + length));
        }
    }
    for (loser, ranges) in shared {
        patient.attempt(|patient| {
            copy(patient, loser, &ranges)?;
            let place = Place::of_inode(loser.inode, patient.geometry());
            let keeps = "a copy of the blocks for this inode; the other owner keeps the blocks";
            patient.act(Action::new(RULE, place, vec![Code::SpaceCrosslinked], keeps));
            Ok(())
        })?;
    }
    Ok(())
}

/// A claim on blocks, and the evidence for it.
#[derive(Clone, Copy, Debug)]
struct ProvenClaim {
    claim: Rmap,
    proof: Proof,
}

/// The evidence that a claim is right, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    /// The block has a sound header that names the owner.
    Header,
    /// The reverse map of the group names the owner.
    ReverseMap,
    /// There is no evidence apart from the claim of the owner itself.
    Owner,
}

/// Adds the evidence to the claims of a group. Looks for it only where claims overlap.
fn with_proofs(patient: &Patient, group: AgNumber, mut claims: Vec<Rmap>) -> Vec<ProvenClaim> {
    claims.sort_by_key(|claim| claim.start);
    let map = patient.reverse_map(group);
    let mut records: BTreeMap<InodeNumber, Vec<Rmap>> = BTreeMap::new();
    for record in &map.records {
        if let RmapOwner::Inode(inode) = record.owner {
            records.entry(inode).or_default().push(*record);
        }
    }
    let mut proven: Vec<ProvenClaim> = Vec::with_capacity(claims.len());
    let mut end = AgBlock(0);
    for (index, claim) in claims.iter().enumerate() {
        let next = claims.get(index + 1).map(|next| next.start);
        let overlaps = claim.start < end || next.is_some_and(|next| next < claim.end());
        let proof = if overlaps { proof_of(patient, group, &records, claim) } else { Proof::Owner };
        end = end.max(claim.end());
        proven.push(ProvenClaim { claim: *claim, proof });
    }
    proven
}

/// Returns the best evidence for a claim. `records` are those of the group's reverse map, by inode.
fn proof_of(
    patient: &Patient,
    group: AgNumber,
    records: &BTreeMap<InodeNumber, Vec<Rmap>>,
    claim: &Rmap,
) -> Proof {
    let RmapOwner::Inode(inode) = claim.owner else { return Proof::Owner };
    let first = patient.geometry().join_block(group, claim.start);
    if patient.evidence().owner_in_header(first) == Some(inode) {
        return Proof::Header;
    }
    let flags = |of: &Rmap| of.flags & !RmapFlags::UNWRITTEN;
    let names_owner = |record: &Rmap| {
        let skipped = u64::from(claim.start.0.saturating_sub(record.start.0));
        let is_same_place = claim.flags.contains(RmapFlags::FORK_BTREE)
            || record.offset.0.checked_add(skipped) == Some(claim.offset.0);
        flags(record) == flags(claim)
            && record.start <= claim.start
            && claim.end() <= record.end()
            && is_same_place
    };
    let own = records.get(&inode).into_iter().flatten();
    if own.into_iter().any(names_owner) { Proof::ReverseMap } else { Proof::Owner }
}

/// The right of a claim to its blocks: the class of its owner, the evidence, the inode number, and
/// the index of the claim among all claims, sorted by start. So no two claims have the same right.
/// The lowest value is the best right: that claim keeps the blocks.
type Right = (u8, Proof, u64, usize);

fn right(proven: &ProvenClaim, index: usize) -> Right {
    let ProvenClaim { claim, proof } = *proven;
    match claim.owner {
        RmapOwner::Inode(inode) if claim.flags.contains(RmapFlags::FORK_BTREE) => {
            (1, proof, inode.0, index)
        }
        RmapOwner::Inode(inode) => (2, proof, inode.0, index),
        _ => (0, Proof::Owner, 0, index),
    }
}

/// A range of blocks in which no claim starts or ends, with the best rights to these blocks.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u32,
    end: u32,
    /// The best right of all claims that cover the range. `None` if no claim covers it.
    best: Option<Right>,
    /// The best right of those claims that cover the range and may not share blocks. `None` if
    /// there are none.
    best_alone: Option<Right>,
}

/// Returns, in order, the segments that several claims cover, if at least one of these claims may
/// not share blocks.
fn segments(claims: &[ProvenClaim], may_share: &impl Fn(&Rmap) -> bool) -> Vec<Segment> {
    let mut edges: Vec<(u32, usize, bool)> = Vec::with_capacity(claims.len() * 2);
    for (index, claim) in claims.iter().enumerate() {
        edges.push((claim.claim.start.0, index, true));
        edges.push((claim.claim.end().0, index, false));
    }
    edges.sort_unstable();
    let (mut all, mut alone) = (BTreeSet::new(), BTreeSet::new());
    let mut segments: Vec<Segment> = Vec::new();
    let mut start = 0;
    for (edge, index, is_start) in edges {
        let has_conflict = all.len() > 1 && !alone.is_empty();
        if edge > start && has_conflict {
            let (best, best_alone) = (all.first().copied(), alone.first().copied());
            segments.push(Segment { start, end: edge, best, best_alone });
        }
        start = edge;
        let claim = claims.get(index).expect("an edge belongs to a claim");
        let right = right(claim, index);
        for rights in [Some(&mut all), (!may_share(&claim.claim)).then_some(&mut alone)] {
            match rights {
                Some(rights) if is_start => _ = rights.insert(right),
                Some(rights) => _ = rights.remove(&right),
                None => {}
            }
        }
    }
    segments
}

/// A fork that loses blocks of a group, and the range that it loses: the first block and the block
/// after the last one.
type Lost = (Loser, (u32, u32));

/// Returns the forks whose extents overlap a claim with a better right, each with the range of the
/// overlap. Claims that may share blocks do not conflict with each other. Returns `None` if the
/// search takes more than [`MOST_STEPS`] steps.
fn conflicts(mut claims: Vec<ProvenClaim>, may_share: impl Fn(&Rmap) -> bool) -> Option<Vec<Lost>> {
    let place = |of: &ProvenClaim| (of.claim.start, right(of, 0), of.claim.offset);
    claims.sort_by_key(place);
    let segments = segments(&claims, &may_share);
    let mut steps = 0_u64;
    let mut found: Vec<Lost> = Vec::new();
    for (index, proven) in claims.iter().enumerate() {
        let claim = &proven.claim;
        let (RmapOwner::Inode(inode), false) =
            (claim.owner, claim.flags.contains(RmapFlags::FORK_BTREE))
        else {
            continue;
        };
        let loser = Loser { inode, is_attr: claim.flags.contains(RmapFlags::ATTR) };
        let own = right(proven, index);
        let first = segments.partition_point(|segment| segment.end <= claim.start.0);
        let inside = segments.iter().skip(first).take_while(|s| s.start < claim.end().0);
        let mut last: Option<(u32, u32)> = None;
        for segment in inside {
            steps += 1;
            let best = if may_share(claim) { segment.best_alone } else { segment.best };
            if best.is_none_or(|best| best >= own) {
                continue;
            }
            match &mut last {
                Some((_, end)) if *end == segment.start => *end = segment.end,
                _ => found.extend(last.replace((segment.start, segment.end)).map(|r| (loser, r))),
            }
        }
        found.extend(last.map(|range| (loser, range)));
        if steps > MOST_STEPS {
            return None;
        }
    }
    Some(found)
}

/// Copies those blocks of a fork that lie in `ranges`, and changes the extent map of the fork to
/// the copies.
fn copy(patient: &mut Patient, loser: Loser, ranges: &[(u64, u64)]) -> Result<(), RepairError> {
    let kind = if loser.is_attr { ForkKind::Attr } else { ForkKind::Data };
    let found = patient.evidence().inode(loser.inode);
    let format = found.core().and_then(|core| core.fork_format(kind));
    if !matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree)) {
        return Ok(());
    }
    let old = patient.evidence().extents(&found, kind).extents;
    let near = patient.geometry().split_inode(loser.inode).map_or(AgNumber(0), |(group, _)| group);
    let mut extents = Vec::new();
    for extent in old {
        for (part, is_shared) in parts(&extent, ranges) {
            if !is_shared {
                extents.push(part);
                continue;
            }
            let blocks = patient.take_blocks(near, part.length_blocks)?;
            for (index, block) in (0..).zip(blocks) {
                copy_block(patient, FsBlock(part.start.0 + index), block)?;
                extents.push(Extent {
                    file_block: FileBlock(part.file_block.0 + index),
                    start: block,
                    length_blocks: 1,
                    unwritten: part.unwritten,
                });
            }
        }
    }
    patient.set_fork(loser.inode, kind, ForkContents::Extents(super::fork::in_order(extents)))
}

/// Cuts an extent at the bounds of `ranges`, which are ranges of its blocks. Returns the parts,
/// each with a flag that says whether the part lies in one of the ranges.
fn parts(extent: &Extent, ranges: &[(u64, u64)]) -> Vec<(Extent, bool)> {
    let end = extent.start.0 + u64::from(extent.length_blocks);
    let inside = |edge: &u64| *edge > extent.start.0 && *edge < end;
    let mut edges: Vec<u64> =
        ranges.iter().flat_map(|range| [range.0, range.1]).filter(inside).collect();
    edges.extend([extent.start.0, end]);
    edges.sort_unstable();
    edges.dedup();
    let pairs = edges.iter().zip(edges.iter().skip(1));
    pairs
        .map(|(start, end)| {
            let part = Extent {
                file_block: FileBlock(extent.file_block.0 + (start - extent.start.0)),
                start: FsBlock(*start),
                length_blocks: u32::try_from(end - start).expect("a part of an extent"),
                unwritten: extent.unwritten,
            };
            (part, ranges.iter().any(|range| range.0 <= *start && *end <= range.1))
        })
        .collect()
}

fn copy_block(patient: &mut Patient, from: FsBlock, to: FsBlock) -> Result<(), RepairError> {
    let address = |block| patient.geometry().block_disk_addr(block);
    let (Some(from), Some(to)) = (address(from), address(to)) else { return Ok(()) };
    let mut bytes = vec![0; patient.geometry().block_size as usize];
    if !patient.can_read(from, &mut bytes) {
        bytes.fill(0);
    }
    patient.write(to, &bytes)
}

#[cfg(test)]
mod tests;
