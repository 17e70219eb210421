//! The comparison of the sums, and the checks that need all groups: unlinked lists, reachability of
//! directories, counters of the superblock.

use xfs_format::{AgNumber, InodeNumber};

use crate::blocks::Volume;
use crate::cause::{Doubt, Judge};
use crate::code::Code;
use crate::explain::Differing;
use crate::facts::Gap;
use crate::finding::{Finding, Place};
use crate::group::GroupSummary;
use crate::reach;
use crate::sums::Sums;

/// Returns the balances that do not hold, by group or by bucket of inodes.
pub(crate) fn differing(sums: &Sums) -> Differing {
    let mut differing = Differing::default();
    for (number, group) in (0..).map(AgNumber).zip(&sums.groups) {
        let all = [
            (group.coverage, &mut differing.coverage),
            (group.reverse_map, &mut differing.reverse_map),
            (group.free_space, &mut differing.free_space),
            (group.free_inodes, &mut differing.free_inodes),
        ];
        for (sum, set) in all {
            if sum != 0 {
                set.insert(number);
            }
        }
    }
    for (index, bucket) in sums.inodes.iter().enumerate() {
        // The links of an inode whose count is no longer kept are on one side only.
        if bucket.links != 0 || bucket.has_pinned {
            differing.links.insert(index);
        }
        if bucket.directories != 0 {
            differing.directories.insert(index);
        }
        if bucket.parents != 0 {
            differing.parents.insert(index);
        }
    }
    differing
}

/// Compares the unlinked lists with the inodes that have no link.
pub(crate) fn unlinked(sums: &Sums, volume: Volume<'_>, judge: &mut Judge<'_>) {
    let geometry = volume.geometry();
    let sorted = |list: &[InodeNumber]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let (without, listed) = (sorted(&sums.without_links), sorted(&sums.on_lists));
    let group_of = |inode| geometry.split_inode(inode).map(|(group, _)| group);
    let doubt = |gap: fn(AgNumber) -> Gap, inode| group_of(inode).map(gap);
    let finding = |inode, found: &str| {
        Finding::new(Code::InodeUnlinked, Place::of_inode(inode, geometry), found)
    };
    for inode in &without {
        if listed.binary_search(inode).is_err() {
            let finding = finding(*inode, "no link and on no unlinked list")
                .expected("a member of a list")
                .witness("the inode", "no link")
                .witness("the unlinked lists", "not a member");
            let gap = doubt(Gap::Unlinked, *inode);
            judge.judge(finding, Doubt::near(*inode, gap.as_slice()));
        }
    }
    for run in listed.chunk_by(|a, b| a == b) {
        let Some(inode) = run.first() else { continue };
        if run.len() > 1 {
            let found = format!("{} times on unlinked lists", run.len());
            judge.findings.push(finding(*inode, &found).expected("once"));
        }
        if without.binary_search(inode).is_err() {
            let finding = finding(*inode, "on an unlinked list, and not an inode without links")
                .expected("not on a list")
                .witness("an unlinked list", "an inode without links")
                .witness("the inode", "it has links, or it is free");
            let gap = doubt(Gap::Inodes, *inode);
            judge.judge(finding, Doubt::near(*inode, gap.as_slice()));
        }
    }
}

/// Checks that each directory is below a root, and that the root is a directory. Each pair is a
/// directory and its parent.
pub(crate) fn directories(
    pairs: Vec<(InodeNumber, InodeNumber)>,
    volume: Volume<'_>,
    judge: &mut Judge<'_>,
) {
    let root = volume.superblock.root_inode;
    if !pairs.contains(&(root, root)) {
        let place = Place::of_inode(root, volume.geometry());
        let found = format!("the root directory is {root}");
        let finding = Finding::new(Code::SbRoot, place, found);
        let finding = finding.expected("a directory that is its own parent");
        judge.judge(finding, Doubt::near(root, &[Gap::Names]));
    }
    reach::check(pairs, volume.geometry(), judge.findings);
}

/// Checks the counters of the superblock.
pub(crate) fn counters(groups: &[GroupSummary], volume: Volume<'_>, judge: &mut Judge<'_>) {
    let is_complete = groups.len() as u64 == u64::from(volume.geometry().ag_count);
    if !is_complete || groups.iter().any(|group| !group.is_counted) {
        return;
    }
    let sum = |of: fn(&GroupSummary) -> u64| groups.iter().map(of).sum::<u64>();
    let superblock = volume.superblock;
    let counters = [
        (Code::SbInodes, superblock.inode_count, sum(|group| group.inodes)),
        (Code::SbFreeInodes, superblock.free_inodes, sum(|group| group.free_inodes)),
        (Code::SbFreeBlocks, superblock.free_blocks, sum(|group| group.free_blocks)),
    ];
    for (code, stored, counted) in counters {
        if stored != counted {
            let finding = Finding::new(code, Place::default(), stored.to_string());
            judge.judge(finding.expected(counted.to_string()), Doubt::of(&[Gap::Superblock]));
        }
    }
}
