//! The reserve of a group: blocks that may belong to an inode that cannot be read, so that a repair
//! must not use them as free blocks.
//!
//! Owns: finding those blocks of a group that no owner claims and that a btree of free space does
//! not list as free. Does **not** own: claims (`claims`), or the decision to rebuild a group
//! without this evidence (rule `space`).
//!
//! The blocks of an inode that cannot be read are claimed only if the reverse map has them. Without
//! a whole reverse map, only the btrees of free space show which blocks may belong to such an inode
//! and which are free. A block counts as free if every whole btree of free space lists it.

use std::ops::Range;

use xfs_format::agf::Agf;
use xfs_format::agfl::Agfl;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::{Rmap, RmapOwner};
use xfs_format::{AgBlock, AgNumber, BlockKind};

use crate::claims;
use crate::model::Model;
use crate::patient::Patient;
use crate::trees::{self, GroupTree};

/// The blocks of a group that may belong to an inode that cannot be read.
pub(crate) enum Reserve {
    /// The reserved blocks are known. They have the form of claims, and do not count as free.
    Blocks(Vec<Rmap>),
    /// The reserved blocks are not known: any block that no owner claims may belong to an
    /// unreadable inode, because no btree of free space is whole.
    Unknown,
}

/// Returns the reserve of a group. `own` has all claims in the group.
pub(crate) fn of_group(
    patient: &mut Patient,
    model: &Model,
    group: AgNumber,
    own: &[Rmap],
) -> Reserve {
    if !claims::has_unknown_owner(model) || patient.reverse_map(group).is_whole {
        return Reserve::Blocks(Vec::new());
    }
    let Some(agf) = trees::agf(patient, group).map(|header| header.header) else {
        return Reserve::Unknown;
    };
    let by_block = trees::walk::<FreeSpaceByBlock>(patient, group, agf.free_space_by_block);
    let by_size = trees::walk::<FreeSpaceBySize>(patient, group, agf.free_space_by_size);
    let mut others: Vec<AgBlock> = of_group_btrees(patient, group, &agf);
    others.extend(blocks_if_whole(&by_block));
    others.extend(blocks_if_whole(&by_size));
    let mut known = own.to_vec();
    known.extend(others.into_iter().map(|block| claims::claim(block, 1, RmapOwner::Group)));
    let length = patient.geometry().ag_length(group);
    let whole = [by_block, by_size].into_iter().filter(|tree| tree.is_whole);
    let reserves: Vec<Vec<Rmap>> =
        whole.map(|tree| without(&known, &tree.records, length)).collect();
    if reserves.is_empty() {
        return Reserve::Unknown;
    }
    Reserve::Blocks(reserves.into_iter().flatten().collect())
}

/// Returns whether any of these blocks is in the reserve.
pub(crate) fn contains_any(reserve: &[Rmap], blocks: &Range<u32>) -> bool {
    reserve.iter().any(|claim| claim.start.0 < blocks.end && blocks.start < claim.end().0)
}

/// Returns the blocks of a group that are neither in a claim of `known` nor in an extent of `free`,
/// in the form of claims.
fn without(known: &[Rmap], free: &[FreeSpace], length_blocks: u32) -> Vec<Rmap> {
    let mut known = known.to_vec();
    let free = free.iter().map(|free| claims::claim(free.start, free.count, RmapOwner::Volume));
    known.extend(free);
    claims::gaps(&known, length_blocks)
        .into_iter()
        .map(|(start, end)| claims::claim(AgBlock(start), end - start, RmapOwner::Volume))
        .collect()
}

/// Returns the blocks of the group's undamaged btrees other than the btrees of free space, and the
/// blocks of its free list.
fn of_group_btrees(patient: &mut Patient, group: AgNumber, agf: &Agf) -> Vec<AgBlock> {
    let counts = agf.refcount.map(|root| trees::walk::<Refcounts>(patient, group, root));
    let mut blocks: Vec<AgBlock> = counts.iter().flat_map(blocks_if_whole).collect();
    let inodes = patient.chunks(group);
    if inodes.is_whole {
        blocks.extend(&inodes.tree_blocks);
    }
    // Without the list, its blocks are reserved.
    blocks.extend(free_list(patient, group, agf).into_iter().flatten());
    blocks
}

/// Returns the blocks of the group's free list, or `None` if the list is damaged.
fn free_list(patient: &Patient, group: AgNumber, agf: &Agf) -> Option<Vec<AgBlock>> {
    let at = patient.geometry().header_disk_addr(group, 3);
    let mut bytes = vec![0; patient.geometry().sector_size as usize];
    let is_sound = patient.can_read(at, &mut bytes)
        && BlockKind::Agfl.verify(&bytes, at, &patient.context()).is_ok();
    let list = Agfl::decode(&bytes, at, patient.geometry().version).ok().filter(|_| is_sound)?;
    list.blocks(agf.free_list).ok()?.collect::<Result<_, _>>().ok()
}

fn blocks_if_whole<R>(tree: &GroupTree<R>) -> impl Iterator<Item = AgBlock> + use<'_, R> {
    tree.blocks.iter().copied().filter(|_| tree.is_whole)
}
