//! The comparison of the usage of owners: as their dquots state it, and as the sum over their
//! inodes.

use std::collections::BTreeMap;
use std::fmt;

use xfs_format::InodeNumber;
use xfs_format::dquot::DquotPlace;

use crate::blocks::Volume;
use crate::cause::{Doubt, Judge};
use crate::code::Code;
use crate::facts::{Gap, QuotaOwner, Usage};
use crate::finding::{Finding, Place};
use crate::quota;

/// The usage of an owner. The fields are so wide that the sum over any number of inodes fits, even
/// if damaged inodes have the largest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageTotal {
    inodes: u128,
    blocks: u128,
    realtime_blocks: u128,
}

impl UsageTotal {
    pub(super) fn add(&mut self, usage: &Usage) {
        self.inodes += u128::from(usage.inodes);
        self.blocks += u128::from(usage.blocks);
        self.realtime_blocks += u128::from(usage.realtime_blocks);
    }
}

impl fmt::Display for UsageTotal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} blocks, {} inodes", self.blocks, self.inodes)?;
        match self.realtime_blocks {
            0 => Ok(()),
            blocks => write!(formatter, ", {blocks} realtime blocks"),
        }
    }
}

/// Adds the usage of the owners that another thread has collected.
pub(super) fn merge(
    mine: &mut BTreeMap<QuotaOwner, UsageTotal>,
    theirs: BTreeMap<QuotaOwner, UsageTotal>,
) {
    for (owner, usage) in theirs {
        let total = mine.entry(owner).or_default();
        total.inodes += usage.inodes;
        total.blocks += usage.blocks;
        total.realtime_blocks += usage.realtime_blocks;
    }
}

/// Reports each owner whose dquot states another usage than its inodes have.
pub(super) fn explain(
    used: &BTreeMap<QuotaOwner, UsageTotal>,
    stated: &BTreeMap<QuotaOwner, UsageTotal>,
    volume: Volume<'_>,
    judge: &mut Judge<'_>,
) {
    let without_dquot = used.keys().filter(|owner| !stated.contains_key(*owner));
    for owner in stated.keys().chain(without_dquot) {
        let of = |usages: &BTreeMap<_, UsageTotal>| usages.get(owner).copied().unwrap_or_default();
        let (found, expected) = (of(stated), of(used));
        if found == expected {
            continue;
        }
        let QuotaOwner { kind, id } = *owner;
        let shown = format!("{} {id} has {found}", kind.name());
        let finding = Finding::new(Code::QuotaCount, place(*owner, volume), shown)
            .expected(expected.to_string())
            .witness("the dquot", found.to_string())
            .witness("the inodes", expected.to_string());
        judge.judge(finding, Doubt::of(&[Gap::Usage]));
    }
}

/// Returns the place of an owner's dquot.
fn place(owner: QuotaOwner, volume: Volume<'_>) -> Place {
    let is_of_kind = |inode: &InodeNumber| quota::kind_of(volume, *inode) == Some(owner.kind);
    let inode = volume.quota_inodes().into_iter().flatten().find(is_of_kind);
    let geometry = volume.geometry();
    let block = DquotPlace::of(owner.id, geometry).block;
    inode.map_or_else(Place::default, |inode| {
        Place::of_inode(inode, geometry).at_file_block(block, false)
    })
}
