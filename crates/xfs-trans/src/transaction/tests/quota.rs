//! Tests of transactions on a volume whose owners have no dquots.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::InodeNumber;
use xfs_format::dquot::{DquotDisk, QuotaKind};
use xfs_sync::{AtomicU32, Ordering, Volume};

use super::{begin, root};
use crate::testing::{make, open};
use crate::{Dquot, DquotFields, Journal, QuotaAmount, QuotaLedger, QuotaOwners, QuotaReservation};

/// A ledger that counts users and has no dquot of any user.
struct EmptyLedger {
    /// Number of calls of `give_up_damaged`.
    given_up: AtomicU32<Volume>,
}

impl QuotaLedger for EmptyLedger {
    fn counts(&self, kind: QuotaKind) -> bool {
        kind == QuotaKind::User
    }

    fn is_exempt(&self, _: InodeNumber) -> bool {
        false
    }

    fn dquot(&self, _: &Journal, _: QuotaKind, _: u32) -> Result<Option<Arc<Dquot>>> {
        Ok(None)
    }

    fn note_damaged(&self, _: QuotaKind, _: u32) {}

    fn ensure(&self, _: &Arc<Journal>, _: QuotaKind, _: u32) -> Result<()> {
        Ok(())
    }

    fn give_up_damaged(&self, journal: &Arc<Journal>) -> Result<()> {
        assert!(root(journal).latch().try_lock_exclusive(), "the chain has released its latches");
        root(journal).latch().unlock_exclusive();
        self.given_up.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn adjust(&self, _: QuotaKind, _: &mut DquotDisk) {}

    fn check(&self, _: QuotaKind, _: &DquotFields, _: QuotaAmount) -> Result<()> {
        Ok(())
    }

    fn ahead(&self, _: QuotaKind, _: &DquotFields, wanted: QuotaAmount) -> QuotaAmount {
        wanted
    }
}

/// Opens a volume that counts the usage of users, but has no dquots. Returns the journal and the
/// ledger.
fn open_without_dquots() -> (Arc<Journal>, Arc<EmptyLedger>) {
    let journal = open(&make(), 0);
    let ledger = Arc::new(EmptyLedger { given_up: AtomicU32::new(0) });
    journal.set_ledger(Arc::clone(&ledger) as Arc<dyn QuotaLedger>);
    (journal, ledger)
}

/// Adds 8 blocks to the root directory in a transaction that rolls. No dquot exists to count these
/// blocks. Ends the chain by a commit or, if `is_cancelled`, by cancelling its last step, which has
/// no changes.
fn lose_a_change(journal: &Arc<Journal>, is_cancelled: bool) {
    let record = root(journal);
    let mut tx = begin(journal);
    tx.join(&record);
    let core = record.core().unwrap();
    tx.remember_charge(&record, &core);
    crate::testing::change_core(&mut tx, &record, |core| core.blocks += 8);
    tx.roll().unwrap();
    if is_cancelled {
        tx.cancel();
    } else {
        let _ = tx.commit().unwrap();
    }
}

#[test]
fn chain_that_lost_a_change_gives_up_the_checked_bits_at_its_end() {
    for is_cancelled in [false, true] {
        let (journal, ledger) = open_without_dquots();
        lose_a_change(&journal, is_cancelled);
        assert_eq!(ledger.given_up.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn chain_without_a_lost_change_keeps_the_checked_bits() {
    let (journal, ledger) = open_without_dquots();
    let owners = QuotaOwners { uid: 0, gid: 0, project_id: 0 };
    let amount = QuotaAmount { inodes: 1, ..QuotaAmount::of_blocks(1) };
    drop(QuotaReservation::take(&journal, owners, amount).unwrap());
    let mut tx = begin(&journal);
    tx.join(&root(&journal));
    let _ = tx.commit().unwrap();
    assert_eq!(ledger.given_up.load(Ordering::Relaxed), 0);
}
