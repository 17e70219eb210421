//! The claims of all owners of blocks on a volume, except the space btrees. The claims show which
//! blocks are in use and which are free.
//!
//! Owns: the claims, and the gaps between them. Does **not** own: the decision which of two owners
//! keeps a block.
//!
//! A claim says that an owner uses a range of blocks. It has the form of a record of the reverse
//! map.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::extent::Extent;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::{RefcountDomain, Refcounts};
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgNumber, FileBlock, Geometry, InodeNumber, RoCompatFeatures};

use crate::model::{InodeState, Model, ModelFork, ModelInode};
use crate::patient::Patient;
use crate::trees;

/// The claims of each group, not sorted.
pub(crate) type Claims = BTreeMap<AgNumber, Vec<Rmap>>;

/// Returns the claims of all owners, except those of the groups' btrees and free lists.
pub(crate) fn of_volume(patient: &Patient, model: &Model) -> Claims {
    let geometry = patient.geometry();
    let mut claims = Claims::new();
    for group in geometry.groups() {
        let own = claims.entry(group).or_default();
        own.push(claim(AgBlock(0), geometry.header_blocks(), RmapOwner::Volume));
        for chunk in model.chunks.get(&group).into_iter().flatten() {
            claim_chunk(geometry, chunk, own);
        }
        own.extend(staging(patient, group));
    }
    let superblock = patient.superblock();
    if let Some((group, start)) = superblock.log_first_block() {
        let log = claim(start, superblock.log_blocks, RmapOwner::Log);
        claims.entry(group).or_default().push(log);
    }
    let mut held = BTreeSet::new();
    for (number, inode) in &model.inodes {
        // The blocks of the map of a realtime file are on the data device, its data is not.
        match inode.is_realtime() {
            true => {
                claim_tree(geometry, *number, &inode.data, RmapFlags::empty(), &mut claims);
            }
            false => {
                claim_fork(geometry, *number, &inode.data, RmapFlags::empty(), &mut claims);
            }
        }
        claim_fork(geometry, *number, &inode.attr, RmapFlags::ATTR, &mut claims);
        if !is_known(inode) {
            held.insert(*number);
        }
    }
    hold(patient, &held, &mut claims);
    hold_damaged_blocks(geometry, model, &held, &mut claims);
    claims
}

/// Returns whether some blocks of any inode of the volume are not known. No claim covers such
/// blocks.
pub(crate) fn has_unknown_owner(model: &Model) -> bool {
    !model.inodes.values().all(is_known)
}

/// Returns whether all blocks of an inode are known.
pub(crate) fn is_known(inode: &ModelInode) -> bool {
    inode.state == InodeState::Sound && inode.data.is_whole && inode.attr.is_whole
}

/// Returns the claim of an owner whose blocks have no file offset, such as a btree.
pub(crate) const fn claim(start: AgBlock, count: u32, owner: RmapOwner) -> Rmap {
    Rmap { start, count, owner, offset: FileBlock(0), flags: RmapFlags::empty() }
}

/// Adds claims of each inode in `held` on the blocks that the reverse map records for it. The forks
/// of these inodes are not completely known. The claims prevent other owners from getting the
/// blocks.
fn hold(patient: &Patient, held: &BTreeSet<InodeNumber>, claims: &mut Claims) {
    if held.is_empty() {
        return;
    }
    for group in patient.geometry().groups() {
        let map = patient.reverse_map(group);
        let is_held = |owner: RmapOwner| match owner {
            RmapOwner::Inode(inode) => held.contains(&inode),
            _ => false,
        };
        let records = map.records.iter().filter(|record| is_held(record.owner));
        claims.entry(group).or_default().extend(records);
    }
}

/// Adds claims of the inodes in `held` on the damaged btree blocks to which their forks point.
/// Leaves out blocks that another owner claims. Without these claims the blocks might seem free,
/// because a damaged reverse map may have no record of them.
fn hold_damaged_blocks(
    geometry: &Geometry,
    model: &Model,
    held: &BTreeSet<InodeNumber>,
    claims: &mut Claims,
) {
    let mut pointers = BTreeMap::new();
    for number in held {
        let Some(inode) = model.inodes.get(number) else { continue };
        for (fork, flags) in [(&inode.data, RmapFlags::empty()), (&inode.attr, RmapFlags::ATTR)] {
            let blocks =
                fork.damaged_blocks.iter().filter_map(|block| geometry.split_block(*block));
            for (group, block) in blocks {
                let mut claim = claim(block, 1, RmapOwner::Inode(*number));
                claim.flags = flags | RmapFlags::FORK_BTREE;
                pointers.entry(group).or_insert_with(BTreeMap::new).entry(block).or_insert(claim);
            }
        }
    }
    for (group, pointers) in pointers {
        let own = claims.entry(group).or_default();
        let gaps = gaps(own, geometry.ag_length(group));
        let is_free = |block: AgBlock| {
            let after = gaps.partition_point(|(start, _)| *start <= block.0);
            let gap = after.checked_sub(1).and_then(|index| gaps.get(index));
            gap.is_some_and(|(_, end)| block.0 < *end)
        };
        own.extend(pointers.into_values().filter(|claim| is_free(claim.start)));
    }
}

