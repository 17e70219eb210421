//! Compares, for each balance, the sums of the facts of its two sides. Also makes the checks that
//! need all groups: unlinked lists, reachability of directories, counters of the superblock.

use xfs_format::{AgNumber, IncompatFeatures, InodeNumber};

use crate::blocks::Volume;
use crate::cause::{Doubt, Judge};
use crate::code::Code;
use crate::explain::Differing;
use crate::facts::Gap;
use crate::finding::{Finding, Place};
use crate::group::GroupSummary;
use crate::reach;
use crate::realtime::summary::RealtimeSummaries;
use crate::region::Region;
use crate::sums::{GroupSums, Sums};

/// The most rounds of a check. A round reads the volume again and collects the facts of balances
/// (comparisons of two structures by sums) that do not hold.
const MOST_ROUNDS: usize = 64;

/// The balances (comparisons of two structures by sums) that do not hold, divided into rounds. The
/// facts that one round collects fit into `limit_bytes`.
pub(crate) struct Rounds {
    limit_bytes: u64,
    used_bytes: u64,
    pub(crate) list: Vec<Differing>,
    /// Number of groups and of buckets of inodes whose differences are not explained, because all
    /// `MOST_ROUNDS` rounds are full.
    pub(crate) left: u64,
}

impl Rounds {
    /// Returns the round for a group or a bucket of inodes whose facts need `bytes` bytes; `None`
    /// if no round is left. A group or a bucket that is larger than the limit has a round of its
    /// own.
    fn round_for(&mut self, bytes: u64) -> Option<&mut Differing> {
        let is_full = self.used_bytes > 0 && bytes > self.limit_bytes - self.used_bytes;
        if self.list.is_empty() || is_full {
            if self.list.len() == MOST_ROUNDS {
                self.left += 1;
                return None;
            }
            self.list.push(Differing::default());
            self.used_bytes = 0;
        }
        self.used_bytes = self.used_bytes.saturating_add(bytes).min(self.limit_bytes);
        self.list.last_mut()
    }
}

/// Returns the balances (comparisons of two structures by sums) that do not hold, by group or by
/// bucket of inodes. They are divided into rounds of at most `limit_bytes` bytes.
pub(crate) fn differing(sums: &Sums, limit_bytes: u64) -> Rounds {
    let limit_bytes = limit_bytes.max(1);
    let mut rounds = Rounds { limit_bytes, used_bytes: 0, list: Vec::new(), left: 0 };
    let groups = (0..).map(|group| Region::Data(AgNumber(group))).zip(&sums.groups);
    let realtime = sums.realtime.iter().map(|(region, sums)| (Region::Realtime(*region), sums));
    for (region, sums) in groups.chain(realtime).filter(|(_, sums)| !sums.holds()) {
        if let Some(round) = rounds.round_for(sums.list_bytes()) {
            insert_region(round, region, sums);
        }
    }
    for (index, bucket) in sums.inodes.iter().enumerate().filter(|(_, sums)| !sums.holds()) {
        let Some(round) = rounds.round_for(bucket.list_bytes) else { continue };
        if bucket.links != 0 || bucket.has_pinned {
            round.links.insert(index);
        }
        if bucket.directories != 0 {
            round.directories.insert(index);
        }
        if bucket.parents != 0 {
            round.parents.insert(index);
        }
    }
    for (index, bucket) in sums.usage.iter().enumerate().filter(|(_, sums)| sums.usage != 0) {
        let Some(round) = rounds.round_for(bucket.list_bytes) else { continue };
        round.usage.insert(index);
    }
    rounds
}

/// Adds to a round the balances of a region that do not hold.
fn insert_region(round: &mut Differing, region: Region, sums: &GroupSums) {
    let spans = [(sums.coverage, &mut round.coverage), (sums.reverse_map, &mut round.reverse_map)];
    for (_, set) in spans.into_iter().filter(|(sum, _)| *sum != 0) {
        set.insert(region);
    }
    let Region::Data(group) = region else { return };
    let records =
        [(sums.free_space, &mut round.free_space), (sums.free_inodes, &mut round.free_inodes)];
    for (_, set) in records.into_iter().filter(|(sum, _)| *sum != 0) {
        set.insert(group);
    }
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
    let metadata = volume.superblock.metadata_directory_inode;
    if let Some(metadata) = metadata.filter(|inode| !pairs.contains(&(*inode, *inode))) {
        let place = Place::of_inode(metadata, volume.geometry());
        let found = format!("the root of the metadata directory is {metadata}");
        let finding = Finding::new(Code::MetaRoot, place, found);
        let finding = finding.expected("a directory that is its own parent");
        judge.judge(finding, Doubt::near(metadata, &[Gap::Names]));
    }
    if !pairs.contains(&(root, root)) {
        let place = Place::of_inode(root, volume.geometry());
        let found = format!("the root directory is {root}");
        let finding = Finding::new(Code::SbRoot, place, found);
        let finding = finding.expected("a directory that is its own parent");
        judge.judge(finding, Doubt::near(root, &[Gap::Names]));
    }
    reach::check(pairs, volume.geometry(), judge.findings);
}

/// Compares the counters of the superblock with the sums over all groups. Does nothing if the
/// counts of a group are not known.
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

/// Compares the count of free realtime extents of the superblock with the bitmaps. Does nothing if
/// the bitmap of a group is not known.
pub(crate) fn free_extents(groups: &RealtimeSummaries, volume: Volume<'_>, judge: &mut Judge<'_>) {
    let superblock = volume.superblock;
    if !superblock.has_realtime() {
        return;
    }
    let is_zoned = superblock.has_incompat(IncompatFeatures::ZONED);
    let expected = volume.geometry().realtime.group_count.max(1);
    let counted = if is_zoned {
        // A zoned section has no bitmap, and its count is not stored.
        Some(0)
    } else if groups.len() as u64 == u64::from(expected) {
        groups.values().map(|group| group.free_extents).sum()
    } else {
        None
    };
    let stored = superblock.free_realtime_extents;
    if let Some(counted) = counted.filter(|counted| *counted != stored) {
        let finding = Finding::new(Code::RtFreeExtents, Place::default(), stored.to_string());
        judge.judge(finding.expected(counted.to_string()), Doubt::of(&[Gap::Superblock]));
    }
}

#[cfg(test)]
mod tests;
