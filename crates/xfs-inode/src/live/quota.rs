//! Quota for the blocks of a file.
//!
//! Owns: which owners a reservation counts for, and the quota of one allocation. Does **not** own:
//! limits and usage (`xfs-trans`), or when a write reserves ([`write`](super::write)).

use xfs_buffer::Result;
use xfs_trans::{Journal, QuotaAmount, QuotaOwners, QuotaReservation, Transaction};

use super::LiveInode;

/// The quota of one allocation: the part that was reserved when the bytes were accepted, and the
/// number of blocks that the transaction must reserve.
pub(super) struct QuotaShare {
    pub(super) accepted: QuotaReservation,
    pub(super) missing_blocks: u64,
}

impl LiveInode {
    /// Reserves quota for an allocation of this transaction. Joins the inode, so that its owners
    /// stay.
    pub(super) fn reserve_quota(&self, tx: &mut Transaction<'_>, share: QuotaShare) -> Result<()> {
        if !tx.counts_quota() {
            return Ok(());
        }
        tx.join(&self.log_item);
        let QuotaShare { accepted, missing_blocks } = share;
        tx.use_reservation(accepted);
        let owners = QuotaOwners::of(self.inode().core());
        tx.reserve_quota(owners, QuotaAmount { blocks: missing_blocks, inodes: 0 })
    }

    /// Returns how many of `wanted` blocks the file may get ahead of its need. Near a limit of
    /// quota they are fewer.
    #[must_use]
    pub fn blocks_ahead(&self, journal: &Journal, wanted: u64) -> u64 {
        if wanted == 0 || journal.ledger().is_none() {
            return wanted;
        }
        let owners = QuotaOwners::of(self.inode().core());
        // The allocation reports the error.
        QuotaReservation::blocks_ahead(journal, owners, wanted).unwrap_or(0)
    }

    /// Reserves quota for `blocks` blocks of this file, on a volume that counts usage.
    ///
    /// # Errors
    ///
    /// EDQUOT, or for a project ENOSPC.
    pub fn quota_for(&self, journal: &Journal, blocks: u64) -> Result<QuotaReservation> {
        if journal.ledger().is_none() {
            return Ok(QuotaReservation::default());
        }
        let owners = QuotaOwners::of(self.inode().core());
        QuotaReservation::take(journal, owners, QuotaAmount { blocks, inodes: 0 })
    }

    /// Reserves quota for a copy of shared blocks, until the returned value is dropped.
    pub(super) fn quota_for_share(
        &self,
        journal: &Journal,
        share: QuotaShare,
    ) -> Result<QuotaReservation> {
        match share.missing_blocks {
            0 => Ok(share.accepted),
            blocks => self.quota_for(journal, blocks),
        }
    }
}
