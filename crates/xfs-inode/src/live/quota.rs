//! Quota for the blocks of a file.
//!
//! Owns: which owners a reservation counts for, and the quota of one allocation. Does **not** own:
//! limits and usage (`xfs-trans`), or when a write reserves ([`write`](super::write)).

use xfs_alloc::Section;
use xfs_buffer::{BufferCache, Result};
use xfs_format::Geometry;
use xfs_format::inode::ForkKind;
use xfs_trans::{Journal, QuotaAmount, QuotaOwners, QuotaReservation, Transaction};

use super::LiveInode;

/// The quota of one allocation: the part that was reserved when a write was accepted into memory,
/// and the amount that the transaction must still reserve.
pub(super) struct QuotaShare {
    pub(super) accepted: QuotaReservation,
    pub(super) missing: QuotaAmount,
}

impl LiveInode {
    /// Reserves quota for an allocation of this transaction. Joins the inode to the transaction, so
    /// that its owners stay the same until the commit.
    pub(super) fn reserve_quota(&self, tx: &mut Transaction<'_>, share: QuotaShare) -> Result<()> {
        if !tx.counts_quota() {
            return Ok(());
        }
        tx.join(&self.log_item);
        let QuotaShare { accepted, missing } = share;
        tx.use_reservation(accepted);
        let owners = QuotaOwners::of(self.inode().core());
        tx.reserve_quota(owners, missing)
    }

    /// Returns the quota amount of `blocks` blocks of contents. They count as blocks of the section
    /// that holds the file's contents: data or realtime.
    pub(super) fn contents_amount(&self, geometry: &Geometry, blocks: u64) -> QuotaAmount {
        match self.section(geometry, ForkKind::Data) {
            Section::Data => QuotaAmount::of_blocks(blocks),
            Section::Realtime => QuotaAmount { rt_blocks: blocks, ..QuotaAmount::default() },
        }
    }

    /// Returns the quota that the owners of the file are charged for it: one inode, and its blocks.
    ///
    /// # Errors
    ///
    /// The errors of loading the extent map of a realtime file.
    pub fn quota_usage(&self, cache: &BufferCache) -> Result<QuotaAmount> {
        let inode = self.inode();
        let core = inode.core();
        if inode.has_realtime_contents() {
            inode.extent_map(cache, ForkKind::Data)?;
        }
        let rt_blocks = inode.realtime_blocks();
        // The count of an inode includes its realtime blocks.
        Ok(QuotaAmount { blocks: core.blocks.saturating_sub(rt_blocks), rt_blocks, inodes: 1 })
    }

    /// Returns how many of `wanted` blocks the file may get in advance of its need (preallocation).
    /// Fewer blocks are allowed near a quota limit.
    #[must_use]
    pub fn blocks_ahead(&self, journal: &Journal, wanted: u64) -> u64 {
        if wanted == 0 || journal.ledger().is_none() {
            return wanted;
        }
        let owners = QuotaOwners::of(self.inode().core());
        let wanted = self.contents_amount(journal.geometry(), wanted);
        match QuotaReservation::blocks_ahead(journal, owners, wanted) {
            Ok(ahead) => ahead.blocks + ahead.rt_blocks,
            // No block ahead of its need. The allocation asks for the same dquots, and reports the
            // error.
            Err(_) => 0,
        }
    }

    /// Reserves quota for `blocks` blocks of contents of this file, on a volume that counts usage.
    ///
    /// # Errors
    ///
    /// EDQUOT, or for a project ENOSPC.
    pub fn quota_for(&self, journal: &Journal, blocks: u64) -> Result<QuotaReservation> {
        self.quota_of(journal, self.contents_amount(journal.geometry(), blocks))
    }

    /// Reserves an amount for the owners of this file, on a volume that counts usage.
    pub(super) fn quota_of(
        &self,
        journal: &Journal,
        amount: QuotaAmount,
    ) -> Result<QuotaReservation> {
        if journal.ledger().is_none() {
            return Ok(QuotaReservation::default());
        }
        let owners = QuotaOwners::of(self.inode().core());
        QuotaReservation::take(journal, owners, amount)
    }

    /// Reserves quota for a copy of shared blocks, until the returned value is dropped.
    pub(super) fn quota_for_share(
        &self,
        journal: &Journal,
        share: QuotaShare,
    ) -> Result<QuotaReservation> {
        match share.missing == QuotaAmount::default() {
            true => Ok(share.accepted),
            false => self.quota_of(journal, share.missing),
        }
    }
}
