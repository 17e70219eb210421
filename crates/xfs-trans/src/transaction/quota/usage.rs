//! Changes of usage, before a commit counts them in dquots.
//!
//! Owns: the sums of changes by owner, and adding a change to the counts of a dquot. Does **not**
//! own: which inodes have changed, or the dquots ([`quota`](super)).

use xfs_format::dquot::{DquotDisk, QuotaKind};
use zerocopy::big_endian::U64;

use super::{Charge, QuotaLedger, QuotaOwners, RealtimeBlocks};
use crate::dquot_item::QuotaAmount;

/// A change of usage.
#[derive(Clone, Copy, Default)]
pub(super) struct UsageChange {
    /// Number of blocks that the owner gains; negative if it loses blocks. The block count of an
    /// inode on disk may be any number of 64 bits, so a sum of such counts needs more bits.
    pub(super) blocks: i128,
    /// Number of blocks of the realtime section.
    pub(super) rt_blocks: i128,
    pub(super) inodes: i64,
}

impl UsageChange {
    /// Returns the usage of one inode with `blocks` blocks, of which `rt_blocks` are in the
    /// realtime section.
    pub(super) const fn of_inode(blocks: u64, rt_blocks: i128) -> Self {
        Self { blocks: blocks as i128 - rt_blocks, rt_blocks, inodes: 1 }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks - other.blocks,
            rt_blocks: self.rt_blocks - other.rt_blocks,
            inodes: self.inodes - other.inodes,
        }
    }

    const fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.rt_blocks += other.rt_blocks;
        self.inodes += other.inodes;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.blocks == 0 && self.rt_blocks == 0 && self.inodes == 0
    }

    /// Returns the increase of the owner's usage, which is taken out of its reservation. A count
    /// that decreases gives 0; an increase that does not fit in 64 bits gives the largest number.
    pub(super) fn gained(&self) -> QuotaAmount {
        QuotaAmount {
            blocks: self.blocks.clamp(0, u64::MAX.into()) as u64,
            rt_blocks: self.rt_blocks.clamp(0, u64::MAX.into()) as u64,
            inodes: self.inodes.max(0).cast_unsigned(),
        }
    }
}

/// A change of the usage of one owner.
#[doc(alias = "xfs_dqtrx")]
pub(super) struct DquotDelta {
    pub(super) kind: QuotaKind,
    pub(super) id: u32,
    pub(super) change: UsageChange,
}

/// The changes of usage in one step.
#[derive(Default)]
pub(in crate::transaction) struct UsageChanges {
    /// The changes by the owners of the inodes. Most steps change inodes of the same owners only,
    /// so the list has one element.
    pub(super) by_owners: Vec<(QuotaOwners, UsageChange)>,
    /// The changes in the order of type and ID. Filled only if `by_owners` has several elements.
    pub(super) by_owner: Vec<DquotDelta>,
}

impl UsageChanges {
    /// Adds the difference between the charges of an inode before and after the step.
    pub(super) fn add(&mut self, before: Charge, after: Charge, realtime: RealtimeBlocks) {
        let after = after.usage(realtime.after());
        match (before.usage(realtime.before()), after) {
            (Some((owners, before)), Some((same, after))) if owners == same => {
                self.of(owners).add(after.minus(before));
            }
            (before, after) => {
                if let Some((owners, usage)) = before {
                    self.of(owners).add(UsageChange::default().minus(usage));
                }
                if let Some((owners, usage)) = after {
                    self.of(owners).add(usage);
                }
            }
        }
    }

    fn of(&mut self, owners: QuotaOwners) -> &mut UsageChange {
        let at = self.by_owners.iter().position(|(known, _)| *known == owners);
        let at = at.unwrap_or_else(|| {
            self.by_owners.push((owners, UsageChange::default()));
            self.by_owners.len() - 1
        });
        let (_, change) = self.by_owners.get_mut(at).expect("the index was found or just added");
        change
    }

    /// Adds up the changes of each owner of a counted type, in the order of type and ID.
    pub(super) fn sort(&mut self, ledger: &dyn QuotaLedger) {
        for kind in QuotaKind::ALL.into_iter().filter(|kind| ledger.counts(*kind)) {
            for (owners, change) in &self.by_owners {
                let id = owners.id(kind);
                let at = self.by_owner.binary_search_by_key(&(kind, id), |one| (one.kind, one.id));
                match at.map(|at| self.by_owner.get_mut(at)) {
                    Ok(one) => one.expect("the search found the index").change.add(*change),
                    Err(at) => self.by_owner.insert(at, DquotDelta { kind, id, change: *change }),
                }
            }
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.by_owners.is_empty() && self.by_owner.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.by_owners.clear();
        self.by_owner.clear();
    }

    pub(super) fn capacity(&self) -> usize {
        self.by_owners.capacity().max(self.by_owner.capacity())
    }
}

/// Adds a change to the counts of a dquot. A count that would leave its range is set to the end of
/// the range. The result is then `false`: the dquot was damaged before.
pub(super) fn count(disk: &mut DquotDisk, change: &UsageChange) -> bool {
    let blocks = added(&mut disk.blocks, change.blocks);
    let rt_blocks = added(&mut disk.realtime_blocks, change.rt_blocks);
    let inodes = added(&mut disk.inodes, change.inodes.into());
    blocks && rt_blocks && inodes
}

/// Adds `change` to a count. If the sum leaves the range of the count, sets the count to the end of
/// its range and returns `false`.
#[inline]
fn added(count: &mut U64, change: i128) -> bool {
    if change == 0 {
        return true;
    }
    let sum = i128::from(count.get()) + change;
    let fitting = u64::try_from(sum);
    *count = fitting.unwrap_or(if sum < 0 { 0 } else { u64::MAX }).into();
    fitting.is_ok()
}
