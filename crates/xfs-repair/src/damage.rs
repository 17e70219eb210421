//! Groups the findings of a check by the object that has to be rewritten.
//!
//! Owns: the grouping. Does **not** own: how an object is rewritten, which the rules decide.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Area, Code, Finding, Report};
use xfs_format::{AgNumber, DiskAddr, Geometry, InodeNumber};

/// The damage that the check at the start of a round of repairs has found: all findings more severe
/// than `preen` (the lowest level), grouped by the object to which they belong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage {
    /// The findings about an inode, its forks included.
    pub(crate) inodes: BTreeMap<InodeNumber, Vec<Finding>>,
    /// The findings about a group. A finding about the btrees of a group is here even if it also
    /// names an inode.
    pub(crate) groups: BTreeMap<AgNumber, Vec<Finding>>,
    /// The inodes with a fork whose extents are not those that the reverse map has for this fork.
    pub(crate) disputed: BTreeSet<InodeNumber>,
    /// All other findings: those about neither an inode nor a group.
    pub(crate) volume: Vec<Finding>,
}

impl Damage {
    /// Groups the findings of a report. `owner` returns the inode to which the block at an address
    /// belongs. `owner` is needed because a finding about a btree block of a fork names only the
    /// address of the block.
    pub(crate) fn of(
        report: &Report,
        mut owner: impl FnMut(DiskAddr) -> Option<InodeNumber>,
    ) -> Self {
        let mut damage = Self::default();
        for finding in report.findings.iter().filter(|finding| finding.severity().is_damage()) {
            let finding = finding.clone();
            let place = finding.place;
            if matches!(
                finding.code,
                Code::RmapMissing | Code::RmapExtra | Code::RtRmapMissing | Code::RtRmapExtra
            ) {
                damage.disputed.extend(place.inode);
            }
            let named = place.inode.filter(|_| !is_of_group(finding.code));
            let inode = named.or_else(|| {
                let at = place.disk_addr.filter(|_| finding.code.area() == Area::Btree);
                at.and_then(&mut owner)
            });
            match (inode, place.group) {
                (Some(inode), _) => damage.inodes.entry(inode).or_default().push(finding),
                (None, Some(group)) => damage.groups.entry(group).or_default().push(finding),
                (None, None) => damage.volume.push(finding),
            }
        }
        damage
    }

    /// Returns whether nothing is damaged.
    pub(crate) fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.groups.is_empty() && self.volume.is_empty()
    }

    /// Returns whether the space btrees or the AGF of a group are damaged.
    pub(crate) fn has_space_damage(&self, group: AgNumber) -> bool {
        let findings = self.groups.get(&group).into_iter().flatten();
        findings.into_iter().any(|finding| {
            matches!(
                finding.code.area(),
                Area::Agf
                    | Area::Agfl
                    | Area::Btree
                    | Area::FreeSpace
                    | Area::ReverseMap
                    | Area::Refcount
                    | Area::Space
            )
        })
    }

    /// Returns the codes of the findings about the unlinked lists of a group.
    pub(crate) fn codes_of_unlinked(&self, group: AgNumber, geometry: &Geometry) -> Vec<Code> {
        let is_unlinked = |code: Code| {
            matches!(code, Code::AgiUnlinked | Code::AgiUnlinkedList | Code::InodeUnlinked)
        };
        let is_here =
            |inode: &InodeNumber| geometry.split_inode(*inode).is_some_and(|(own, _)| own == group);
        let of_inodes = self.inodes.iter().filter(|(inode, _)| is_here(inode));
        let of_group = self.groups.get(&group).into_iter().flatten();
        let all = of_inodes.flat_map(|(_, findings)| findings).chain(of_group);
        codes(all.filter(|finding| is_unlinked(finding.code)))
    }

    /// Returns the codes of the findings about an inode, sorted and without duplicates.
    pub(crate) fn codes_of(&self, inode: InodeNumber) -> Vec<Code> {
        codes(self.inodes.get(&inode).into_iter().flatten())
    }

    /// Returns the codes of the findings about a group, sorted and without duplicates.
    pub(crate) fn codes_of_group(&self, group: AgNumber) -> Vec<Code> {
        codes(self.groups.get(&group).into_iter().flatten())
    }
}

/// Returns whether a finding with this code is about the btrees of a group, even if it names an
/// inode.
fn is_of_group(code: Code) -> bool {
    matches!(
        code.area(),
        Area::FreeSpace | Area::ReverseMap | Area::Refcount | Area::Space | Area::InodeBtree
    )
}

fn codes<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Code> {
    let codes: BTreeSet<Code> = findings.map(|finding| finding.code).collect();
    codes.into_iter().collect()
}
