//! The comparison of the sums, and the checks that need all groups: unlinked lists, reachability of
//! directories, counters of the superblock.

use xfs_format::{AgNumber, InodeNumber};

use crate::blocks::{Findings, Volume};
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
pub(crate) fn unlinked(sums: &Sums, volume: Volume<'_>, findings: &mut Findings) {
    let geometry = volume.geometry();
    let sorted = |list: &[InodeNumber]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let (without, listed) = (sorted(&sums.without_links), sorted(&sums.on_lists));
    let group_of = |inode| geometry.split_inode(inode).map(|(group, _)| group);
    let has_gap = |inode, gap: fn(AgNumber) -> Gap| {
        group_of(inode).is_none_or(|group| sums.gaps.has(gap(group)))
    };
    let mut push = |inode, found: &str, expected: &str| {
        let place = Place::of_inode(inode, geometry);
        findings.push(Finding::new(Code::InodeUnlinked, place, found).expected(expected));
    };
    for inode in &without {
        if listed.binary_search(inode).is_err() && !has_gap(*inode, Gap::Unlinked) {
            push(*inode, "no link and on no unlinked list", "a member of a list");
        }
    }
    for run in listed.chunk_by(|a, b| a == b) {
        let Some(inode) = run.first() else { continue };
        if run.len() > 1 {
            push(*inode, &format!("{} times on unlinked lists", run.len()), "once");
        }
        if without.binary_search(inode).is_err() && !has_gap(*inode, Gap::Inodes) {
            push(*inode, "on an unlinked list, and not an inode without links", "not on a list");
        }
    }
}

/// Checks that each directory is below a root, and that the root is a directory.
pub(crate) fn directories(sums: &mut Sums, volume: Volume<'_>, findings: &mut Findings) {
    let root = volume.superblock.root_inode;
    if !sums.directories.contains(&(root, root)) && !sums.gaps.names {
        let place = Place::of_inode(root, volume.geometry());
        let found = format!("the root directory is {root}");
        let finding = Finding::new(Code::SbRoot, place, found);
        findings.push(finding.expected("a directory that is its own parent"));
    }
    reach::check(std::mem::take(&mut sums.directories), volume.geometry(), findings);
}

/// Checks the counters of the superblock.
pub(crate) fn counters(groups: &[GroupSummary], volume: Volume<'_>, findings: &mut Findings) {
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
            findings.push(finding.expected(counted.to_string()));
        }
    }
}
