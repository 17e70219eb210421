//! The number of the root inode, which few copies of the superblock state.
//!
//! Owns: the choice between the numbers that are stated, and the place where mkfs makes the root
//! directory. Does **not** own: the other fields of a superblock.

use std::collections::BTreeSet;

use xfs_device::BlockDevice;
use xfs_format::inode::FileType;
use xfs_format::inode_chunk::InodeChunks;
use xfs_format::{AgInode, AgNumber, InodeNumber};

use super::Copy;
use crate::inode::InodeState;
use crate::sweep::{FoundBlock, sweep};
use crate::volume::Evidence;

/// How likely an inode is the root directory, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The inode is something else, is free, or does not exist.
    Other,
    /// The inode is destroyed.
    Destroyed,
    /// The inode is a directory whose parent is not itself, or it is damaged.
    Doubtful,
    /// The inode is a sound directory that is its own parent.
    Root,
}

/// Returns the number of the root inode. There are three candidates: the number in `stated`, the
/// number in most copies, and the directory that mkfs made first. The candidate wins whose inode is
/// most likely the root directory, and in a tie the earlier one. Returns a number with all bits set
/// if there is no candidate.
pub(super) fn find(device: &dyn BlockDevice, stated: &Copy, copies: &[Copy]) -> u64 {
    let evidence = Evidence::new(device, &stated.superblock);
    let own = stated.disk.root_inode.get();
    if rank(&evidence, InodeNumber(own)) == Rank::Root {
        return own;
    }
    let first = first_directory(&evidence).map_or(u64::MAX, |root| root.0);
    let candidates = [own, of_copies(copies), first];
    // `max_by_key` returns the last of equal elements.
    let best = candidates.into_iter().rev().filter(|root| *root != u64::MAX);
    best.max_by_key(|root| rank(&evidence, InodeNumber(*root))).unwrap_or(u64::MAX)
}

fn rank(evidence: &Evidence<'_>, number: InodeNumber) -> Rank {
    if number.is_null() || evidence.geometry().split_inode(number).is_none() {
        return Rank::Other;
    }
    let found = evidence.inode(number);
    match &found.state {
        InodeState::Sound(core) if core.file_type() != Some(FileType::Directory) => Rank::Other,
        InodeState::Sound(_) if evidence.entries(&found).parent == Some(number) => Rank::Root,
        InodeState::Sound(_) | InodeState::Doubtful(..) => Rank::Doubtful,
        InodeState::Gone(_) => Rank::Destroyed,
        InodeState::Free(_) => Rank::Other,
    }
}

/// Returns the root inode number that most copies state, not counting copies in which all bits of
/// the number are set. mkfs.xfs writes the true number into only a few copies, and sets all bits in
/// the others.
fn of_copies(copies: &[Copy]) -> u64 {
    let roots: Vec<u64> = copies
        .iter()
        .map(|copy| copy.disk.root_inode.get())
        .filter(|root| *root != u64::MAX)
        .collect();
    let votes = |root: u64| roots.iter().filter(|other| **other == root).count();
    roots.iter().copied().max_by_key(|root| votes(*root)).unwrap_or(u64::MAX)
}

/// Returns the root directory of a volume that has no superblock: the directory that is its own
/// parent. If there is none, returns the destroyed inode where mkfs.xfs must have made the root:
/// directly before the inodes of the realtime bitmap and summary.
pub(super) fn of_volume(evidence: &Evidence<'_>) -> Option<InodeNumber> {
    first_directory(evidence).or_else(|| swept_directory(evidence)).or_else(|| destroyed(evidence))
}

/// Returns the first inodes of the chunks of the first group, in ascending order.
fn first_inodes(evidence: &Evidence<'_>) -> Vec<InodeNumber> {
    let mut starts: BTreeSet<AgInode> = BTreeSet::new();
    evidence.group_records::<InodeChunks>(AgNumber(0), |chunk, _| {
        starts.insert(chunk.start);
    });
    starts.iter().map(|start| evidence.geometry().join_inode(AgNumber(0), *start)).collect()
}

/// Returns the root directory of a volume whose superblocks do not state it. Among the first inodes
/// of the chunks in the first group, it is the sound directory that is its own parent. No other
/// directory is its own parent. mkfs.xfs makes the root first, but chunks with lower numbers can
/// follow.
fn first_directory(evidence: &Evidence<'_>) -> Option<InodeNumber> {
    let mut numbers = first_inodes(evidence).into_iter();
    numbers.find(|number| rank(evidence, *number) == Rank::Root)
}

/// Returns a directory of the first group that is its own parent. Reads all blocks of the group,
/// and so finds the directory without the inode btree.
fn swept_directory(evidence: &Evidence<'_>) -> Option<InodeNumber> {
    let mut found = None;
    sweep(evidence, 0..1, &(), &mut |sighting, _| {
        let number = InodeNumber(sighting.owner);
        if found.is_none()
            && sighting.what == (FoundBlock::Inode { is_free: false })
            && rank(evidence, number) == Rank::Root
        {
            found = Some(number);
        }
    });
    found
}

/// Returns the root inode if it is destroyed. It is the first inode of a chunk of the first group,
/// and the inodes of the realtime bitmap and summary, which mkfs.xfs makes next, follow it.
fn destroyed(evidence: &Evidence<'_>) -> Option<InodeNumber> {
    let is_bitmap = |number: InodeNumber| match evidence.inode(number).state {
        InodeState::Sound(core) => core.mode == FileType::Regular.mode_bits() && core.nlink == 1,
        _ => false,
    };
    let mut numbers = first_inodes(evidence).into_iter();
    numbers.find(|root| {
        let is_lost = rank(evidence, *root) == Rank::Destroyed;
        is_lost && (1..=2).all(|next| is_bitmap(InodeNumber(root.0 + next)))
    })
}
