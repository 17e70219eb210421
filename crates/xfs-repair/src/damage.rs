//! The findings of a check, by the object that has to be rewritten.
//!
//! Owns: the grouping. Does **not** own: how an object is rewritten (the rules).

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Code, Finding, Report};
use xfs_format::{AgNumber, DiskAddr, InodeNumber};

/// The damage of a round: the findings above `preen`, grouped by object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage {
    /// The findings that name an inode.
    pub(crate) inodes: BTreeMap<InodeNumber, Vec<Finding>>,
    /// The findings that name a group and no inode.
    pub(crate) groups: BTreeMap<AgNumber, Vec<Finding>>,
    /// The findings of the volume as a whole.
    pub(crate) volume: Vec<Finding>,
}

impl Damage {
    /// Groups the findings of a report. `owner` returns the inode to which the block at an address
    /// belongs: findings in blocks of a fork's btree name only the address.
    pub(crate) fn of(
        report: &Report,
        mut owner: impl FnMut(DiskAddr) -> Option<InodeNumber>,
    ) -> Self {
        let mut damage = Self::default();
        for finding in report.findings.iter().filter(|finding| finding.severity().is_damage()) {
            let finding = finding.clone();
            let place = finding.place;
            let inode = place.inode.or_else(|| place.disk_addr.and_then(&mut owner));
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

    /// Returns the codes of the findings of an inode, in order and each once.
    pub(crate) fn codes_of(&self, inode: InodeNumber) -> Vec<Code> {
        codes(self.inodes.get(&inode).into_iter().flatten())
    }

    /// Returns the codes of the findings of a group, in order and each once.
    pub(crate) fn codes_of_group(&self, group: AgNumber) -> Vec<Code> {
        codes(self.groups.get(&group).into_iter().flatten())
    }
}

fn codes<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Code> {
    let codes: BTreeSet<Code> = findings.map(|finding| finding.code).collect();
    codes.into_iter().collect()
}
