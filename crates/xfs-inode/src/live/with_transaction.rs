//! Functions that run work in one transaction.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{BlockReservation, FallbackPool, Journal, Transaction};

/// Runs `work` in a transaction of its own. Commits the transaction if `work` succeeds, or cancels
/// it if `work` fails. A cancellation after a change shuts the volume down.
pub(crate) fn with_transaction<R>(
    journal: &Arc<Journal>,
    kind: TransactionKind,
    blocks: u64,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
) -> Result<R> {
    journal.begin(kind, blocks)?.commit_or_cancel(work)
}

/// Runs `work` as [`with_transaction`] does. The transaction makes data visible that has been
/// written already, so on a full volume it may take blocks from the reserved pool.
pub(crate) fn with_pool_transaction<R>(
    journal: &Arc<Journal>,
    blocks: u64,
    reservation: &mut BlockReservation,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
) -> Result<R> {
    let (kind, fallback) = (TransactionKind::Write, FallbackPool::Reserved);
    let tx = journal.begin_reserved(kind, blocks, reservation, fallback)?;
    tx.commit_or_cancel(|tx| {
        let answer = work(tx)?;
        tx.finish_deferred()?;
        tx.return_to(reservation);
        Ok(answer)
    })
}

/// Runs `work` as [`with_transaction`] does, but also commits if an allocation in `work` fails.
/// `work` must allocate before it changes anything. A failed allocation may have filled the free
/// lists of groups. These changes are consistent, so they can be committed.
pub(crate) fn with_allocation_transaction<R>(
    journal: &Arc<Journal>,
    blocks: u64,
    reservation: &mut BlockReservation,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
) -> Result<R> {
    let (kind, fallback) = (TransactionKind::Write, FallbackPool::Free);
    let tx = journal.begin_reserved(kind, blocks, reservation, fallback)?;
    tx.commit_or_cancel(|tx| {
        let answer = match work(tx) {
            Err(Error::Posix(PosixError::NoSpace)) => None,
            answer => Some(answer?),
        };
        tx.finish_deferred()?;
        tx.return_to(reservation);
        Ok(answer)
    })?
    .ok_or_else(|| PosixError::NoSpace.into())
}