/// Returns the claims of blocks that are reserved for copy-on-write. If the btree of reference
/// counts is damaged, returns none: the next mount would free these blocks anyway.
fn staging(patient: &Patient, group: AgNumber) -> Vec<Rmap> {
    if !patient.geometry().has_ro_compat(RoCompatFeatures::REFLINK) {
        return Vec::new();
    }
    let root = trees::agf(patient, group).and_then(|header| header.header.refcount);
    let tree = root.map(|root| trees::walk::<Refcounts>(patient, group, root));
    let records = tree.filter(|tree| tree.is_whole).into_iter().flat_map(|tree| tree.records);
    records
        .filter(|record| record.domain == RefcountDomain::Staging)
        .map(|record| claim(record.start, record.count, RmapOwner::Staging))
        .collect()
}

/// Claims the blocks of an inode chunk, without the holes of a sparse chunk.
fn claim_chunk(geometry: &Geometry, chunk: &InodeChunk, claims: &mut Vec<Rmap>) {
    let per_block = 1_u32 << geometry.inodes_per_block_log;
    let first = geometry.ag_inode_block(chunk.start).0;
    if per_block >= INODES_PER_CHUNK {
        // Several chunks share a block. The union of claims joins them.
        claims.push(claim(AgBlock(first), 1, RmapOwner::Inodes));
        return;
    }
    for index in 0..INODES_PER_CHUNK / per_block {
        if chunk.present() >> (index * per_block) & 1 != 0 {
            claims.push(claim(AgBlock(first + index), 1, RmapOwner::Inodes));
        }
    }
}

fn claim_fork(
    geometry: &Geometry,
    inode: InodeNumber,
    fork: &ModelFork,
    flags: RmapFlags,
    claims: &mut Claims,
) {
    for extent in &fork.extents {
        claim_extent(geometry, inode, extent, flags, claims);
    }
    claim_tree(geometry, inode, fork, flags, claims);
}

/// Claims the blocks of a fork's btree.
fn claim_tree(
    geometry: &Geometry,
    inode: InodeNumber,
    fork: &ModelFork,
    flags: RmapFlags,
    claims: &mut Claims,
) {
    for block in &fork.btree_blocks {
        if let Some((group, start)) = geometry.split_block(*block) {
            let mut claim = claim(start, 1, RmapOwner::Inode(inode));
            claim.flags = flags | RmapFlags::FORK_BTREE;
            claims.entry(group).or_default().push(claim);
        }
    }
}

fn claim_extent(
    geometry: &Geometry,
    inode: InodeNumber,
    extent: &Extent,
    flags: RmapFlags,
    claims: &mut Claims,
) {
    let Some((group, start)) = geometry.split_block(extent.start) else { return };
    let unwritten = if extent.unwritten { RmapFlags::UNWRITTEN } else { RmapFlags::empty() };
    claims.entry(group).or_default().push(Rmap {
        start,
        count: extent.length_blocks,
        owner: RmapOwner::Inode(inode),
        offset: extent.file_block,
        flags: flags | unwritten,
    });
}

/// Returns the extent of a fork that a record of the reverse map describes.
pub(crate) fn extent_of(geometry: &Geometry, group: AgNumber, record: &Rmap) -> Extent {
    Extent {
        file_block: record.offset,
        start: geometry.join_block(group, record.start),
        length_blocks: record.count,
        unwritten: record.flags.contains(RmapFlags::UNWRITTEN),
    }
}

/// Returns the file offset minus the block number of a claim. The difference is the same for all
/// parts of one extent. Returns 0 for owners whose blocks have no file offset.
fn diagonal(claim: &Rmap) -> u64 {
    let has_offsets =
        matches!(claim.owner, RmapOwner::Inode(_)) && !claim.flags.contains(RmapFlags::FORK_BTREE);
    if has_offsets { claim.offset.0.wrapping_sub(claim.start.0.into()) } else { 0 }
}

/// Joins claims of the same owner that touch or overlap. Returns them in the order of the reverse
/// map.
pub(crate) fn joined(mut claims: Vec<Rmap>) -> Vec<Rmap> {
    let line = |claim: &Rmap| (claim.owner.to_raw(), claim.flags.bits(), diagonal(claim));
    claims.sort_by_key(|claim| (line(claim), claim.start.0, claim.count));
    let mut joined: Vec<Rmap> = Vec::with_capacity(claims.len());
    for claim in claims {
        match joined.last_mut() {
            Some(last) if line(last) == line(&claim) && claim.start <= last.end() => {
                last.count = last.end().0.max(claim.end().0) - last.start.0;
            }
            _ => joined.push(claim),
        }
    }
    joined.sort_by_key(|claim| (claim.start, claim.owner.to_raw(), claim.offset_word()));
    joined
}

/// Returns the gaps between claims in a group of `length_blocks` blocks, in order. Each gap is
/// given as its first block and the block after its last one. A claim may lie past the end of the
/// group, because damaged maps can name any block; no gap does.
pub(crate) fn gaps(claims: &[Rmap], length_blocks: u32) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> =
        claims.iter().map(|claim| (claim.start.0, claim.end().0)).collect();
    ranges.sort_unstable();
    let mut gaps = Vec::new();
    let mut end = 0;
    for (start, after) in ranges {
        let start = start.min(length_blocks);
        if start > end {
            gaps.push((end, start));
        }
        end = end.max(after);
    }
    if end < length_blocks {
        gaps.push((end, length_blocks));
    }
    gaps
}

#[cfg(test)]
mod tests;
